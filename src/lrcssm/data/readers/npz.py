"""`.npz`, several arrays in a zip archive, read without numpy's own reader: no pickle, and no trust in declared sizes."""

import contextlib
import math
import pathlib
import re
import struct
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from ...errors import FileError
from ..dataset import Dataset
from ..splits import Split
from .build import Labels, build
from .source import limit, shown, too_large
from .values import increasing

_KEYS = (
    "X", "stream", "T", "C", "shift", "y", "classes", "index", "n_total", "lengths", "times", "split", "channel_names",
)  # fmt: skip
_MOST_CASES = 10**7
_DAMAGE = (
    zipfile.BadZipFile, zlib.error, struct.error, EOFError, RuntimeError, ValueError, IndexError, OverflowError,
)  # fmt: skip
_DTYPE = re.compile(r"""['"]descr['"]\s*:\s*['"]([<>|=]?(?:[biuf]\d{1,2}|[US]\d{1,9}|M8\[\w{1,2}\]))['"]""")
_ORDER = re.compile(r"""['"]fortran_order['"]\s*:\s*(True|False)""")
_SHAPE = re.compile(r"""['"]shape['"]\s*:\s*\(([\d,\s]{0,200})\)""")


def read_npz(path: pathlib.Path, task: str | None = None) -> Dataset:
    """Read one file; the page "Data formats" describes its keys."""
    arrays = _arrays(path)
    series = _values(path, _take(path, arrays))
    cases, longest, channels = series.shape
    lengths = _whole(path, arrays, "lengths", (cases,), 1, longest)
    times = _times(path, arrays, cases, longest)
    parts = list(series)
    if lengths is not None:
        parts = [one[:n] for one, n in zip(parts, lengths, strict=True)]
        times = None if times is None else [one[:n] for one, n in zip(times, lengths, strict=True)]
    if times is not None and not all(np.isfinite(one).all() and increasing(one) for one in times):
        raise FileError(
            f"{path} has times that are not finite or do not increase; sort the steps of each case by time."
        )
    total = _whole(path, arrays, "n_total", (), cases, _MOST_CASES)
    index = _whole(path, arrays, "index", (cases,), 0, _MOST_CASES if total is None else int(total) - 1)
    if index is not None and len(np.unique(index)) < cases:
        raise FileError(f"{path} has an index that names a position twice; each case needs its own.")
    if index is not None and total is None:
        raise FileError(f"{path} has an index but no n_total; add n_total, the total number of cases.")
    split = _whole(path, arrays, "split", (cases,), 0, 2)
    labels, classes, open = _labels(path, arrays, cases, longest if task == "per-step" else None)
    if isinstance(labels, tuple) or (isinstance(labels, list) and isinstance(labels[0], list)):
        labels = type(labels)(own[: len(one)] for own, one in zip(labels, parts, strict=True))  # pyright: ignore
    names = arrays.get("channel_names")
    if names is not None and (names.dtype.kind != "U" or names.shape != (channels,)):
        raise FileError(
            f"{path} has {channels} channels and channel_names of shape {names.shape}; give one text for each."
        )
    odd = f"It has more channels ({channels}) than steps ({longest}); X is (cases, time, channels), in this order."
    return build(
        path.name.split(".")[0],
        parts,
        labels,
        classes,
        open=open,
        times=times,
        channel_names=None if names is None else tuple(map(str, names)),
        index=index,
        total=None if total is None else int(total),
        split=None if split is None else Split(*(np.flatnonzero(split == part) for part in range(3))),
        trim=lengths is None,
        about=odd if channels > longest else "",
    )


def shapes(path: pathlib.Path) -> dict[str, tuple[int, ...]]:
    """Read the shapes of arrays with known keys, without their contents."""
    with _opened(path) as (archive, members):
        found = {}
        for key, member in members.items():
            with archive.open(member) as file:
                found[key] = _header(path, file, key)[1]  # pyright: ignore
        return found


