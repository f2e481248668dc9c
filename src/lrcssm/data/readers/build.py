"""Construction of data sets by readers: classes, equal steps, padding, and joining of parts."""

import dataclasses
import itertools
import pathlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...errors import FileError, printable
from ..dataset import Dataset
from ..splits import Split
from .source import NoTargetColumn, Problem, Source, listed, shown
from .values import is_float, targets

MOST_CLASSES = 20
PARTS = ("train", "validation", "test")
Labels = list[str] | list[list[str]] | np.ndarray | tuple[np.ndarray, ...] | None


def build(
    name: str,
    series: Sequence[np.ndarray],
    labels: Labels = None,
    classes: tuple[str, ...] | None = None,
    *,
    open: bool = False,
    times: Sequence[np.ndarray] | None = None,
    trim: bool = True,
    **fields: Any,
) -> Dataset:
    """Build a data set.

    **Arguments:**

    - `name`, `series`: as in `Dataset`.
    - `labels`: text or numbers for each case, or for each step of each case, where empty text is a missing one.
    - `classes`: as the source lists them; those that occur if not given.
    - `open`: the text of `labels` may also be numbers of a regression, which `settle` decides.
    - `times`: time of each step.
    - `trim`: drop trailing steps without any value, which are padding.
    - `fields`: further fields of `Dataset`.
    """
    series = list(series)
    if not series:
        raise Problem("it holds no case; give at least one.")
    for i, one in enumerate(series):
        if one.shape[1] != series[0].shape[1]:
            raise Problem(
                f"case {i} has {one.shape[1]} channels and case 0 has {series[0].shape[1]}; all need the same."
            )
    if trim:
        series = [_without_padding(one) for one in series]
        times = None if times is None else [t[: len(one)] for t, one in zip(times, series, strict=True)]
        if isinstance(labels, list) and labels and isinstance(labels[0], list):
            labels = [own[: len(one)] for own, one in zip(labels, series, strict=True)]  # pyright: ignore
    step = None if times is None else _step(times)
    known = "open" if open else "found" if classes is None else "listed"
    if isinstance(labels, list):
        found, classes = _codes(labels, classes)
    else:
        found, known = labels, "listed"
    return Dataset(
        name=name, series=tuple(series), targets=found, classes=classes, step=step, labels=known,
        times=None if times is None or step is not None else tuple(times), **fields,
    )  # fmt: skip


def settle(dataset: Dataset, path: Source, task: str | None = None) -> Dataset:
    """Decide whether open labels are classes or numbers, and compare the task with the targets.

    **Arguments:**

    - `dataset`: from `build` or `join`.
    - `path`: where it is from, for errors.
    - `task`: `"classify"`, `"regress"`, `"per-step"`, or `None` to guess from the targets.
    """
    found, classes = dataset.targets, dataset.classes
    if task == "per-step" and not isinstance(found, tuple):
        raise NoTargetColumn(
            f'{path} has no target for each step, which task="per-step" needs; pass target= with the name of its column.'
        )
    if dataset.labels == "open" and classes is not None and not _are_classes(dataset, task):
        try:
            values = np.append(targets(classes), np.nan)
        except Problem as problem:
            raise FileError(f"{path}: {problem}") from None
        found = (
            tuple(values[one] for one in found)
            if isinstance(found, tuple)
            else None
            if found is None
            else values[found]
        )
        classes = None
    if (
        isinstance(found, tuple)
        and classes is not None
        and (empty := [i for i, one in enumerate(found) if (one < 0).all()])
    ):
        raise FileError(f"{path}: no step of case {empty[0]} has a class; leave the case out.")
    about = " ".join([f"Read from {printable(path.name)}.", dataset.about]).strip()
    return dataclasses.replace(dataset, targets=found, classes=classes, about=about, labels="listed")


def join(parts: Sequence[tuple[pathlib.Path, Dataset]], name: str) -> Dataset:
    """Join data sets case by case; all must have the same channels, kind of targets, classes and kind of times.

    **Arguments:**

    - `parts`: each with its path, for errors.
    - `name`: of the whole.
    """
    start, first = parts[0]
    for path, one in parts:
        if one.split is not None or one.index is not None:
            raise FileError(f"{path} has a split or an index of its own; read it alone, not as a part of a folder.")
        ours, theirs = one.series[0].shape[1], first.series[0].shape[1]
        if ours != theirs:
            raise FileError(f"{path} has {ours} channels and {start} has {theirs}; they need the same.")
        for what, mine, other in (
            ("targets", one.targets is None, first.targets is None),
            ("times", one.times is None and one.step is None, first.times is None and first.step is None),
            ("targets for each step", not isinstance(one.targets, tuple), not isinstance(first.targets, tuple)),
        ):
            if mine != other:
                without, having = (path, start) if mine else (start, path)
                raise FileError(f"{having} has {what} and {without} has none; give them in both or in neither.")
        if (one.classes is None) != (first.classes is None) or (one.labels == "listed") != (first.labels == "listed"):
            raise FileError(
                f"{path} and {start} differ in whether they have classes or numbers, or list their classes; use the same kind in both."
            )
        if one.labels == "listed" and set(one.classes or ()) != set(first.classes or ()):
            odd = sorted(set(one.classes or ()) ^ set(first.classes or ()))
            raise FileError(f"{path} and {start} list different classes, e.g. {shown(odd[0])}; list the same.")
        if one.channel_names and first.channel_names and one.channel_names != first.channel_names:
            raise FileError(f"{path} and {start} name their channels differently; put them in the same order.")
        if _target_shape(one) != _target_shape(first):
            raise FileError(f"{path} and {start} have different numbers of targets for a case; make them alike.")
    sets = [one for _, one in parts]
    timed = [one.with_times().times for one in sets]
    return build(
        name,
        list(itertools.chain.from_iterable(one.series for one in sets)),
        _joined_labels(sets),
        first.classes if first.labels == "listed" else None,
        open=all(one.labels == "open" for one in sets),
        times=None if timed[0] is None else [stamp for own in timed for stamp in own or ()],
        trim=False,
        channel_names=first.channel_names,
        ids=tuple(i for one in sets for i in one.ids or ()) if all(one.ids for one in sets) else None,
        about=first.about,
        guess=first.guess,
    )


