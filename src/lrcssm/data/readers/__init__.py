"""Data sets from files: one function that knows the formats.

Nothing that a file claims is believed before it is compared with what is there, nothing in a file is ever executed, and
whatever is wrong with one is said in a sentence that names it.
"""

import functools
import os
import pathlib
from collections.abc import Callable, Mapping

from ... import plugins
from ...errors import InvalidValue, MissingFile
from ...files import FileError
from ..dataset import Dataset
from .arff import read_arff
from .csv import read_csv
from .folder import Reader, read_folder, suffix_of, together
from .npz import read_npz
from .raw import Raw, finish
from .source import NoTargetColumn as NoTargetColumn, shown
from .ts import read_ts

READERS: dict[str, Reader] = {".ts": read_ts, ".arff": read_arff, ".npz": read_npz, ".csv": read_csv}


def read(path: str | os.PathLike[str], task: str | None = None, target: str | None = None) -> Dataset:
    """Reads a data set from a file or a folder.

    ```python
    import pathlib, tempfile
    from lrcssm.data.readers import read

    path = pathlib.Path(tempfile.mkdtemp()) / "waves.csv"
    path.write_text("label,0,1,2\\nup,1,2,3\\ndown,3,2,1\\nup,0,1,2\\n")
    waves = read(path)
    print(waves.name, len(waves), waves.task, waves.classes)  # waves 3 classify ('down', 'up')
    ```

    **Arguments:**

    - `path`: a file that ends in `.ts`, `.arff`, `.npz` or `.csv`, the text formats also packed as `.gz`; or a folder with
        files for training and test, with one file, with a `.csv` for each case, or with a folder of them for each class; or
        that of PPG-DaLiA. The documentation shows each.
    - `task`: `"classify"` or `"regress"` where a file leaves it open; decided by what the targets look like if not given.
    - `target`: the name of the column of a `.csv` that holds the targets, or `"none"` if no column does; known by usual names
        if not given.

    **Returns:**

    A `Dataset`. What cannot be read raises `FileError`, and what is not there `FileNotFoundError`.
    """
    source = pathlib.Path(path)
    if source.is_dir() and (known := _by_extension(source)) is not None:
        if target is not None:
            raise _no_columns(source, target)
        return known
    readers = _readers(target)
    if source.is_dir():
        return _guarded(source, lambda: read_folder(source, readers, task, target), task)
    return _guarded(source, lambda: _read_file(source, readers), task)


def _by_extension(folder: pathlib.Path) -> Dataset | None:
    """Data set of a folder whose layout an installed extension knows."""
    for name in plugins.find("readers"):
        reader = plugins.load("readers", name)
        if reader is not None and (found := reader(folder)) is not None:
            return found
    return None


def read_parts(
    paths: Mapping[str, str | os.PathLike[str]], name: str, task: str | None = None, target: str | None = None
) -> Dataset:
    """Reads a data set whose parts are files of their own.

    **Arguments:**

    - `paths`: of `"train"`, `"test"` and perhaps `"validation"`. What they leave open, such as whether whole numbers are
        classes, is decided for all parts together.
    - `name`: of the data set, where the files themselves do not agree on one.
    - `task`, `target`: as for `read`.

    **Returns:**

    A `Dataset` whose split says which is which.
    """
    files = {part: pathlib.Path(path) for part, path in paths.items()}
    if not {"train", "test"} <= set(files) <= {"train", "validation", "test"}:
        raise InvalidValue(f"read_parts got {sorted(files)}; give train, test and perhaps validation.")
    readers = _readers(target)
    return _guarded(
        files["train"],
        lambda: together({part: (path, _read_file(path, readers)) for part, path in files.items()}, name, task),
        task,
    )


def _readers(target: str | None) -> Mapping[str, Reader]:
    """The readers of all formats, of which only that of `.csv` can be told which column is the target."""
    if target is None:
        return READERS

    def refuse(path: pathlib.Path) -> Raw:
        raise _no_columns(path, target)

    return dict.fromkeys(READERS, refuse) | {".csv": functools.partial(read_csv, target=target)}


def _no_columns(path: pathlib.Path, target: str) -> NoTargetColumn:
    return NoTargetColumn(
        f"{path} says itself what its targets are, so {shown(target)} cannot be; --target is for columns of .csv files."
    )


def _read_file(source: pathlib.Path, readers: Mapping[str, Reader]) -> Raw:
    if not source.exists():
        raise MissingFile(f"{source} does not exist; give a file or a folder.")
    reader = readers.get(suffix_of(source))
    if not source.is_file() or reader is None:
        raise FileError(f"{source} is not a file that ends in {', '.join(READERS)}, nor a folder with such files.")
    if source.stat().st_size == 0:
        raise FileError(f"{source} is empty.")
    return reader(source)


def _guarded(source: pathlib.Path, make: Callable[[], Raw], task: str | None) -> Dataset:
    """Whatever a machine has against a file is said in a sentence too."""
    try:
        return finish(make(), source, task)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise FileError(f"{source} cannot be read: {error.strerror or error}.") from error
    except (MemoryError, RecursionError) as error:
        raise FileError(f"{source} is too large or too deep to be read on this machine.") from error
