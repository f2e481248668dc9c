"""Data sets by name: built in, synthetic, or in the data directory; and files by their path."""

import dataclasses
import os
import pathlib
from collections.abc import Iterator, Sequence
from typing import Any

from ..errors import MissingFile
from ..files import cache_folder
from . import archive, problems, synthetic
from .bundled import digits
from .dataset import Dataset
from .download import DataError

SUFFIXES = (".npz", ".ts", ".arff", ".csv", ".tsv", ".parquet", ".txt")
"""File extensions that can be read, in order of preference; text formats may also end in `.gz`."""

BUILT_IN = {"digits": digits}


@dataclasses.dataclass(frozen=True)
class Entry:
    """An entry of the catalogue; numbers that require reading the data are `None`.

    **Attributes:**

    - `where`: `"built in"`, `"synthetic"`, `"directory"`, or `"archive"` if it would have to be fetched.
    """

    name: str
    where: str
    cases: int | None = None
    length: int | None = None
    channels: int | None = None
    classes: int | None = None


def directory(given: str | os.PathLike[str] | None = None) -> pathlib.Path:
    """Return the data directory: as given, else `$LRCSSM_DATA`, else one in the user's cache."""
    if given is not None:
        return pathlib.Path(given).expanduser()
    if named := os.environ.get("LRCSSM_DATA"):
        return pathlib.Path(named).expanduser()
    return cache_folder() / "data"


def load(
    source: str | os.PathLike[str],
    *,
    directory: str | os.PathLike[str] | None = None,
    task: str | None = None,
    target: str | None = None,
    case: str | Sequence[str] | None = None,
    time: str | None = None,
    ignore: Sequence[str] = (),
    channels: Sequence[str] | None = None,
) -> Dataset:
    """Read a data set by name, or from a file or folder.

    ```python
    from lrcssm.data import load

    dataset = load("adding:100")  # synthetic, 100 steps
    print(dataset.about)
    train, validation, test = dataset.parts()
    ```

    **Arguments:**

    - `source`: `"digits"`; the name of a generator in `lrcssm.data.synthetic`, also with a length as in
        `"adding:4000"`; a name in the data directory, for a file `NAME.npz`, `NAME.ts` and so on, a folder `NAME`, or
        `NAME_TRAIN.*` with `NAME_TEST.*`; or a path. To read a file called `digits`, write `./digits`.
    - `directory`: the data directory; `$LRCSSM_DATA` if not given, or a directory in the user's cache.
    - `task`: `"classify"` or `"regress"`, for files with whole numbers as targets; `"per-step"` if each
        step has a target; by default guessed from the targets.
    - `target`, `case`, `time`, `ignore`, `channels`: names of columns of a table, as for `lrcssm.data.readers.read`; guessed if
        not given, and the guess is in `Dataset.guess`.

    **Returns:**

    A `Dataset`.
    """
    from .readers import Columns, NoTargetColumn

    text, columns = os.fspath(source), Columns(case, time, target, ignore, channels)
    if isinstance(source, str):
        kind, colon, length = text.partition(":")
        if columns.given and (text in BUILT_IN or kind in synthetic.KINDS):
            role, own = next(iter(columns.given.items()))
            raise NoTargetColumn(f"{text} has no column {own[0]!r}; leave {role}= out.")
        if text in BUILT_IN:
            return BUILT_IN[text]()
        if kind in synthetic.KINDS:
            return _synthesise(kind, length if colon else None)
    if isinstance(source, os.PathLike) or _is_path(text):
        path = pathlib.Path(text).expanduser()
        if not path.exists():
            raise MissingFile(f"{text} does not exist; give a file, a folder, or a name of lrcssm data list.")
        return _read(path, task, columns)
    return _from_directory(text, _directory(directory), task, columns)


def _read(path: pathlib.Path, task: str | None, columns: Any) -> Dataset:
    from .readers import read

    return read(path, task, **dataclasses.asdict(columns))


def from_anywhere(source: str) -> str:
    """Make a source independent of the working directory: paths become absolute, names stay unchanged."""
    named = source in BUILT_IN or source.partition(":")[0] in synthetic.KINDS
    path = os.path.expanduser(source)
    return source if named or not os.path.exists(path) else os.path.abspath(path)


_directory = directory  # within `load` the name is that of an argument


def names(directory: str | os.PathLike[str] | None = None) -> tuple[str, ...]:
    """Return the names that `load` accepts now, without those that have to be fetched first."""
    return tuple(entry.name for entry in entries(directory) if entry.where != "archive")