def together(parts: dict[str, tuple[pathlib.Path, Dataset]], name: str, task: str | None = None) -> Dataset:
    """Join training, validation and test cases, in this order, with the split.

    **Arguments:**

    - `parts`: by name, each with its path.
    - `name`: of the whole, unless all parts have the same name.
    - `task`: as for `settle`: numbers of a regression may be new in the test part, classes may not.
    """
    order = [part for part in PARTS if part in parts]
    sets = [parts[part][1] for part in order]
    names = {one.name for one in sets}
    joined = join([parts[part] for part in order], names.pop() if len(names) == 1 else name)
    if joined.labels == "found" or (joined.labels == "open" and _are_classes(joined, task)):
        known = set(sets[0].classes or ())
        for part, one in zip(order, sets, strict=True):
            if new := [label for label in one.classes or () if label not in known]:
                path, start = parts[part][0], parts[order[0]][0]
                raise FileError(f"{path} has the class {shown(new[0])}, which {start} has not; it needs all of them.")
    ends = np.cumsum([len(one) for one in sets])
    spans = {part: np.arange(end - len(one), end) for part, end, one in zip(order, ends, sets, strict=True)}
    return dataclasses.replace(joined, split=Split(*(spans.get(part, np.arange(0)) for part in PARTS)))


def _target_shape(dataset: Dataset) -> tuple[int, ...]:
    """Return the shape of one target."""
    return () if dataset.targets is None else np.shape(dataset.targets[0])[isinstance(dataset.targets, tuple) :]


def _without_padding(one: np.ndarray) -> np.ndarray:
    if not np.isnan(one[-1]).all():
        return one
    seen = np.flatnonzero(~np.isnan(one).all(1))
    return one[: seen[-1] + 1 if len(seen) else 1]


def _step(times: Sequence[np.ndarray]) -> float | None:
    """Return the common length of all steps of all cases, up to rounding; `None` if they differ."""
    gaps = [np.diff(one) for one in times if len(one) > 1]
    if not gaps:
        return 1.0  # no case has a second step
    step = float(gaps[0][0])
    return step if all(bool((np.abs(one - step) <= 1e-6 * step).all()) for one in gaps) else None


def _codes(labels: list[str] | list[list[str]], classes: tuple[str, ...] | None) -> tuple[Any, tuple[str, ...]]:
    """Replace labels by positions in the classes, -1 where one is missing."""
    stepwise = isinstance(labels[0], list)
    flat: list[str] = list(itertools.chain.from_iterable(labels)) if stepwise else labels  # pyright: ignore
    names = tuple(sorted(set(flat) - {""} if stepwise else set(flat), key=_natural)) if classes is None else classes
    if len({printable(label) for label in names}) < len(names):
        raise Problem("two of its classes differ in control characters only; rename one.")
    place = {label: i for i, label in enumerate(names)} | ({"": -1} if stepwise else {})
    for i, label in enumerate(flat):
        if label not in place:
            raise Problem(f"case {i}: {shown(label)} is not one of its classes {listed(names)}.")
    codes = np.array([place[label] for label in flat], np.int32)
    return (tuple(np.split(codes, np.cumsum([len(own) for own in labels])[:-1])) if stepwise else codes), names


def _joined_labels(sets: Sequence[Dataset]) -> Labels:
    first = sets[0].targets
    if first is None:
        return None
    if sets[0].classes is None:
        if isinstance(first, tuple):
            return tuple(itertools.chain.from_iterable(one.targets or () for one in sets))  # pyright: ignore
        return np.concatenate([one.targets for one in sets])  # pyright: ignore
    names = [(*(one.classes or ()), "") for one in sets]
    if isinstance(first, tuple):
        return [[own[k] for k in case] for own, one in zip(names, sets, strict=True) for case in one.targets or ()]  # pyright: ignore
    return [own[k] for own, one in zip(names, sets, strict=True) for k in one.targets]  # pyright: ignore


def _are_classes(dataset: Dataset, task: str | None) -> bool:
    """True if labels are classes: text always, whole numbers if few values occur and some repeat."""
    if task in ("classify", "regress"):
        return task == "classify"
    names = dataset.classes or ()
    if all(map(_whole, names)):
        count = sum(map(len, dataset.targets)) if isinstance(dataset.targets, tuple) else len(dataset)  # pyright: ignore
        return len(names) <= MOST_CLASSES and len(names) < count
    return not all(map(is_float, names))


def _whole(label: str) -> bool:
    digits = label.removeprefix("-").removeprefix("+")
    return digits.isascii() and digits.isdigit() and len(digits) < 19


def _natural(label: str) -> tuple[bool, int, str]:
    """Sort 2 before 10, and numbers before words."""
    return (False, int(label), label) if _whole(label) else (True, 0, label)
