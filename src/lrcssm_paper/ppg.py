"""PPG-DaLiA: heart rates of fifteen people, measured at the wrist over two and a half hours of daily life (Reiss et al. 2019,
"Deep PPG: large-scale heart rate estimation with convolutional neural networks", Sensors 19).

The archive holds a pickle for each person, `S1/S1.pkl` and so on. A pickle is a program, so it is not executed as such: the
names of numpy are replaced by classes that only record their arguments, and all other names are rejected. Arrays are made from
the records.

The preparation is that of Walker et al. (2024, log-neural controlled differential equations), the source of the rows of the
paper's table, except for the layout of each recording, which they drew without a seed.
"""

import itertools
import math
import pathlib
import pickle
import pickletools
import re
from typing import Any

import numpy as np

from lrcssm.data import Dataset, Split
from lrcssm.errors import InvalidValue
from lrcssm.files import FileError

REPEATS = {"ACC": 2, "BVP": 1, "EDA": 16, "TEMP": 16}
"""Steps of 1/64 s for each value of a signal."""
WIDTHS = {"ACC": 3, "BVP": 1, "EDA": 1, "TEMP": 1}
CHANNELS = (
    "acceleration x",
    "acceleration y",
    "acceleration z",
    "blood volume pulse",
    "skin conductance",
    "temperature",
)
STEPS = 128
"""Steps for each heart rate: one comes every 2 s."""
LATE = 3
"""Heart rates are means over 8 s, one every 2 s, so the first has an offset of three."""
LAYOUTS = tuple(itertools.permutations(range(3)))


def ppg_dalia(folder: str | pathlib.Path, seed: int = 0, *, window: int = 390, stride: int = 39) -> Dataset:
    """Read the folder `PPG_FieldStudy` of the archive.

    The six channels are on a common grid of 64 steps a second. Acceleration, pulse, conductance, temperature and heart rate are
    scaled to [-1, 1] for each person, the three accelerations together. Each recording is cut into one piece for training (70
    %), validation and test (15 % each), and each piece into windows that overlap.

    **Arguments:**

    - `folder`: with the folders `S1`, `S2`, ... as they are in the archive, or the folder above it.
    - `seed`: of the order of the three pieces, one of six, which is drawn for each person.
    - `window`, `stride`: heart rates of a window, and from the start of one to that of the next.

    **Returns:**

    A `Dataset` with series `(128 window, 6)`, as a rule `(49920, 6)`, and targets `(cases, window)`. The target `k` of a case
    belongs to its step `128 k + 127`: for a model with an output for each step, use the outputs `[127::128]`. Series are
    views of one array for each person, so that windows that overlap take no more memory.
    """
    people = find_people(pathlib.Path(folder))
    if not people:
        raise FileError(f"{folder} holds no S1/S1.pkl, S2/S2.pkl, ...; give the folder PPG_FieldStudy of the archive.")
    series: list[list[np.ndarray]] = [[], [], []]
    targets: list[list[np.ndarray]] = [[], [], []]
    for number, path in sorted(people.items()):
        values, rates = read_person(path)
        for part, (start, end) in enumerate(pieces(len(rates), int(np.random.default_rng((seed, number)).integers(6)))):
            for first in range(start, end - window + 1, stride):
                series[part].append(values[STEPS * first : STEPS * (first + window)])
                targets[part].append(rates[first : first + window])
    if not all(series):
        raise FileError(
            f"{folder} has recordings too short to give windows of {window} heart rates for training, validation and test."
        )
    ends = np.cumsum([len(part) for part in series])
    return Dataset(
        name="PPG-DaLiA",
        series=tuple(itertools.chain(*series)),
        targets=np.stack(list(itertools.chain(*targets))),
        split=Split(*np.split(np.arange(ends[-1]), ends[:-1])),
        channel_names=CHANNELS,
        about=f"Heart rates of {len(people)} people, one for every {STEPS}th step, scaled to [-1, 1] (Reiss et al. 2019).",
    )


def read_folder(folder: pathlib.Path) -> Dataset | None:
    """Read a folder if it is that of PPG-DaLiA: an extension of `lrcssm.data.load`."""
    return ppg_dalia(folder) if find_people(folder) else None


def find_people(folder: pathlib.Path) -> dict[int, pathlib.Path]:
    """Find the pickles of a folder by the number of the person; none in a folder of other data."""
    for place in (folder, folder / "PPG_FieldStudy"):
        found = {
            int(path.stem[1:]): path for path in place.glob("S*/S*.pkl")
            if path.stem == path.parent.name and re.fullmatch(r"S\d{1,6}", path.stem)
        }  # fmt: skip
        if found:
            return found
    return {}


def pieces(count: int, layout: int) -> list[tuple[int, int]]:
    """First and last positions of the pieces for training, validation and test among `count` heart rates."""
    sizes = [int(0.7 * count), int(0.15 * count)]
    sizes.append(count - sum(sizes))
    found, start = [(0, 0)] * 3, 0
    for part in LAYOUTS[layout]:
        found[part] = (start, start + sizes[part])
        start += sizes[part]
    return found