def entries(directory: str | os.PathLike[str] | None = None) -> Iterator[Entry]:
    """Iterate over the catalogue; data sets that have to be fetched come last."""
    yield Entry("digits", "built in", 1797, 64, 1, 10)
    for name, kind in synthetic.KINDS.items():
        yield Entry(name, "synthetic", kind.cases, kind.length, kind.channels, kind.classes)
    found = _found(_directory(directory))
    for name in found:
        yield Entry(name, "directory", *_peek(name, found[name]))
    for name in problems.NAMES:
        if name not in found:
            yield Entry(name, "archive", *problems.MULTIVARIATE.get(name, ()))


def _is_path(text: str) -> bool:
    separators = {os.sep, os.altsep or os.sep}
    return any(mark in text for mark in separators) or _stem(text) != text or os.path.exists(text)


def _stem(file: str) -> str:
    """Strip the extension of a readable file; other names are unchanged."""
    bare = file.removesuffix(".gz")
    suffix = next((suffix for suffix in SUFFIXES if bare.lower().endswith(suffix)), None)
    return file if suffix is None else bare[: -len(suffix)]


def _synthesise(kind: str, length: str | None) -> Dataset:
    if length is None:
        return synthetic.KINDS[kind].make()
    if not (length.isascii() and length.isdecimal() and len(length) < 16):
        raise DataError(
            f"{kind}:{length} is not a data set; give a number of steps after the colon, as in {kind}:1000."
        )
    return synthetic.KINDS[kind].make(length=int(length))


def _found(place: pathlib.Path) -> dict[str, list[pathlib.Path]]:
    """Find the data sets of a directory by name, each with its files: one file or folder, or several parts."""
    if not place.is_dir():
        return {}
    found: dict[str, list[pathlib.Path]] = {}
    for path in sorted(place.iterdir()):
        if path.name.startswith("."):
            continue
        if path.is_dir():
            if any(_stem(child.name) != child.name or child.is_dir() for child in path.iterdir()):
                found.setdefault(path.name, []).insert(0, path)
        elif (stem := _stem(path.name)) != path.name:
            name = stem.removesuffix("_TRAIN").removesuffix("_TEST")
            if _suffix(path) == ".txt" and name == stem:
                continue  # a description more often than data
            found.setdefault(name, []).append(path)
    # Names of built-in and synthetic sets never mean files.
    return {name: paths for name, paths in found.items() if name and name not in (*BUILT_IN, *synthetic.KINDS)}


def _from_directory(name: str, place: pathlib.Path, task: str | None, columns: Any) -> Dataset:
    from .readers import read_parts

    found = _found(place)
    if name not in found:
        name = next((one for one in found if one.lower() == name.lower()), name)
    if name not in found:
        known = {one.lower(): one for one in problems.NAMES}
        if name.lower() in known:
            raise DataError(
                f"{known[name.lower()]} is not in {place}; lrcssm data fetch {known[name.lower()]} gets it from the archive."
            )
        like = problems.close(name, dict.fromkeys([*BUILT_IN, *synthetic.KINDS, *found, *problems.NAMES]))
        raise DataError(
            f"{name!r} is neither a file nor a data set in {place}{like or '; lrcssm data list shows all names'}."
        )
    paths = found[name]
    whole = [path for path in paths if path.is_dir() or _stem(path.name) == name]
    if whole:
        # A folder comes first, and one format is as good as another.
        chosen = min(whole, key=lambda path: -1 if path.is_dir() else SUFFIXES.index(_suffix(path)))
        if chosen.is_dir():
            archive.verify(chosen)
        return dataclasses.replace(_read(chosen, task, columns), name=name)
    formats = [_suffix(path) for path in paths]
    suffix = min(formats, key=lambda one: (-formats.count(one), SUFFIXES.index(one)))
    parts = {_stem(path.name).rpartition("_")[2].lower(): path for path in paths if _suffix(path) == suffix}
    if len(parts) == 2:
        return dataclasses.replace(read_parts(parts, name, task, columns), name=name)
    ((part, path),) = parts.items()
    dataset, word = _read(path, task, columns), "training" if part == "train" else "test"
    return dataclasses.replace(dataset, name=name, about=f"{dataset.about} Only the {word} part is here.".strip())


def _peek(name: str, paths: list[pathlib.Path]) -> tuple[int | None, ...]:
    """Return cases, length, channels and classes as far as they are known without reading the data: from the archive's table
    for a folder, from the array headers for a numpy file."""
    if paths[0].is_dir():
        return problems.MULTIVARIATE.get(name, ())
    if len(paths) > 1 or _suffix(paths[0]) != ".npz" or paths[0].suffix == ".gz":
        return ()
    from .readers import FileError
    from .readers.npz import shapes

    try:
        found = shapes(paths[0])
    except FileError:
        return ()
    size = (*found.get("X", ()), 1, None)[:3] if len(found.get("X", ())) in (2, 3) else (None,) * 3
    return (*size, *found.get("classes", (None,))[:1])


def _suffix(path: pathlib.Path) -> str:
    return path.name.removesuffix(".gz")[len(_stem(path.name)) :].lower()
