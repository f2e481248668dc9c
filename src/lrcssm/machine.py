"""A description of the machine, and records of measurements on it."""

import contextlib
import datetime
import errno
import importlib.metadata
import json
import os
import pathlib
import platform
from collections.abc import Mapping
from typing import Any

import jax


def environment(*packages: str) -> dict[str, Any]:
    """Facts that a measurement depends on: versions, backend, processor, load and date.

    **Arguments:**

    - `packages`: further distributions whose versions are included, if installed.
    """
    from . import __version__  # the package imports this module's users lazily, so it is complete by now

    versions: dict[str, str | None] = {"python": platform.python_version(), "lrcssm": __version__}
    for package in ("jax", "jaxlib", "equinox", "numpy", *packages):
        try:
            versions[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            versions[package] = None
    return {
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "versions": versions,
        "backend": jax.default_backend(),
        "devices": [device.device_kind for device in jax.devices()],
        "processor": _processor(),
        "cores": os.cpu_count(),
        "load": os.getloadavg()[0] if hasattr(os, "getloadavg") else None,
        "system": platform.system(),
    }


def _processor() -> str:
    with contextlib.suppress(OSError):
        for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def check_destination(path: str | None) -> None:
    """Raise `OSError` if a record cannot be written, before minutes of measuring."""
    if path in (None, "-"):
        return
    target = pathlib.Path(path)
    if target.is_dir():
        raise IsADirectoryError(errno.EISDIR, "it is a directory", path)
    if not target.parent.is_dir():
        raise FileNotFoundError(errno.ENOENT, "its directory does not exist", path)
    if not os.access(target if target.exists() else target.parent, os.W_OK):
        raise PermissionError(errno.EACCES, "permission denied", path)


def write_record(path: str, record: Mapping[str, Any]) -> None:
    """Write JSON to a path, or to standard output if that is "-"."""
    text = json.dumps(record, indent=2, allow_nan=False)
    if path == "-":
        print(text)
    else:
        pathlib.Path(path).write_text(text + "\n", encoding="utf-8")
