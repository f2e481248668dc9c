"""Targets for each time step: labels and numbers of unequal lengths, some of them missing."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..errors import InvalidValue

PER_STEP = "per-step"
Steps = tuple[np.ndarray, ...]
"""One array for each case."""


def for_each_step(estimator: Any) -> bool:
    """True if an estimator has a target for each time step; its parameter is checked."""
    task = getattr(estimator, "task", None)
    if task not in (None, PER_STEP):
        raise InvalidValue(
            f'{type(estimator).__name__} got task={task!r}; give "per-step" for a target of each time step, or None.'
        )
    return task == PER_STEP


def refuse_steps(estimator: Any, y: Any, several: bool) -> None:
    """Raise an error that names `task` if `y` has a target for each step but the estimator expects one for each case.

    **Arguments:**

    - `estimator`, `y`: the estimator and its targets.
    - `several`: whether a case may have several targets, so that two axes are fine.
    """
    shape = getattr(y, "shape", ())
    nested = isinstance(y, list | tuple) and len(y) > 0 and all(np.ndim(one) == 1 and len(one) > 1 for one in y)
    ragged = isinstance(y, np.ndarray) and y.dtype == object and y.ndim == 1 and all(np.ndim(one) == 1 for one in y)
    if nested and several and len({len(one) for one in y}) == 1:
        return
    if nested or (ragged and len(y) > 0) or (not several and len(shape) == 2 and shape[1] > 1):
        what = f"y has shape {shape}" if len(shape) == 2 else "y is a list of arrays"
        raise InvalidValue(
            f'{what}, with a target for each time step; give {type(estimator).__name__}(task="per-step"), or one target for each '
            "case."
        )


def step_labels(y: Any, name: str) -> tuple[Steps, np.ndarray]:
    """Labels of each step and the labels that occur; a missing label is `None` in an array of objects.

    **Arguments:**

    - `y`: `(n_cases, n_timepoints)`, or one array `(T_i,)` for each case. None, NaN and empty text are missing labels.
    - `name`: of the estimator, for errors.
    """
    found: list[np.ndarray] = []
    for i, one in enumerate(_listed(y, name)):
        labels = np.asarray(one)
        if labels.ndim != 1:
            raise InvalidValue(
                f"y of case {i} has shape {labels.shape}; expected a label for each step, (n_timepoints,)."
            )
        own = labels.astype(object)
        own[[_is_missing(label) for label in own]] = None
        if labels.dtype.kind == "f":  # as pandas has whole numbers with gaps
            own = np.array([int(v) if v is not None and float(v).is_integer() else v for v in own], object)
            if any(isinstance(v, float) for v in own):
                raise InvalidValue(
                    f"y of case {i} holds numbers that are not whole, which are no classes; use a regressor for numbers."
                )
        if all(label is None for label in own):
            raise InvalidValue(f"y of case {i} has no label; leave the case out.")
        found.append(own)
    return tuple(found), np.unique(np.array([label for own in found for label in own if label is not None]))


def positions(labels: Steps, classes: np.ndarray) -> Steps:
    """Replace labels by their positions among the classes, −1 where one is missing."""
    place = {label: i for i, label in enumerate(classes.tolist())} | {None: -1}
    as_plain = lambda label: label.item() if isinstance(label, np.generic) else label
    try:
        return tuple(np.array([place[as_plain(label)] for label in own], np.int32) for own in labels)
    except KeyError as error:
        raise InvalidValue(f"y holds {error.args[0]!r}, which is none of the classes {classes.tolist()}.") from None


def step_numbers(y: Any, name: str, dtype: Any) -> Steps:
    """Numbers of each step, NaN where one is missing.

    **Arguments:**

    - `y`: `(n_cases, n_timepoints)` or `(n_cases, n_timepoints, n_outputs)`, or an array for each case.
    - `name`: of the estimator, for errors.
    - `dtype`: of the result.
    """
    found = tuple(np.asarray(one, dtype) for one in _listed(y, name))
    for i, one in enumerate(found):
        if one.ndim not in (1, 2) or one.shape[1:] != found[0].shape[1:]:
            raise InvalidValue(
                f"y of case {i} has shape {one.shape}; expected (n_timepoints,) or (n_timepoints, n_outputs), alike for all cases."
            )
        if np.isinf(one).any() or np.isnan(one).all():
            raise InvalidValue(
                f"y of case {i} holds infinity or no number at all; give finite numbers, or leave it out."
            )
    return found


def shaped(found: Sequence[np.ndarray], X: Any) -> Any:
    """Predictions of each step in the form of `X`: an array if `X` is one, a list if it is a list."""
    array = isinstance(X, np.ndarray) and X.dtype.kind != "O"
    equal = len({len(one) for one in found}) == 1
    return np.stack(found) if array and equal else list(found)


def check_steps(targets: Steps, found: Any) -> None:
    """Raise an error for targets with another number of cases or steps than their series."""
    if [len(one) for one in targets] != [len(one) for one in found]:
        raise InvalidValue("y has other numbers of cases or steps than X; give a target for each step of each case.")


def _listed(y: Any, name: str) -> list[Any]:
    if y is None:
        raise InvalidValue(f"{name} requires y to be passed, but the target y is None.")
    if hasattr(y, "to_numpy") and not isinstance(y, list | tuple):
        y = y.to_numpy()
    if not all(np.ndim(one) > 0 for one in y):
        raise InvalidValue(
            f'{name}(task="per-step") got y with one target for each case; give (n_cases, n_timepoints) or a list of (T_i,).'
        )
    return list(y)


def _is_missing(label: Any) -> bool:
    return label is None or type(label).__name__ == "NAType" or bool(label == "") or bool(label != label)
