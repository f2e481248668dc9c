"""What a file says, and how it becomes a `Dataset`: targets, classes, padding, times."""

import dataclasses
import pathlib
from collections.abc import Sequence

import numpy as np

from ...files import FileError
from ..dataset import Dataset
from ..splits import Split
from .source import Problem, listed, shown
from .values import targets

MOST_CLASSES = 20


@dataclasses.dataclass
class Raw:
    """One file as it was read.

    **Attributes:**

    - `name`: of the data set, as the file gives it.
    - `series`, `times`, `channel_names`, `index`, `total`, `split`, `ids`: as in `Dataset`.
    - `labels`: what the file gives for each case, as text, or the numbers of a regression.
    - `classes`: as the file lists them.
    - `guess`: whether the labels, as text, could be numbers of a regression too.
    - `padded`: whether steps at the end that have no value only fill the series up.
    - `about`: one sentence more.
    """

    name: str
    series: Sequence[np.ndarray]
    labels: list[str] | np.ndarray | None = None
    classes: tuple[str, ...] | None = None
    guess: bool = False
    times: Sequence[np.ndarray] | None = None
    channel_names: tuple[str, ...] | None = None
    index: np.ndarray | None = None
    total: int | None = None
    split: Split | None = None
    padded: bool = True
    about: str = ""
    ids: tuple[str, ...] | None = None


def finish(raw: Raw, path: pathlib.Path, task: str | None = None) -> Dataset:
    """Decides what a file left open; `task` says whether targets are classes, if that is known."""
    if not raw.series:
        raise FileError(f"{path} holds no case; there must be at least one.")
    series = list(raw.series)
    for i, one in enumerate(series):
        if one.shape[1] != series[0].shape[1]:
            raise FileError(
                f"{path} has {one.shape[1]} channels in case {i} and {series[0].shape[1]} in case 0; all need the same."
            )
    times = None if raw.times is None else list(raw.times)
    if raw.padded:
        series = [_without_padding(one) for one in series]
        times = None if times is None else [t[: len(one)] for t, one in zip(times, series, strict=True)]
    step = None if times is None else _step(times)
    found, classes = _targets(raw, path, task)
    return Dataset(
        name=raw.name,
        series=tuple(series),
        targets=found,
        classes=classes,
        split=raw.split,
        times=None if times is None or step is not None else tuple(times),
        channel_names=raw.channel_names,
        about=" ".join([f"Read from {path.name}.", raw.about]).strip(),
        index=raw.index,
        total=raw.total,
        ids=raw.ids,
        step=step,
    )


