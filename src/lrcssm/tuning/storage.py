"""Storages of studies: a journal on this machine, or a database by its address."""

import os
import pathlib
import re
import warnings
from typing import Any

import optuna
from optuna.storages import BaseStorage, GrpcStorageProxy, JournalStorage, RDBStorage
from optuna.storages.journal import JournalFileBackend, JournalFileOpenLock

from ..errors import InvalidValue
from ..files import writing

try:
    import fcntl
except ImportError:  # a system without such locks
    fcntl = None

HOME = pathlib.Path("runs/tune")


class Place:
    """A storage, and the folder for the runs of its studies.

    **Attributes:**

    - `storage`: a storage of Optuna.
    - `runs`: parent of the folders of the studies.
    - `local`: true if all workers are on this machine and see each other's locks.
    """

    def __init__(self, storage: BaseStorage, runs: pathlib.Path, local: bool):
        self.storage = storage
        self.runs = runs
        self.local = local


def open_place(study: str, where: str | None, *, make: bool) -> Place:
    """Open a storage.

    **Arguments:**

    - `study`: name of a study.
    - `where`: a file or an address; a journal in `runs/tune` if not given.
    - `make`: create a file that does not exist.

    **Returns:**

    A `Place`. Raises `InvalidValue` if the storage cannot be used.
    """
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    if where is not None and "://" in where:
        return Place(_connected(where), HOME, local=False)
    path = HOME / f"{study}.journal" if where is None else pathlib.Path(where).expanduser()
    if path.is_dir():
        raise InvalidValue(f"The storage {where} is a folder; give a file, or the address of a database.")
    if not path.exists() and not make:
        raise InvalidValue(f"There is no study in {path}; create it with lrcssm tune start.")
    if make:
        path.parent.mkdir(parents=True, exist_ok=True)
    if path.exists():
        with path.open("rb") as file:
            if file.read(15) == b"SQLite format 3":
                raise _sqlite(str(where))
    lock = JournalFileOpenLock(str(path)) if fcntl is None else FileLock(path)
    try:
        storage = JournalStorage(Journal(str(path), lock))
    except (OSError, MemoryError):
        raise
    except Exception as error:  # replaying a damaged journal fails in as many ways as there are entries
        raise InvalidValue(f"{path} is not a journal of Optuna, or it is damaged; give another file.") from error
    return Place(storage, path.parent, local=fcntl is not None)


class Journal(JournalFileBackend):
    """Journal file that names itself in the error of a full disk."""

    def append_logs(self, logs: list[dict[str, Any]]) -> None:
        with writing(self._file_path):
            super().append_logs(logs)


class FileLock(JournalFileOpenLock):
    """A lock on the journal's file itself, held while writing to it.

    Optuna's own locks are further files, which remain when a process is killed: the others wait for half a minute, and two
    whose wait ends at the same time both write. The operating system releases this lock with the process that holds it. An
    incomplete last line of a killed process is removed by the next writer.
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
    """Remove an incomplete last line. Readers ignore it, so none has seen it."""
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
            raise InvalidValue(f"The storage {shown!r} is not an address; give grpc://host:port.")
        make = lambda: _proxy(host, int(port))
    else:
        make = lambda: RDBStorage(url, engine_kwargs={"pool_pre_ping": True})
    import sqlalchemy.exc

    try:
        return make()
    except ImportError as error:
        module = getattr(error.__cause__ or error, "name", None) or "a module"
        raise InvalidValue(f"The storage {shown!r} needs the module {module}; install it.") from error
    except (sqlalchemy.exc.SQLAlchemyError, ConnectionError, ValueError) as error:
        first, *_ = [*str(error).strip().splitlines(), type(error).__name__]
        raise InvalidValue(f"The storage {shown!r} cannot be used: {first.rstrip('.')}.") from error


def _proxy(host: str, port: int) -> BaseStorage:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        proxy = GrpcStorageProxy(host=host, port=port)
    proxy.wait_server_ready(timeout=10)
    return proxy


def _sqlite(shown: str) -> InvalidValue:
    return InvalidValue(
        f"The storage {shown!r} is SQLite, which fails when several workers write; give a file for a journal, or the address of "
        "another database."
    )
