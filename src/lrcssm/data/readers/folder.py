"""Folders: the archive's pairs of files, parts by name, one file alone, a file for each case, or a sub-folder of those for
each class."""

import dataclasses
import pathlib
import re
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from ...errors import FileError
from ..dataset import Dataset
from .build import join, together
from .columns import Columns
from .source import NoTargetColumn, Problem, listed, shown
from .table import read_table

Reader = Callable[[pathlib.Path], Dataset]
_PARTS = {
    "train": "train", "training": "train", "validation": "validation", "valid": "validation", "val": "validation",
    "test": "test", "testing": "test",
}  # fmt: skip
_TABLES = (".csv", ".tsv", ".parquet")
# The archive has a file for each dimension beside those that hold all.
_ONE_DIMENSION = re.compile(r"dimension\d+$", re.IGNORECASE)


def read_folder(
    path: pathlib.Path, readers: Mapping[str, Reader], columns: Columns = Columns(), task: str | None = None
) -> Dataset:
    """Read all files that belong together.

    **Arguments:**

    - `path`: the folder.
    - `readers`: one for each suffix, in order of preference if a folder has several formats.
    - `columns`: roles of columns, for tables of one case each.
    - `task`: as for `lrcssm.data.readers.read`.
    """
    try:
        entries = sorted(entry for entry in path.iterdir() if not entry.name.startswith("."))
    except OSError as error:
        raise FileError(f"{path} cannot be read: {error.strerror or error}.") from error
    files = {entry: suffix for entry in entries if entry.is_file() and (suffix := suffix_of(entry)) in readers}
    for suffix, reader in readers.items():
        found = _parts(path, [file for file, own in files.items() if own == suffix], suffix)
        if found:
            read = {part: (file, reader(file)) for part, file in found.items()}
            return together(read, path.resolve().name, task)
    # Other text is a description more often than data.
    files = {file: suffix for file, suffix in files.items() if suffix != ".txt"}
    if len(files) == 1:
        ((file, suffix),) = files.items()
        return readers[suffix](file)
    single = set(files.values()) <= set(_TABLES)
    if single and (columns.case or (columns.target and task != "per-step")):
        role = "case" if columns.case else "target"
        raise NoTargetColumn(
            f"{path} has a file for each case, so that no column, as {shown(str(getattr(columns, role)))}, can be the {role}; "
            f"leave {role}= out."
        )
    if files and single:
        return _cases(path, sorted(files, key=_natural), columns, task)
    if files:
        raise FileError(
            f"{path} holds {listed(file.name for file in files)}; expected NAME_TRAIN and NAME_TEST, train and test, one file, "
            "or a table for each case, so name the one to be read."
        )
    return _folders(path, [entry for entry in entries if entry.is_dir()], tuple(readers), columns)


def suffix_of(path: pathlib.Path) -> str:
    """Return the suffix of the format in lower case, e.g. `.ts` for `a.TS.gz`."""
    suffixes = [one.lower() for one in path.suffixes]
    if len(suffixes) > 1 and suffixes[-1] == ".gz" and suffixes[-2] not in (".npz", ".parquet"):
        suffixes.pop()
    return suffixes[-1] if suffixes else ""


def _parts(path: pathlib.Path, files: Sequence[pathlib.Path], suffix: str) -> dict[str, pathlib.Path]:
    """Sort files of one format by part: NAME_TRAIN and NAME_TEST, or train, test and validation."""
    sets: dict[str, dict[str, pathlib.Path]] = {}
    for file in files:
        stem = file.name.lower().removesuffix(".gz").removesuffix(suffix)
        name, _, part = stem.rpartition("_")
        if part in _PARTS and not _ONE_DIMENSION.search(name):
            if _PARTS[part] in sets.setdefault(name, {}):
                other = sets[name][_PARTS[part]].name
                raise FileError(
                    f"{path} holds {listed([other, file.name])}, both for {_PARTS[part]}; leave one of them."
                )
            sets[name][_PARTS[part]] = file
    complete = {name: parts for name, parts in sets.items() if {"train", "test"} <= set(parts)}
    if len(complete) > 1 and path.resolve().name.lower() in complete:
        return complete[path.resolve().name.lower()]
    if len(complete) > 1:
        raise FileError(f"{path} holds several data sets, {listed(complete)}; put each into its own folder.")
    return next(iter(complete.values()), {})


def _folders(path: pathlib.Path, folders: Sequence[pathlib.Path], suffixes: Sequence[str], columns: Columns) -> Dataset:
    """Read one sub-folder for each class, optionally within one for each part."""
    parts = {_PARTS[folder.name.lower()]: folder for folder in folders if folder.name.lower() in _PARTS}
    if parts and len(parts) == len(folders):
        if not {"train", "test"} <= set(parts):
            raise FileError(f"{path} holds {listed(one.name for one in folders)} only; expected train and test.")
        read = {}
        for part, folder in parts.items():
            inner = sorted(entry for entry in folder.iterdir() if entry.is_dir() and not entry.name.startswith("."))
            read[part] = folder, _classes(folder, inner, suffixes, columns)
        return together(read, path.resolve().name)
    return _classes(path, folders, suffixes, columns)


def _classes(path: pathlib.Path, folders: Sequence[pathlib.Path], suffixes: Sequence[str], columns: Columns) -> Dataset:
    found = []
    for folder in folders:
        for file in sorted(folder.iterdir(), key=_natural):
            if file.is_file() and not file.name.startswith(".") and suffix_of(file) in _TABLES:
                case = _case(file, columns, None, f"{folder.name}/{file.name}")
                label = {"targets": np.zeros(1, np.int32), "classes": (folder.name,), "labels": "found"}
                found.append((file, dataclasses.replace(case, **label)))
    if not found:
        raise FileError(
            f"{path} holds nothing that can be read; expected files that end in {', '.join(suffixes)}, or a folder for each "
            f"class with {' or '.join(_TABLES)} files."
        )
    return join(found, path.resolve().name)


def _cases(path: pathlib.Path, files: Sequence[pathlib.Path], columns: Columns, task: str | None) -> Dataset:
    """Read a file for each case, without targets unless each step has one."""
    return join([(file, _case(file, columns, task, file.name)) for file in files], path.resolve().name)


def _case(file: pathlib.Path, columns: Columns, task: str | None, name: str) -> Dataset:
    try:
        return dataclasses.replace(read_table(file, columns, task, single=True), ids=(name,))
    except Problem as problem:
        raise FileError(f"{file}: {problem}") from None


def _natural(path: pathlib.Path) -> list[tuple[bool, int, str]]:
    """Sort 2.csv before 10.csv."""
    parts = re.split(r"([0-9]{1,18})", path.name)
    return [(part.isdecimal(), int(part) if part.isdecimal() else 0, part) for part in parts]
