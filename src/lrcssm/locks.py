"""Locks between processes that the system releases when a process is killed."""

import contextlib
import os
import pathlib
from collections.abc import Iterator


@contextlib.contextmanager
def alone(folder: str | os.PathLike[str], name: str = "lock") -> Iterator[bool]:
    """Try to lock a folder; yields false if another process holds it.

    **Arguments:**

    - `folder`: created if it does not exist. On a system without such locks it always succeeds.
    - `name`: of the file in it that is locked.
    """
    try:
        import fcntl
    except ImportError:
        yield True
        return
    path = pathlib.Path(folder)
    path.mkdir(parents=True, exist_ok=True)
    with open(path / name, "w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
            return
        yield True
