"""Folders: the archive's pairs of files, parts by name, one file alone, a file for each case, or a sub-folder of those for
each class."""

import dataclasses
import pathlib
import re
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from ...files import FileError
from ..splits import Split
from .csv import read_one_csv
from .raw import Raw, join
from .source import NoTargetColumn, listed, shown

Reader = Callable[[pathlib.Path], Raw]
PARTS = {
    "train": "train", "training": "train", "validation": "validation", "valid": "validation", "val": "validation",
    "test": "test", "testing": "test",
}  # fmt: skip
# The archive has a file for each dimension beside those that hold all.
_ONE_DIMENSION = re.compile(r"dimension\d+$", re.IGNORECASE)


def read_folder(
    path: pathlib.Path, readers: Mapping[str, Reader], task: str | None = None, target: str | None = None
) -> Raw:
    """Reads all that belongs together.

    **Arguments:**

    - `path`: the folder.
    - `readers`: one for each suffix, in order of preference where a folder holds the same in several formats.
    - `task`: whether targets are classes, if that is known.
    - `target`: the column that `readers` take for the target; where a file is a case there can be none.
    """
    try:
        entries = sorted(entry for entry in path.iterdir() if not entry.name.startswith("."))
    except OSError as error:
        raise FileError(f"{path} cannot be read: {error.strerror or error}.") from error
    files = {entry: suffix for entry in entries if entry.is_file() and (suffix := suffix_of(entry)) in readers}
    for suffix, reader in readers.items():
        found = _parts(path, [file for file, own in files.items() if own == suffix], suffix)
        if found:
            return together({part: (file, reader(file)) for part, file in found.items()}, path.resolve().name, task)
    if len(files) == 1:
        ((file, suffix),) = files.items()
        return readers[suffix](file)
    if target is not None and set(files.values()) <= {".csv"}:
        raise NoTargetColumn(
            f"{path} has a file for each case, so that no column, as {shown(target)}, can be the target; leave --target out."
        )
    if files and set(files.values()) == {".csv"}:
        return _cases(path, sorted(files, key=_natural))
    if files:
        raise FileError(
            f"{path} holds {listed(file.name for file in files)}; expected NAME_TRAIN and NAME_TEST, train and test, one file, "
            "or a .csv for each case, so name the one to be read."
        )
    return _folders(path, [entry for entry in entries if entry.is_dir()], tuple(readers))


def suffix_of(path: pathlib.Path) -> str:
    """The suffix that tells the format, in small letters, e.g. `.ts` also for `a.TS.gz`."""
    suffixes = [one.lower() for one in path.suffixes]
    if len(suffixes) > 1 and suffixes[-1] == ".gz" and suffixes[-2] != ".npz":
        suffixes.pop()
    return suffixes[-1] if suffixes else ""


def _parts(path: pathlib.Path, files: Sequence[pathlib.Path], suffix: str) -> dict[str, pathlib.Path]:
    """Files of one format by part: NAME_TRAIN and NAME_TEST, or train, test and validation."""
    sets: dict[str, dict[str, pathlib.Path]] = {}
    for file in files:
        stem = file.name.lower().removesuffix(".gz").removesuffix(suffix)
        name, _, part = stem.rpartition("_")
        if part in PARTS and not _ONE_DIMENSION.search(name):
            if PARTS[part] in sets.setdefault(name, {}):
                other = sets[name][PARTS[part]].name
                raise FileError(
                    f"{path} holds {listed([other, file.name])}, both for {PARTS[part]}; leave one of them."
                )
            sets[name][PARTS[part]] = file
    complete = {name: parts for name, parts in sets.items() if {"train", "test"} <= set(parts)}
    if len(complete) > 1 and path.resolve().name.lower() in complete:
        return complete[path.resolve().name.lower()]
    if len(complete) > 1:
        raise FileError(f"{path} holds several data sets, {listed(complete)}; put each into a folder of its own.")
    return next(iter(complete.values()), {})


def together(parts: Mapping[str, tuple[pathlib.Path, Raw]], name: str, task: str | None = None) -> Raw:
    """Training, validation and test cases, in this order, and a split that tells them apart."""
    order = [part for part in ("train", "validation", "test") if part in parts]
    raws = [parts[part][1] for part in order]
    given = {raw.name for raw in raws}
    joined = join(raws, [parts[part][0] for part in order], given.pop() if len(given) == 1 else name, task)
    ends = np.cumsum([len(raw.series) for raw in raws])
    spans = {part: np.arange(end - len(raw.series), end) for part, end, raw in zip(order, ends, raws, strict=True)}
    split = Split(*(spans.get(part, np.arange(0)) for part in ("train", "validation", "test")))
    return dataclasses.replace(joined, split=split)


def _folders(path: pathlib.Path, folders: Sequence[pathlib.Path], suffixes: tuple[str, ...]) -> Raw:
    """One sub-folder for each class, perhaps within one for each part."""
    parts = {PARTS[folder.name.lower()]: folder for folder in folders if folder.name.lower() in PARTS}
    if parts and len(parts) == len(folders):
        if not {"train", "test"} <= set(parts):
            raise FileError(f"{path} holds {listed(one.name for one in folders)} only; expected train and test.")
        read = {part: (folder, _classes(folder, _visible_folders(folder))) for part, folder in parts.items()}
        return together(read, path.resolve().name)
    found = _classes(path, folders)
    if not found.series:
        raise FileError(
            f"{path} holds nothing that can be read; expected files that end in {', '.join(suffixes)}, or a folder for each "
            "class with .csv files."
        )
    return found


def _visible_folders(path: pathlib.Path) -> list[pathlib.Path]:
    return sorted(entry for entry in path.iterdir() if entry.is_dir() and not entry.name.startswith("."))


def _classes(path: pathlib.Path, folders: Sequence[pathlib.Path]) -> Raw:
    raws, files = [], []
    for folder in folders:
        for file in sorted(folder.iterdir(), key=_natural):
            if file.is_file() and not file.name.startswith(".") and suffix_of(file) == ".csv":
                case = read_one_csv(file)
                ids = (f"{folder.name}/{file.name}",)
                raws.append(dataclasses.replace(case, labels=[folder.name], classes=(), ids=ids))
                files.append(file)
    if not raws:
        return Raw(path.name, [])
    return dataclasses.replace(join(raws, files, path.resolve().name), classes=None)


def _cases(path: pathlib.Path, files: Sequence[pathlib.Path]) -> Raw:
    """A file for each case, without targets."""
    raws = [dataclasses.replace(read_one_csv(file), ids=(file.name,)) for file in files]
    return join(raws, files, path.resolve().name)


def _natural(path: pathlib.Path) -> list[tuple[bool, int, str]]:
    """2.csv before 10.csv."""
    parts = re.split(r"([0-9]{1,18})", path.name)
    return [(part.isdecimal(), int(part) if part.isdecimal() else 0, part) for part in parts]
