"""Safe unpacking of zip files: no paths outside of the folder, no links, no zip bombs.

A zip file of the archive holds the same data in several formats, and each channel once more by itself. Only the training and
test part in one format are extracted, into one folder.
"""

import pathlib
import stat
import zipfile
import zlib

from .download import DataError

SUFFIXES = (".ts", ".arff", ".csv", ".npz")
"""Formats, in order of preference."""

MOST_FILES = 20_000
RATIO, FREE = 200, 256 * 2**20
"""A zip file may inflate to this many times its size, or to this many bytes if that is more."""


def unpack(parcel: pathlib.Path, folder: pathlib.Path, name: str) -> list[str]:
    """Take a data set out of a zip file.

    **Arguments:**

    - `parcel`: the zip file.
    - `folder`: where to; it must exist and be empty.
    - `name`: of the data set: files called `NAME_TRAIN` and `NAME_TEST` are preferred.

    **Returns:**

    The names of the files in the folder.
    """
    if not zipfile.is_zipfile(parcel):
        with parcel.open("rb") as file:
            head = file.read(60)
        what = (
            "a web page" if head.lstrip().lower().startswith((b"<!doctype", b"<html", b"<?xml")) else "something else"
        )
        raise DataError(f"{parcel} is not a zip file but {what}; check the name and the address.")
    try:
        with zipfile.ZipFile(parcel) as archive:
            members = archive.infolist()
            _check(parcel, members)
            chosen = _choose(parcel, members, name)
            for target, member in chosen.items():
                _copy(parcel, archive, member, folder / target)
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, ValueError, OSError) as error:
        if isinstance(error, DataError) or (isinstance(error, OSError) and error.errno is not None):
            raise
        raise DataError(f"{parcel} is damaged ({_reason(error)}); get it again.") from error
    return sorted(chosen)


def _reason(error: Exception) -> str:
    """Return the first line of an error, without its full stop."""
    return str(error).partition("\n")[0].rstrip(".") or type(error).__name__


def _check(parcel: pathlib.Path, members: list[zipfile.ZipInfo]) -> None:
    """Raise an error for a dangerous zip file, even if the dangerous part would not be extracted."""
    if len(members) > MOST_FILES:
        raise DataError(f"{parcel} holds {len(members):,} files; more than {MOST_FILES:,} are not accepted.")
    for member in members:
        path = pathlib.PurePosixPath(member.filename.replace("\\", "/"))
        if path.is_absolute() or ".." in path.parts or ":" in member.filename:
            raise DataError(f"{parcel} would write to {member.filename!r}, outside of its folder; do not use it.")
        if stat.S_ISLNK(member.external_attr >> 16):
            raise DataError(f"{parcel} holds the link {member.filename!r}; do not use it.")
        if member.flag_bits & 1:
            raise DataError(f"{parcel} is encrypted; unpack it by hand.")
    total, limit = sum(member.file_size for member in members), max(RATIO * parcel.stat().st_size, FREE)
    if total > limit:
        raise DataError(
            f"{parcel} would inflate to {total:,} bytes; more than {limit:,} are not accepted for a file of its size."
        )


def _choose(parcel: pathlib.Path, members: list[zipfile.ZipInfo], name: str) -> dict[str, zipfile.ZipInfo]:
    """Choose the files to take, by their new names."""
    files: dict[str, zipfile.ZipInfo] = {}
    for member in members:
        if not member.is_dir():
            files.setdefault(pathlib.PurePosixPath(member.filename.replace("\\", "/")).name, member)
    lower = {file.lower(): file for file in files}
    for suffix in SUFFIXES:
        parts = {}
        for part in ("TRAIN", "TEST"):
            wanted = lower.get(f"{name}_{part}{suffix}".lower())
            others = [file for file in files if file.lower().endswith(f"_{part}{suffix}".lower())]
            if wanted is None and len(others) == 1:
                wanted = others[0]
            if wanted is not None:
                parts[f"{name}_{part}{suffix}"] = files[wanted]
        if len(parts) == 2:
            return parts
    raise DataError(
        f"{parcel} holds no {name}_TRAIN and {name}_TEST as {', '.join(SUFFIXES)}; unpack it by hand, and give the path of "
        "the data."
    )


def _copy(parcel: pathlib.Path, archive: zipfile.ZipFile, member: zipfile.ZipInfo, target: pathlib.Path) -> None:
    """Copy one file, and stop if it is larger than declared."""
    left = member.file_size
    with archive.open(member) as source, target.open("xb") as file:
        while block := source.read(2**20):
            left -= len(block)
            if left < 0:
                raise DataError(f"{parcel} holds more of {member.filename!r} than it declares; do not use it.")
            file.write(block)
    if left:
        raise DataError(f"{parcel} holds less of {member.filename!r} than it declares; download it again.")