def _arrays(path: pathlib.Path) -> dict[str, np.ndarray]:
    """Read the arrays with known keys, none larger than declared, and together within the limit for the file."""
    with _opened(path) as (archive, members):
        if sum(one.file_size for one in members.values()) > limit(path):
            raise too_large(path)
        return {key: _array(path, archive, key, one) for key, one in members.items()}


@contextlib.contextmanager
def _opened(path: pathlib.Path) -> Iterator[tuple[zipfile.ZipFile, dict[str, zipfile.ZipInfo]]]:
    """Open an archive with its members of known keys; damage becomes a `FileError`."""
    try:
        with zipfile.ZipFile(path) as archive:
            members = {one.filename.removesuffix(".npy"): one for one in archive.infolist()}
            yield archive, {key: members[key] for key in _KEYS if key in members}
    except FileError:
        raise
    except _DAMAGE as error:
        raise FileError(f"{path} is cut off, damaged or not an .npz file.") from error
    except OSError as error:
        raise FileError(f"{path} cannot be read: {error.strerror or 'it is damaged'}.") from error


def _header(path: pathlib.Path, file: zipfile.ZipExtFile, key: str) -> tuple[np.dtype, tuple[int, ...], str]:
    """Read the type, the shape and the order of an array, without executing anything."""
    start = file.read(8)
    length = int.from_bytes(file.read(2 if start[6:7] == b"\x01" else 4), "little")
    if start[:6] != b"\x93NUMPY" or length > 10_000:
        raise FileError(f"{path} holds {key}, which is not an array of numpy.")
    header = file.read(length).decode("latin-1")
    dtype, order, shape = (pattern.search(header) for pattern in (_DTYPE, _ORDER, _SHAPE))
    if not (dtype and order and shape):
        raise FileError(f"{path} holds {key} as objects or of a type other than numbers or text; convert it first.")
    try:
        sizes = tuple(int(n) for n in shape[1].split(",") if n.strip())
        return np.dtype(dtype[1]), sizes, "F" if order[1] == "True" else "C"
    except (TypeError, ValueError) as error:
        raise FileError(f"{path} holds {key} of an unknown type {shown(dtype[1])}.") from error


def _array(path: pathlib.Path, archive: zipfile.ZipFile, key: str, member: zipfile.ZipInfo) -> np.ndarray:
    # zipfile bounds what it unpacks for these two only.
    if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise FileError(f"{path} packs {key} in an unsupported way; write it with numpy.savez.")
    with archive.open(member) as file:
        kind, sizes, order = _header(path, file, key)  # pyright: ignore
        count = math.prod(sizes) * kind.itemsize
        if count != member.file_size - file.tell() or 0 in sizes or len(sizes) > 3:
            shape = str(sizes) if len(sizes) <= 3 else f"with {len(sizes)} axes"
            raise FileError(f"{path} holds {key} of shape {shape}, which is empty or not what is stored.")
        data = file.read(count)
        if len(data) != count or file.read(1):
            raise FileError(f"{path} is cut off or damaged: {key} is not as long as it should be.")
    return np.frombuffer(data, kind).reshape(sizes, order=order)  # pyright: ignore


def _take(path: pathlib.Path, arrays: Mapping[str, np.ndarray]) -> np.ndarray:
    """Take X, or build it from `stream`: channels are delayed copies of one series, X[:, t, k] = stream[:, t + shift k]."""
    if "X" in arrays:
        return arrays["X"]
    if "stream" not in arrays:
        raise FileError(f"{path} holds neither X nor stream; expected X of shape (cases, time, channels).")
    stream = arrays["stream"]
    if stream.ndim != 2 or not {"T", "C", "shift"} <= set(arrays):
        raise FileError(
            f"{path} has a stream of shape {stream.shape}; expected (cases, steps) and also T, C and shift."
        )
    sizes = [_whole(path, arrays, key, (), 1, max(stream.shape[1], 1)) for key in ("T", "C", "shift")]
    steps, channels, shift = map(int, sizes)
    if stream.shape[1] != steps + (channels - 1) * shift:
        raise FileError(
            f"{path} has {stream.shape[1]} steps in its stream where T + (C - 1) shift = "
            f"{steps + (channels - 1) * shift} are expected."
        )
    if 4 * len(stream) * steps * channels > limit(path):
        raise too_large(path)
    return np.lib.stride_tricks.sliding_window_view(stream, steps, 1)[:, ::shift].transpose(0, 2, 1)


