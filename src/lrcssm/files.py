"""Named arrays in files: a JSON header and raw numbers, no pickle.

    8 bytes   LRCSSM and two zero bytes
    8 bytes   the header's length, little-endian
    8 bytes   the header's CRC-32, little-endian
    header    JSON in UTF-8: format, kind, config, metadata, and for each array its name, dtype, shape, offset and CRC-32
    arrays    raw, little-endian, row by row; offsets are counted from the end of the header

Files are written atomically: to a temporary file next to the destination, which is then renamed. Readers do not trust a file:
sizes are checked against its length before anything is allocated.
"""

import contextlib
import dataclasses
import errno
import hashlib
import json
import math
import os
import pathlib
import tempfile
import zlib
from collections.abc import Iterator, Mapping
from typing import Any, BinaryIO

import jax
import numpy as np

from .errors import FileError as FileError, InvalidType, LrcssmError, MissingFile, WriteError

FORMAT = 2
_MAGIC = b"LRCSSM\x00\x00"
_DTYPES = {
    "float32", "float64", "float16", "complex64", "complex128", "int32", "int64", "uint8", "uint32", "uint64", "bool",
}  # fmt: skip
_LONGEST_HEADER = 16 * 2**20


def named_leaves(tree: Any) -> dict[str, Any]:
    """Arrays of a tree by their path."""
    leaves = jax.tree_util.tree_flatten_with_path(tree)[0]
    return {jax.tree_util.keystr(where): leaf for where, leaf in leaves}


def checksum(*values: Any) -> str:
    """A short checksum of arrays, texts and numbers, also within sequences and dataclasses."""
    found = hashlib.sha256()

    def add(value: Any) -> None:
        if isinstance(value, np.ndarray | jax.Array):
            found.update(repr((value.shape, str(value.dtype))).encode() + np.ascontiguousarray(value).tobytes())
        elif dataclasses.is_dataclass(value) and not isinstance(value, type):
            add([getattr(value, field.name) for field in dataclasses.fields(value)])
        elif isinstance(value, Mapping):
            add(sorted(value.items()))
        elif isinstance(value, list | tuple):
            found.update(f"{len(value)}[".encode())
            for one in value:
                add(one)
        else:
            found.update(repr(value).encode())

    add(values)
    return found.hexdigest()[:16]


def write_arrays(path: str | os.PathLike[str], header: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> None:
    """Write a header and named arrays atomically."""
    target = pathlib.Path(path)
    entries, offset, chunks = [], 0, []
    for name, array in arrays.items():
        data = np.asarray(array, order="C")
        if data.dtype.name not in _DTYPES:
            raise InvalidType(f"{name} has dtype {data.dtype}, which a file cannot hold.")
        raw = data.astype(data.dtype.newbyteorder("<"), copy=False).tobytes()
        entries.append(
            {
                "name": name,
                "dtype": data.dtype.name,
                "shape": list(data.shape),
                "offset": offset,
                "crc": zlib.crc32(raw),
            }
        )
        offset += len(raw)
        chunks.append(raw)
    text = json.dumps({"format": FORMAT, **header, "arrays": entries}, allow_nan=False).encode()
    with atomic(target) as file:
        file.write(_MAGIC + len(text).to_bytes(8, "little") + zlib.crc32(text).to_bytes(8, "little") + text)
        for chunk in chunks:
            file.write(chunk)


@contextlib.contextmanager
def atomic(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """Temporary file that replaces the target when it is complete."""
    target = pathlib.Path(path)
    if not target.parent.is_dir():
        raise MissingFile(f"{target} cannot be written: its directory does not exist.")
    with writing(target):
        handle, name = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
        try:
            with os.fdopen(handle, "wb") as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            # A temporary file is its owner's alone; what takes its place has the rights that any new file has.
            mask = os.umask(0)
            os.umask(mask)
            os.chmod(name, 0o666 & ~mask)
            os.replace(name, target)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(name)
            raise


@contextlib.contextmanager
def writing(path: str | os.PathLike[str]) -> Iterator[None]:
    """Name the file in errors of the system that do not, such as a full disk."""
    try:
        yield
    except LrcssmError:
        raise
    except OSError as error:
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        why = "the disk is full; free some space" if full else error.strerror or str(error)
        raise WriteError(f"{path} cannot be written: {why}.") from error


def write_text(path: str | os.PathLike[str], text: str) -> None:
    """Write a text file atomically."""
    with atomic(path) as file:
        file.write(text.encode())


def read_arrays(path: str | os.PathLike[str], *, kind: str) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Read a file of `write_arrays`; raises `FileError` if that is not possible."""
    target = pathlib.Path(path)
    if not target.exists():
        raise MissingFile(f"{target} does not exist.")
    if not target.is_file():
        raise FileError(f"{target} is not a file.")
    size = target.stat().st_size
    with target.open("rb") as file:
        if file.read(8) != _MAGIC:
            raise FileError(f"{target} is not a file of lrcssm.")
        length, crc = (int.from_bytes(file.read(8), "little") for _ in range(2))
        if not 2 <= length <= min(size - 24, _LONGEST_HEADER):
            raise FileError(f"{target} is cut off or damaged: its header does not fit into it.")
        text = file.read(length)
        if zlib.crc32(text) != crc:
            raise FileError(f"{target} is damaged: its header does not match its checksum.")
        try:
            header = json.loads(text.decode())
            entries = header["arrays"]
            version, found = header["format"], header["kind"]
        except (ValueError, RecursionError, KeyError, TypeError) as error:
            raise FileError(f"{target} is damaged: its header cannot be read.") from error
        if version != FORMAT:
            raise FileError(f"{target} has format {version!r}; this version of lrcssm reads format {FORMAT}.")
        if found != kind:
            raise FileError(f"{target} holds a {found!r}, not a {kind!r}.")
        body = size - 24 - length
        arrays: dict[str, np.ndarray] = {}
        try:
            end = 0
            for entry in entries:
                name, dtype = entry["name"], entry["dtype"]
                shape, offset = tuple(entry["shape"]), entry["offset"]
                whole = all(type(n) is int and n >= 0 for n in (*shape, offset, entry["crc"]))
                if not whole or dtype not in _DTYPES or not isinstance(name, str) or offset != end:
                    raise FileError(f"{target} is damaged: an array is described wrongly.")
                count = math.prod(shape) * np.dtype(dtype).itemsize
                end = offset + count
                if end > body:
                    raise FileError(f"{target} is cut off: it should be {end - body} bytes longer.")
                raw = file.read(count)
                if zlib.crc32(raw) != entry["crc"]:
                    raise FileError(f"{target} is damaged: the values of {name} do not match their checksum.")
                arrays[name] = np.frombuffer(raw, np.dtype(dtype).newbyteorder("<")).reshape(shape).astype(dtype)
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            if isinstance(error, FileError):
                raise
            raise FileError(f"{target} is damaged: an array is described wrongly.") from error
        if end != body:
            raise FileError(f"{target} is damaged: {body - end} bytes follow its end.")
    return header, arrays


def cache_folder() -> pathlib.Path:
    """Cache folder, for files that can be recreated or downloaded."""
    cache = pathlib.Path(os.environ.get("XDG_CACHE_HOME", ""))
    # The XDG specification wants relative paths to be ignored.
    return (cache if cache.is_absolute() else pathlib.Path.home() / ".cache") / "lrcssm"