def join(raws: Sequence[Raw], paths: Sequence[pathlib.Path], name: str, task: str | None = None) -> Raw:
    """One after the other; all must tell the same of channels, targets, classes and times."""
    first = raws[0]
    for raw, path in zip(raws, paths, strict=True):
        if not raw.series:
            raise FileError(f"{path} holds no case; there must be at least one.")
        if raw.split is not None or raw.index is not None:
            raise FileError(f"{path} has a split or an index of its own; read it alone, not as a part of a folder.")
        ours, theirs = raw.series[0].shape[1], first.series[0].shape[1]
        if ours != theirs:
            raise FileError(f"{path} has {ours} channels and {paths[0]} has {theirs}; they need the same.")
        for what, mine, other in (
            ("targets", raw.labels, first.labels),
            ("times", raw.times, first.times),
            ("a list of classes", raw.classes, first.classes),
        ):
            if (mine is None) != (other is None):
                without, having = (path, paths[0]) if mine is None else (paths[0], path)
                raise FileError(f"{having} has {what} and {without} has none; give them in both or in neither.")
        if isinstance(raw.labels, list) != isinstance(first.labels, list):
            raise FileError(f"{path} and {paths[0]} differ in whether targets are classes or numbers; make them alike.")
        if raw.classes is not None and set(raw.classes) != set(first.classes or ()):
            odd = sorted(set(raw.classes) ^ set(first.classes or ()))
            raise FileError(f"{path} and {paths[0]} list different classes, e.g. {shown(odd[0])}; list the same.")
        if raw.channel_names and first.channel_names and raw.channel_names != first.channel_names:
            raise FileError(f"{path} and {paths[0]} name their channels differently; put them in the same order.")
    if isinstance(first.labels, np.ndarray):
        if len({raw.labels.shape[1:] for raw in raws if isinstance(raw.labels, np.ndarray)}) > 1:
            raise FileError(
                f"{paths[-1]} and {paths[0]} have different numbers of targets for a case; make them alike."
            )
        labels = np.concatenate([raw.labels for raw in raws if isinstance(raw.labels, np.ndarray)])
    else:
        labels = None if first.labels is None else [label for raw in raws for label in raw.labels or []]
    joined = dataclasses.replace(
        first,
        name=name,
        series=[one for raw in raws for one in raw.series],
        labels=labels,
        times=None if first.times is None else [one for raw in raws for one in raw.times or []],
        guess=all(raw.guess for raw in raws),
        ids=tuple(one for raw in raws for one in raw.ids or ()) if all(raw.ids for raw in raws) else None,
    )
    # A class of which training saw nothing cannot be told apart; numbers of a regression may well be new ones.
    numeric = isinstance(labels, np.ndarray) or (joined.guess and not _are_classes(labels, task))
    if labels is not None and not numeric and first.classes is None:
        known = set(first.labels or [])
        for raw, path in zip(raws, paths, strict=True):
            for label in raw.labels or []:
                if label not in known:
                    raise FileError(
                        f"{path} has the class {shown(label)}, which {paths[0]} has not; it needs all of them."
                    )
    return joined


def _without_padding(one: np.ndarray) -> np.ndarray:
    if not np.isnan(one[-1]).all():
        return one
    seen = np.flatnonzero(~np.isnan(one).all(1))
    return one[: seen[-1] + 1 if len(seen) else 1]


def _step(times: Sequence[np.ndarray]) -> float | None:
    """The time that all steps of all cases take, up to rounding; `None` if they take different ones."""
    gaps = [np.diff(one) for one in times if len(one) > 1]
    if not gaps:
        return 1.0  # as good as any other: nobody takes a second step
    step = float(gaps[0][0])
    return step if all(bool((np.abs(one - step) <= 1e-6 * step).all()) for one in gaps) else None


def _targets(raw: Raw, path: pathlib.Path, task: str | None) -> tuple[np.ndarray | None, tuple[str, ...] | None]:
    labels = raw.labels
    if labels is None or isinstance(labels, np.ndarray):
        return labels, raw.classes if labels is not None else None
    if raw.guess and raw.classes is None and not _are_classes(labels, task):
        try:
            return targets(labels), None
        except Problem as problem:
            raise FileError(f"{path}, case {problem.where}: {problem}") from None
    classes = raw.classes if raw.classes is not None else tuple(sorted(set(labels), key=_natural))
    place = {name: i for i, name in enumerate(classes)}
    for i, label in enumerate(labels):
        if label not in place:
            raise FileError(f"{path}, case {i}: {shown(label)} is not one of its classes {listed(classes)}.")
    return np.array([place[label] for label in labels], np.int32), classes


def _are_classes(labels: Sequence[str] | None, task: str | None) -> bool:
    return _looks_like_classes(labels) if task is None else task == "classify"


def _looks_like_classes(labels: Sequence[str] | None) -> bool:
    """Text always does; whole numbers if there are few different ones and some occur twice."""
    distinct = set(labels or ())
    if all(_whole(label) for label in distinct):
        return len(distinct) <= MOST_CLASSES and len(distinct) < len(labels or ())
    return any(not _real(label) for label in distinct)


def _whole(label: str) -> bool:
    digits = label.removeprefix("-").removeprefix("+")
    return digits.isascii() and digits.isdigit() and len(digits) < 19


def _real(label: str) -> bool:
    try:
        float(label)
    except ValueError:
        return False
    return True


def _natural(label: str) -> tuple[bool, int, str]:
    """2 before 10, and numbers before words."""
    return (False, int(label), label) if _whole(label) else (True, 0, label)
