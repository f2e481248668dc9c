"""Where studies are kept: a journal on this machine, or a database by its address."""

import os
import pathlib
import re
import warnings
from typing import Any

import optuna
from optuna.storages import BaseStorage, GrpcStorageProxy, JournalStorage, RDBStorage
from optuna.storages.journal import JournalFileBackend, JournalFileOpenLock

from ..errors import InvalidValue

try:
    import fcntl
except ImportError:  # a system without such locks
    fcntl = None

HOME = pathlib.Path("runs/tune")


class Place:
    """A storage, and the folder for the runs of its studies.

    **Attributes:**

    - `storage`: as Optuna takes it.
    - `runs`: where the folders of the studies are.
    - `local`: whether all workers are on this machine, and see each other's locks.
    """

    def __init__(self, storage: BaseStorage, runs: pathlib.Path, local: bool):
        self.storage = storage
        self.runs = runs
        self.local = local


def open_place(study: str, where: str | None, *, make: bool) -> Place:
    """Opens a storage.

    **Arguments:**

    - `study`: the name of a study.
    - `where`: a file or an address; the file of the study's name if not given.
    - `make`: whether a file may be made that is not there.
    """
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    if where is not None and "://" in where:
        return Place(_connected(where), HOME, local=False)
    path = HOME / f"{study}.journal" if where is None else pathlib.Path(where).expanduser()
    if path.is_dir():
        raise InvalidValue(f"--storage got {where}, which is a folder; give a file, or the address of a database.")
    if not path.exists() and not make:
        raise InvalidValue(f"There is no study in {path}; lrcssm tune start SOURCE --study {study} makes one.")
    if make:
        path.parent.mkdir(parents=True, exist_ok=True)
    if path.exists():
        with path.open("rb") as file:
            if file.read(15) == b"SQLite format 3":
                raise _sqlite(str(where))
    lock = JournalFileOpenLock(str(path)) if fcntl is None else FileLock(path)
    try:
        storage = JournalStorage(JournalFileBackend(str(path), lock))
    except (ValueError, KeyError, TypeError) as error:
        raise InvalidValue(f"{path} is not a journal of Optuna, or it is damaged.") from error
    return Place(storage, path.parent, local=fcntl is not None)


class FileLock(JournalFileOpenLock):
    """Who may write to a journal: whoever has locked the file itself.

    Optuna's own locks are files, which a process that is killed leaves behind: the others wait for half a minute, and two
    that lose patience at the same time both go on. This one is forgotten by the system with the process that has it. What a
    killed process has written in part is taken away by the next that writes.
    """

    def __init__(self, path: pathlib.Path):
        super().__init__(str(path))
        self._path = path
        self._file: Any = None

    def acquire(self) -> bool:
        assert fcntl is not None
        file = open(self._path, "rb+")  # noqa: SIM115, it is closed by `release`
        try:
            fcntl.flock(file, fcntl.LOCK_EX)
            _mend(file)
        except BaseException:
            file.close()
            raise
        self._file = file
        return True

    def release(self) -> None:
        self._file.close()


def _mend(file: Any) -> None:
    """Cuts off a last line that has no end. Readers do not count it as a line, so no one has seen it."""
    size = file.seek(0, os.SEEK_END)
    end = size
    while end > 0:
        start = max(0, end - 4096)
        file.seek(start)
        newline = file.read(end - start).rfind(b"\n")
        if newline >= 0:
            end = start + newline + 1
            break
        end = start
    if end < size:
        file.truncate(end)


def _connected(url: str) -> BaseStorage:
    shown = re.sub(r"//[^@/]*@", "//", url)
    if url.startswith("sqlite"):
        raise _sqlite(shown)
    if url.startswith("grpc://"):
        host, _, port = url.removeprefix("grpc://").rstrip("/").rpartition(":")
        if not host or not port.isdecimal():
            raise InvalidValue(f"--storage got {shown!r}; give grpc://host:port.")
        make = lambda: _proxy(host, int(port))
    else:
        make = lambda: RDBStorage(url, engine_kwargs={"pool_pre_ping": True})
    import sqlalchemy.exc

    try:
        return make()
    except ImportError as error:
        module = getattr(error.__cause__ or error, "name", None) or "a module"
        raise InvalidValue(f"--storage got {shown!r}, for which Python needs {module}; install it.") from error
    except (sqlalchemy.exc.SQLAlchemyError, ConnectionError, ValueError) as error:
        first, *_ = [*str(error).strip().splitlines(), type(error).__name__]
        raise InvalidValue(f"--storage got {shown!r}, which cannot be used: {first.rstrip('.')}.") from error


def _proxy(host: str, port: int) -> BaseStorage:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        proxy = GrpcStorageProxy(host=host, port=port)
    proxy.wait_server_ready(timeout=10)
    return proxy


def _sqlite(shown: str) -> ValueError:
    return ValueError(
        f"--storage got {shown!r}: SQLite fails as soon as several workers write; give a file that is no database, for a "
        "journal, or the address of another database."
    )