def read_person(path: pathlib.Path) -> tuple[np.ndarray, np.ndarray]:
    """The signals of one person, `(128 count, 6)`, and the heart rates `(count,)`, all within [-1, 1]."""
    content = read_notes(path)
    try:
        wrist, label = content["signal"]["wrist"], content["label"]
        signals = {name: _array(wrist[name]).reshape(-1, WIDTHS[name]) for name in REPEATS}
        rates = _array(label).reshape(-1)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise FileError(
            f"{path} does not hold signal, wrist, {', '.join(REPEATS)} and label as arrays of numbers, as the archive's files do."
        ) from error
    rates = np.concatenate([np.full(LATE, rates[0]), rates]) if len(rates) else rates
    count = min(len(rates), *(len(signal) * REPEATS[name] // STEPS for name, signal in signals.items()))
    if count == 0:
        raise FileError(f"{path} holds an empty recording.")
    columns = [np.repeat(_scaled(path, name, signal), REPEATS[name], axis=0) for name, signal in signals.items()]
    values = np.concatenate([column[: STEPS * count] for column in columns], axis=1)
    return values.astype(np.float32), _scaled(path, "label", rates)[:count]


def _scaled(path: pathlib.Path, name: str, values: np.ndarray) -> np.ndarray:
    """Scale to [-1, 1]; constants become 0."""
    found = values.astype(np.float64)
    if not np.isfinite(found).all():
        raise FileError(f"{path} has values of {name} that are not finite numbers.")
    low, high = found.min(), found.max()
    return 2 * (found - low) / (high - low) - 1 if high > low else np.zeros_like(found)


def read_notes(path: pathlib.Path) -> Any:
    """Content of a pickle: containers, numbers and text, with records in place of arrays."""
    try:
        with path.open("rb") as file:
            _check_memory(path, file)
            file.seek(0)
            return _Unpickler(path, file).load()
    except (FileError, OSError, MemoryError):
        raise
    except Exception as error:  # whatever a program can do wrong
        raise FileError(f"{path} is cut off, damaged or not a pickle.") from error


def _check_memory(path: pathlib.Path, file: Any) -> None:
    """Reject a pickle with memo numbers beyond the file's size, for which the unpickler would allocate memory."""
    size = path.stat().st_size
    for operation, argument, _ in pickletools.genops(file):
        if operation.name in ("PUT", "LONG_BINPUT") and int(argument or 0) > size:
            raise FileError(f"{path} is damaged, or made to fill the memory.")


class _Unpickler(pickle.Unpickler):
    """An unpickler that accepts only the names that numpy arrays need."""

    def __init__(self, path: pathlib.Path, file: Any):
        # Text of Python 2 is bytes, and so are the numbers of arrays.
        super().__init__(file, encoding="latin1")
        self.path = path

    def find_class(self, module: str, name: str) -> Any:
        known = {
            "numpy.core.multiarray _reconstruct": _Array,
            "numpy._core.multiarray _reconstruct": _Array,
            "numpy.core.multiarray scalar": _Note,
            "numpy._core.multiarray scalar": _Note,
            "numpy ndarray": "ndarray",
            "numpy dtype": _Dtype,
            "_codecs encode": _Encoded,
        }
        if f"{module} {name}" not in known:
            raise FileError(f"{self.path} would call {module}.{name}, which no data needs, so it is not read.")
        return known[f"{module} {name}"]


class _Note:
    """A record of arguments and state."""

    def __init__(self, *arguments: Any):
        self.arguments = arguments
        self.state: Any = None

    def __setstate__(self, state: Any) -> None:
        self.state = state


class _Array(_Note):
    """A note in place of an array: its state is (version, shape, type, columns first, numbers)."""


class _Dtype(_Note):
    """A note in place of a type: its first argument is a letter and a size, its state (version, order of the bytes, ...)."""


class _Encoded(_Note):
    """A note in place of bytes that are written as text."""


def _array(note: Any) -> np.ndarray:
    """Make the array of a note; `InvalidValue` if it is not one of numbers."""
    if not isinstance(note, _Array):
        raise InvalidValue("It is not an array.")
    _, shape, dtype, columns_first, data = note.state
    if isinstance(data, _Encoded):
        data = data.arguments[0]
    raw = data.encode("latin1") if isinstance(data, str) else data
    code, order = dtype.arguments[0], dtype.state[1]
    if not isinstance(raw, bytes) or not re.fullmatch(r"[biuf][1248]", code) or order not in ("<", ">", "|", "="):
        raise InvalidValue("It is not an array of numbers.")
    kind = np.dtype(order + code)
    if len(raw) != math.prod(shape) * kind.itemsize:
        raise InvalidValue("Its size differs from the declared one.")
    return np.frombuffer(raw, kind).reshape(shape, order="F" if columns_first else "C")
