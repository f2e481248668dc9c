"""Data sets from files: one function that knows the formats.

Nothing that a file claims is believed before it is compared with what is there, nothing in a file is ever executed, and
whatever is wrong with one is said in a sentence that names it.
"""

import os
import pathlib

from ...files import FileError
from ..dataset import Dataset
from .arff import read_arff
from .csv import read_csv
from .folder import Reader, read_folder, suffix_of
from .npz import read_npz
from .raw import finish
from .ts import read_ts

READERS: dict[str, Reader] = {".ts": read_ts, ".arff": read_arff, ".npz": read_npz, ".csv": read_csv}


def read(path: str | os.PathLike[str]) -> Dataset:
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
        files for training and test, with one file, or with a folder for each class. The documentation shows each.

    **Returns:**

    A `Dataset`. What cannot be read raises `FileError`, and what is not there `FileNotFoundError`.
    """
    source = pathlib.Path(path)
    if not source.exists():
        raise FileNotFoundError(f"{source} does not exist; give a file or a folder.")
    try:
        if source.is_dir():
            return finish(read_folder(source, READERS), source)
        reader = READERS.get(suffix_of(source))
        if not source.is_file() or reader is None:
            raise FileError(f"{source} is not a file that ends in {', '.join(READERS)}, nor a folder with such files.")
        if source.stat().st_size == 0:
            raise FileError(f"{source} is empty.")
        return finish(reader(source), source)
    except OSError as error:
        raise FileError(f"{source} cannot be read: {error.strerror or error}.") from error
    except (MemoryError, RecursionError) as error:
        raise FileError(f"{source} is too large or too deep to be read on this machine.") from error
