"""Readers of data files: one function for all formats.

Nothing in a file is ever executed, declared sizes are not trusted for allocations, and each error is one sentence that names
the file.
"""

import functools
import os
import pathlib
from collections.abc import Callable, Mapping, Sequence

from ... import plugins
from ...errors import FileError, InvalidValue, MissingFile
from ..dataset import Dataset
from .arff import read_arff
from .build import settle, together
from .columns import Columns as Columns
from .folder import Reader, read_folder, suffix_of
from .npz import read_npz
from .source import NoTargetColumn as NoTargetColumn, Problem, shown
from .table import read_table
from .ts import read_ts

TABLES = (".csv", ".tsv", ".txt", ".parquet")
SUFFIXES = (".ts", ".arff", ".npz", *TABLES)
"""File extensions that can be read, in order of preference; text formats may also end in `.gz`."""
TASKS = ("classify", "regress", "per-step")


def read(
    path: str | os.PathLike[str],
    task: str | None = None,
    target: str | None = None,
    *,
    case: str | Sequence[str] | None = None,
    time: str | None = None,
    ignore: Sequence[str] = (),
    channels: Sequence[str] | None = None,
) -> Dataset:
    """Read a data set from a file or a folder.

    ```python
    import pathlib, tempfile
    from lrcssm.data.readers import read

    path = pathlib.Path(tempfile.mkdtemp()) / "waves.csv"
    path.write_text("label,0,1,2\\nup,1,2,3\\ndown,3,2,1\\nup,0,1,2\\n")
    waves = read(path)
    print(waves.name, len(waves), waves.task, waves.classes)  # waves 3 classify ('down', 'up')
    print(waves.guess)  # Rows are cases of up to 3 steps; target: 'label'.
    ```

    **Arguments:**

    - `path`: a file that ends in `.ts`, `.arff`, `.npz`, `.csv`, `.tsv`, `.txt` or `.parquet` (which needs pyarrow), text also
        packed as `.gz`; or a folder with files for training and test, with one file, with a table for each case, or with a
        folder of them for each class. See the page "Data formats".
    - `task`: `"classify"` or `"regress"` where a file leaves it open, `"per-step"` if each step has a target; by default
        guessed from the targets.
    - `target`, `case`, `time`: names of columns of a table: targets, cases (several are taken together) and times; `"none"` for
        no column. Guessed if not given; `Dataset.guess` describes the guess.
    - `ignore`: names of columns that are left out.
    - `channels`: names of the columns with values; all columns without another role if not given.

    **Returns:**

    A `Dataset`. A file that cannot be read raises `FileError`, and one that does not exist `FileNotFoundError`.
    """
    source, columns = pathlib.Path(path), Columns(case, time, target, ignore, channels)
    if task not in (None, *TASKS):
        raise InvalidValue(f"read got task={task!r}; give one of {', '.join(TASKS)}.")
    if source.is_dir() and (known := _by_extension(source)) is not None:
        if columns.given:
            raise _no_columns(source, columns)
        return known
    readers = _readers(columns, task)
    make = (
        (lambda: read_folder(source, readers, columns, task))
        if source.is_dir()
        else lambda: _read_file(source, readers)
    )
    return _guarded(source, make, task)


def _by_extension(folder: pathlib.Path) -> Dataset | None:
    """Read a folder with a layout that an installed extension supports."""
    for name in plugins.find("readers"):
        reader = plugins.load("readers", name)
        if reader is not None and (found := reader(folder)) is not None:
            return found
    return None


def read_parts(
    paths: Mapping[str, str | os.PathLike[str]], name: str, task: str | None = None, columns: Columns = Columns()
) -> Dataset:
    """Read a data set whose parts are separate files.

    **Arguments:**

    - `paths`: of `"train"`, `"test"` and optionally `"validation"`. Whether whole numbers are classes is decided for all parts
        together.
    - `name`: of the data set, if the files do not agree on one.
    - `task`: as for `read`.
    - `columns`: roles of columns.

    **Returns:**

    A `Dataset` with a split.
    """
    files = {part: pathlib.Path(path) for part, path in paths.items()}
    if not {"train", "test"} <= set(files) <= {"train", "validation", "test"}:
        raise InvalidValue(f"read_parts got {sorted(files)}; give train, test and optionally validation.")
    readers = _readers(columns, task)
    parts = lambda: {part: (path, _read_file(path, readers)) for part, path in files.items()}
    return _guarded(files["train"], lambda: together(parts(), name, task), task)


def _readers(columns: Columns, task: str | None) -> dict[str, Reader]:
    """Return the readers of all formats; only tables have selectable columns."""

    def guarded(reader: Reader, tables: bool) -> Reader:
        def read_one(path: pathlib.Path) -> Dataset:
            if columns.given and not tables:
                raise _no_columns(path, columns)
            try:
                return reader(path)
            except Problem as problem:
                raise FileError(f"{path}: {problem}") from None

        return read_one

    own = {".ts": read_ts, ".arff": read_arff, ".npz": functools.partial(read_npz, task=task)}
    table = functools.partial(read_table, columns=columns, task=task)
    return {suffix: guarded(own.get(suffix, table), suffix in TABLES) for suffix in SUFFIXES}


def _no_columns(path: pathlib.Path, columns: Columns) -> NoTargetColumn:
    role, names = next(iter(columns.given.items()))
    return NoTargetColumn(
        f"{path} has no columns to choose from, so {role}={shown(str(names[0]))} cannot be used; leave it out."
    )


def _read_file(source: pathlib.Path, readers: Mapping[str, Reader]) -> Dataset:
    if not source.exists():
        raise MissingFile(f"{source} does not exist; give a file or a folder.")
    reader = readers.get(suffix_of(source))
    if not source.is_file() or reader is None:
        raise FileError(f"{source} is not a file that ends in {', '.join(readers)}, nor a folder with such files.")
    if source.stat().st_size == 0:
        raise FileError(f"{source} is empty.")
    return reader(source)


def _guarded(source: pathlib.Path, make: Callable[[], Dataset], task: str | None) -> Dataset:
    """Convert errors of the system to messages that name the file."""
    try:
        return settle(make(), source, task)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise FileError(f"{source} cannot be read: {error.strerror or error}.") from error
    except (MemoryError, RecursionError) as error:
        raise FileError(f"{source} is too large or too deep to be read on this machine.") from error
