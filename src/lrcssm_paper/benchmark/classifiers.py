"""One classifier on one data set of an archive: accuracy, log-loss and time."""

import contextlib
import importlib
import importlib.util
import os
import pathlib
import time
import zlib
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

import lrcssm
from lrcssm.data.readers import read_parts
from lrcssm.errors import InvalidValue

RIVALS = {"MiniRocket": "MiniRocketClassifier", "MultiRocketHydra": "MultiRocketHydraClassifier"}
"""Classes of `aeon.classification.convolution_based` by the names of the benchmark."""
_NEEDS = {"MiniRocket": {"aeon": "uea"}, "MultiRocketHydra": {"aeon": "uea", "torch": "bench"}}


class Pair(NamedTuple):
    """Training and test cases: `(cases, channels, time)`, or a list of `(channels, time)` where lengths differ."""

    train: tuple[Any, np.ndarray]
    test: tuple[Any, np.ndarray]


def find_pairs(folder: pathlib.Path) -> dict[str, tuple[pathlib.Path, pathlib.Path]]:
    """Files of the pairs `NAME_TRAIN.ts`, `NAME_TEST.ts` of a folder and of its subfolders, by name."""
    found = {}
    for train in sorted(folder.rglob("*_TRAIN.ts")):
        name = train.name.removesuffix("_TRAIN.ts")
        test = train.with_name(f"{name}_TEST.ts")
        if test.exists():
            found[name] = (train, test)
    if not found:
        raise InvalidValue(f"{folder} holds no pairs NAME_TRAIN.ts and NAME_TEST.ts; give a folder that does.")
    return found


def read_pair(name: str, files: tuple[pathlib.Path, pathlib.Path]) -> Pair:
    """Read a pair of files."""
    data = read_parts({"train": files[0], "test": files[1]}, name, task="classify")
    if data.split is None or data.classes is None:
        raise InvalidValue(f"{name} has no classes; this benchmark is for classification.")
    labels = np.array(data.classes)[np.asarray(data.targets)]

    def part(which: np.ndarray) -> tuple[Any, np.ndarray]:
        series = [np.ascontiguousarray(data.series[i].T) for i in which]
        equal = len({len(one) for one in data.series}) == 1
        return (np.stack(series) if equal else series), labels[which]

    return Pair(part(np.concatenate([data.split.train, data.split.validation])), part(data.split.test))


def checksum(files: tuple[pathlib.Path, pathlib.Path]) -> str:
    """A short checksum of a pair of files."""
    return "".join(f"{zlib.crc32(file.read_bytes()):08x}" for file in files)


def why_unavailable(name: str) -> str | None:
    """Reason why a classifier cannot be run here; `None` if it can. Unknown names raise `InvalidValue`."""
    if name in RIVALS:
        lacking = [f'{package} is not installed (pip install "lrcssm[{extra}]")' for package, extra in _NEEDS[name].items()
                   if importlib.util.find_spec(package) is None]  # fmt: skip
        return lacking[0] if lacking else None
    if not name.endswith("Classifier") or not hasattr(lrcssm, name):
        own = [each for each in dir(lrcssm) if each.endswith("Classifier")]
        raise InvalidValue(f"--models got {name!r}; give some of {', '.join([*own, *RIVALS])}.")
    return None


def make(name: str, *, seed: int, threads: int | None, missing: bool) -> Any:
    """Make a classifier with its defaults.

    **Arguments:**

    - `name`: of a class of `lrcssm`, or of a rival.
    - `seed`, `threads`: for `random_state` and `n_jobs`, where it has them.
    - `missing`: some values are missing; where a classifier has the choice, it carries the last value forward.
    """
    kind = getattr(lrcssm, name) if name not in RIVALS else getattr(
        importlib.import_module("aeon.classification.convolution_based"), RIVALS[name]
    )  # fmt: skip
    given = {"random_state": seed, "n_jobs": threads or os.cpu_count()} | ({"missing": "fill"} if missing else {})
    known = kind().get_params()
    return kind(**{option: value for option, value in given.items() if option in known})


def run(name: str, pair: Pair, *, seed: int, threads: int | None) -> dict[str, Any]:
    """Fit a classifier and score it on the test cases.

    **Arguments:**

    - `name`, `seed`, `threads`: as in `make`.
    - `pair`: the data.

    **Returns:**

    `accuracy`, `log_loss` (`None` where the probabilities are all 0 or 1), `fit_s` and `predict_s`; or `refused`, the error of
    a classifier that does not accept the data.
    """
    (train, labels), (test, truth) = pair
    missing = any(np.isnan(one).any() for one in (*train, *test))
    try:
        model = make(name, seed=seed, threads=threads, missing=missing)
        start = time.perf_counter()
        model.fit(train, labels)
        fitted = time.perf_counter()
        found = model.predict(test)
        end = time.perf_counter()
        probabilities = np.asarray(model.predict_proba(test), float)
    except (ValueError, TypeError, ArithmeticError, MemoryError, NotImplementedError) as error:
        return {"refused": (str(error).strip() or type(error).__name__).splitlines()[0]}
    accuracy = float(np.mean(np.asarray(found) == truth))
    loss = log_loss(probabilities, np.asarray(model.classes_), truth)
    return {"accuracy": accuracy, "log_loss": loss, "fit_s": fitted - start, "predict_s": end - fitted}


def log_loss(probabilities: np.ndarray, classes: np.ndarray, truth: np.ndarray) -> float | None:
    """Mean of −log p of the true class; `None` if all probabilities are 0 or 1, which are votes."""
    if np.isin(probabilities, (0.0, 1.0)).all():
        return None
    places = {label: i for i, label in enumerate(classes.tolist())}
    own = [
        row[places[label]] if label in places else 0.0 for row, label in zip(probabilities, truth.tolist(), strict=True)
    ]
    return float(-np.mean(np.log(np.maximum(own, 1e-15))))


@contextlib.contextmanager
def limited_to(threads: int | None) -> Iterator[None]:
    """Restrict all threads of this process to a number of cores, where the system supports it."""
    if threads is None:
        yield
        return
    if not hasattr(os, "sched_setaffinity"):
        raise InvalidValue("--threads needs a system that can bind a process to cores, such as Linux; leave it out.")
    before = os.sched_getaffinity(0)
    _bind(set(sorted(before)[:threads]))
    try:
        yield
    finally:
        _bind(before)


def _bind(cores: set[int]) -> None:
    for task in pathlib.Path("/proc/self/task").iterdir():
        with contextlib.suppress(OSError):  # a thread that has just ended
            os.sched_setaffinity(int(task.name), cores)