def _values(path: pathlib.Path, found: np.ndarray) -> np.ndarray:
    if found.dtype.kind not in "biuf" or found.ndim not in (2, 3):
        raise FileError(
            f"{path} has X of shape {found.shape} and type {found.dtype}; expected numbers (cases, time, channels)."
        )
    with np.errstate(over="ignore", invalid="ignore"):
        series = np.ascontiguousarray(found, np.float32)
    series = series[:, :, None] if series.ndim == 2 else series
    if np.isinf(series).any():
        case = int(np.flatnonzero(np.isinf(series).any((1, 2)))[0])
        raise FileError(f"{path}, case {case}: a value is beyond single precision; give finite numbers below 3e38.")
    return series


def _whole(path: pathlib.Path, arrays: Mapping[str, np.ndarray], key: str, shape: Any, low: int, high: int) -> Any:
    """Check an array of whole numbers within bounds; `None` if there is none."""
    if key not in arrays:
        return None
    found = arrays[key]
    if found.dtype.kind not in "iu" or found.shape != shape or found.min() < low or found.max() > high:
        raise FileError(
            f"{path} has {key} of shape {found.shape} and type {found.dtype}; expected whole numbers from {low} to {high} "
            f"of shape {shape}."
        )
    return found.astype(np.int64)


def _times(path, arrays, cases, longest):
    if "times" not in arrays:
        return None
    found = arrays["times"]
    if found.dtype.kind not in "iufM" or found.shape not in ((longest,), (cases, longest)):
        raise FileError(f"{path} has times of shape {found.shape}; expected numbers or dates ({cases}, {longest}).")
    if found.dtype.kind == "M":
        try:
            seconds = found.astype("M8[us]") - np.datetime64(0, "us")
        except (ValueError, OverflowError) as error:
            raise FileError(f"{path} has dates beyond what microseconds since 1970 can count.") from error
        found = np.where(np.isnat(found), np.nan, seconds / np.timedelta64(1, "s"))
    return list(np.broadcast_to(found.astype(np.float64), (cases, longest)))


def _labels(path, arrays, cases, steps) -> tuple[Labels, tuple[str, ...] | None, bool]:
    """Read targets, for each case or (`steps` is given) each step, and the classes that the file lists; the last value is true
    if the targets may be classes or numbers."""
    if "y" not in arrays:
        return None, None, False
    found, names = arrays["y"], arrays.get("classes")
    kind, shape = found.dtype.kind, (cases,) if steps is None else (cases, steps)
    if found.shape[: len(shape)] != shape or (found.ndim > len(shape) and kind != "f") or kind not in "biufU":
        raise FileError(f"{path} has y of shape {found.shape} and type {found.dtype}; expected {shape}, one for each.")
    if names is not None and (names.ndim != 1 or names.dtype.kind not in "iuU" or len(np.unique(names)) < len(names)):
        raise FileError(f"{path} has classes of shape {names.shape} and type {names.dtype}; give each name once.")
    if kind == "f":
        if names is not None:
            raise FileError(f"{path} has classes and y of type {found.dtype}; give whole numbers or text as y.")
        if not (np.isfinite(found) | (np.isnan(found) & (steps is not None))).all():
            raise FileError(f"{path} has a target that is not a finite number; leave such cases out.")
        return (found.astype(np.float64) if steps is None else tuple(found.astype(np.float64))), None, False
    classes = None if names is None else tuple(map(str, names))
    if kind in "iu" and classes is not None:
        if found.min() < 0 or found.max() >= len(classes):
            raise FileError(f"{path} has y from {found.min()} to {found.max()} and {len(classes)} classes.")
        found = np.array(classes, object)[found]
    texts = [str(one) for one in found] if steps is None else [[str(one) for one in own] for own in found]
    return texts, classes, kind in "iu" and classes is None
