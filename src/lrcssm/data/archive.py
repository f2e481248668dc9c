"""Data sets of the archive of time series classification and regression problems.

The archive publishes no checksums. The checksums of the first download and of its files are written to `NAME.lock.json` next to
the data; later downloads, and the files whenever they are read, must match them.
"""

import datetime
import json
import os
import pathlib
import re
import shutil
import tempfile
from typing import Any

from .download import DataError, Progress, check_url, download, sha256
from .problems import NAMES, close
from .unpack import unpack

MIRROR = "https://timeseriesclassification.com/aeon-toolkit/{name}.zip"
"""Address of the archive; `{name}` stands for the name of a data set."""


def fetch(
    name: str,
    *,
    directory: str | os.PathLike[str] | None = None,
    url: str = MIRROR,
    demanded: str | None = None,
    force: bool = False,
    timeout: float = 30.0,
    retries: int = 4,
    pause: float = 1.0,
    progress: Progress | None = None,
) -> pathlib.Path:
    """Download a data set of the archive, unless it exists.

    **Arguments:**

    - `name`: of the data set. Names that are not in `NAMES` are tried as well, because the archive grows.
    - `directory`: the data directory; that of `lrcssm.data.load` if not given.
    - `url`: address of a folder, of one zip file, or with `{name}` as a placeholder.
    - `demanded`: required SHA-256 of the zip file.
    - `force`: download it even if it exists.
    - `timeout`, `retries`, `pause`, `progress`: as for `lrcssm.data.download.download`.

    **Returns:**

    The folder, for `lrcssm.data.load`.
    """
    from .catalogue import directory as data_directory

    name = {known.lower(): known for known in NAMES}.get(name.lower(), name)
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_-]*", name):
        raise DataError(f"{name!r} cannot be the name of a data set; give one of lrcssm.data.problems.NAMES.")
    if demanded is not None and not re.fullmatch(r"[0-9a-fA-F]{64}", demanded):
        raise DataError(f"demanded= got {demanded!r}; give the 64 hexadecimal digits of a SHA-256.")
    demanded = None if demanded is None else demanded.lower()
    address = _address(url, name)
    place = data_directory(directory)
    folder, parcel, record = place / name, place / f"{name}.zip", _read_record(place / f"{name}.lock.json")
    if folder.is_dir() and not force:
        if demanded is not None and record.get("sha256") != demanded:
            raise DataError(
                f"{folder} exists, and was not made from a file with the SHA-256 {demanded}; pass force=True to "
                "download it again."
            )
        verify(folder)
        return folder
    if folder.exists() and not record:
        raise DataError(f"{folder} was not made by fetch and is not replaced; move it away first.")
    place.mkdir(parents=True, exist_ok=True)
    by_hand = parcel.is_file() and not force
    if not by_hand:
        try:
            download(address, parcel, timeout=timeout, retries=retries, pause=pause, progress=progress)
        except DataError as error:
            raise DataError(_advice(str(error), name, address, parcel)) from error
    try:
        found = sha256(parcel)
        expected = record.get("sha256") if demanded is None else demanded
        if expected is not None and found != expected:
            who = "was demanded" if demanded is not None else f"was recorded in {name}.lock.json at the first download"
            raise DataError(
                f"{name}.zip has the SHA-256 {found}, but {expected} {who}; pass that as demanded= if you trust the new file."
            )
        _place(parcel, folder, name, {"url": "a file put there by hand" if by_hand else address, "sha256": found})
    finally:
        if not by_hand:  # whether it was good, and is no longer needed, or bad, and would only be found again
            parcel.unlink()
    return folder


def verify(folder: pathlib.Path) -> None:
    """Raise `DataError` if the files of a data set are not those of the first download. Folders that `fetch` did not create are
    not checked."""
    record = _read_record(folder.with_name(f"{folder.name}.lock.json"))
    for file, checksum in record.get("files", {}).items():
        path = folder / file
        if not path.is_file() or sha256(path) != checksum:
            what = "is not the file that was downloaded" if path.is_file() else "is missing"
            raise DataError(f"{path} {what}; fetch it again with force=True.")


def _address(url: str, name: str) -> str:
    if "{name}" in url:
        address = url.replace("{name}", name)
    else:
        address = url if url.endswith(".zip") else f"{url.rstrip('/')}/{name}.zip"
    check_url(address)
    return address


def _advice(sentence: str, name: str, address: str, parcel: pathlib.Path) -> str:
    """Add a remedy to the message of a failed download."""
    start = sentence.rstrip(".")
    if name not in NAMES:
        hint = close(name, NAMES) or "; known names are in lrcssm.data.problems.NAMES"
        if " 404 " in sentence:
            return f"{start}{hint}."
        start = f"{name} is not a name that is known here{hint}; {start}"
    return (
        f"{start}; try later, pass another url=, or get {address} by other means, put it at {parcel} and "
        "fetch it again."
    )


def _place(parcel: pathlib.Path, folder: pathlib.Path, name: str, record: dict[str, Any]) -> None:
    """Unpack next to the destination, move the folder into place and write the record."""
    fresh = pathlib.Path(tempfile.mkdtemp(prefix=f".{name}.", dir=folder.parent))
    old = fresh.with_name(fresh.name + ".old")
    try:
        files = unpack(parcel, fresh, name)
        fresh.chmod(0o755)  # a temporary directory is for its owner alone
        record |= {
            "bytes": parcel.stat().st_size,
            "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
            "files": {file: sha256(fresh / file) for file in files},
        }
        if folder.exists():
            os.replace(folder, old)
        os.replace(fresh, folder)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)
        shutil.rmtree(old, ignore_errors=True)
    draft = folder.with_name(f".{name}.lock.json")
    draft.write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
    os.replace(draft, folder.with_name(f"{name}.lock.json"))


def _read_record(path: pathlib.Path) -> dict[str, Any]:
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
        files = record.get("files", {})
        good = isinstance(record["sha256"], str) and all(pathlib.PurePath(file).name == file for file in files)
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        good, record = False, {}
    if not good:
        raise DataError(f"{path} is damaged; delete it if you trust the data next to it.")
    return record
