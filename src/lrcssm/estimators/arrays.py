"""Validation of input arrays and conversion to series `(time, channels)`.

Arrays are those of aeon and sktime: `(n_cases, n_channels, n_timepoints)`; or `(n_cases, n_timepoints)`, which is also
scikit-learn's table of samples and features; or a list of `(n_channels, T_i)` or `(T_i,)` for unequal lengths,
which may also be a numpy array of arrays. Lists of DataFrames are time × columns; see `tables`.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.utils import check_random_state, validation

from ..data import Dataset
from ..data.readers.source import listed
from ..errors import InvalidValue
from .tables import Series, read_tables, warn_time_first

# scikit-learn has no types, and those that are guessed from its defaults are wrong.
check_array: Any = validation.check_array
validate_data: Any = validation.validate_data
FLOATS = [np.float64, np.float32]
FORMS = (
    "(n_cases, n_channels, n_timepoints), (n_cases, n_timepoints), or a list of (n_channels, T_i) for unequal lengths or of "
    "DataFrames (time × columns)"
)


def seed_of(random_state: Any) -> int:
    """An integer seed for `random_state`."""
    generator = check_random_state(random_state)
    return int(random_state) if isinstance(random_state, int | np.integer) else int(generator.randint(2**31 - 1))


def check_missing(estimator: Any) -> bool:
    """Check the policy of an estimator for missing values; true if they are allowed."""
    if estimator.missing not in ("error", "mask", "fill"):
        given = f"{type(estimator).__name__} got missing={estimator.missing!r}"
        raise InvalidValue(f'{given}; give "error", "mask" or "fill".')
    return estimator.missing != "error"


def as_series(estimator: Any, X: Any, *, reset: bool, nan: bool) -> list[np.ndarray]:
    """One array `(time, channels)` for each case; on `estimator` it sets, or compares with, `n_features_in_`,
    `n_channels_` and the names of columns. Channels with names are brought into the order of training.

    **Arguments:**

    - `estimator`: the estimator.
    - `X`: see above. A table has as many columns at prediction as in training, as everywhere in scikit-learn; a
        list or a 3-d array may have any length.
    - `reset`: true in training.
    - `nan`: whether values may be missing.

    **Returns:**

    A list of arrays; a `Series` with names and times if `X` is a data set or a table with them.
    """
    checks = {"dtype": FLOATS, "ensure_all_finite": "allow-nan"}
    X = as_list(X)
    _refuse_axes(X)
    # After training on anything but a table, a table is just one of the ways to write series of one channel.
    table = reset or getattr(estimator, "table_", True)
    named = read_tables(X)
    if named is not None:
        series, features = named, None
    elif _is_list(X):
        series, features = [_transposed(i, one) for i, one in enumerate(X)], None
    elif _ndim(X) == 3:
        array = check_array(X, **checks, allow_nd=True, estimator=estimator)
        if 0 in array.shape:
            raise InvalidValue(
                f"X has shape {array.shape}; expected (n_cases, n_channels, n_timepoints), none of them 0."
            )
        series, features = [one.T for one in array], array.shape[1]
    elif table:
        array = validate_data(estimator, X, reset=reset, **checks)
        series, features = [one[:, None] for one in array], array.shape[1]
    else:
        array = check_array(X, **checks, estimator=estimator)
        series, features = [one[:, None] for one in array], None
    if not nan:
        refuse_nan(series)
    channels = series[0].shape[1]
    for i, one in enumerate(series):
        if one.shape[1] != channels:
            raise InvalidValue(
                f"Series {i} has {one.shape[1]} channels and series 0 has {channels}; all need the same."
            )
    steps = max(map(len, series))
    if reset:
        estimator.table_ = named is None and not _is_list(X) and _ndim(X) != 3
        estimator.n_channels_ = channels
        if named is None:
            warn_time_first(None if _is_list(X) else X.shape if hasattr(X, "shape") else (len(series), channels, steps),
                            len(series), channels, steps)  # fmt: skip
        if not estimator.table_:
            estimator.n_features_in_ = channels if features is None else features
            vars(estimator).pop("feature_names_in_", None)
            if named is not None and named.names is not None:
                estimator.feature_names_in_ = np.array(named.names, object)
        return series
    if named is not None and named.names is not None and (known := channel_names(estimator)) is not None:
        order = _order(named.names, known, estimator)
        return series if order is None else named.reordered(order)
    if channels != estimator.n_channels_:
        given = "X.transpose(0, 2, 1)" if features is not None and estimator.n_channels_ == steps else None
        form = "(n_cases, n_channels, n_timepoints) or a list of (n_channels, n_timepoints)"
        raise InvalidValue(
            f"X has {channels} channels, but {type(estimator).__name__} was fitted to {estimator.n_channels_}; give "
            f"{given or form}. Reshape your data."
        )
    return series


def channel_names(estimator: Any) -> tuple[str, ...] | None:
    """Names of the channels that an estimator was fitted to; `None` if they have none."""
    names = getattr(estimator, "feature_names_in_", None)
    return None if names is None or estimator.table_ else tuple(map(str, names))


def _order(given: Sequence[str], known: Sequence[str], estimator: Any) -> list[int] | None:
    """Positions of the channels of training among the names of other data; `None` if they are already in order."""
    if tuple(given) == tuple(known):
        return None
    if set(given) != set(known) or len(set(given)) < len(given):
        missing, more = (listed([one for one in a if one not in b]) for a, b in ((known, given), (given, known)))
        parts = [f"lacks the columns {missing}" if missing else "", f"has the further columns {more}" if more else ""]
        raise InvalidValue(
            f"X {' and '.join(filter(None, parts)) or 'names a column twice'}; {type(estimator).__name__} was fitted to "
            f"{listed(known)}; give these, in any order."
        )
    return [list(given).index(name) for name in known]


def refuse_nan(series: Sequence[np.ndarray]) -> None:
    """Raise an error with the remedies if a series has missing values."""
    for i, one in enumerate(series):
        if np.isnan(one).any():
            raise InvalidValue(
                f'Series {i} holds NaN; give missing="mask" to skip such steps, missing="fill" to carry the last value '
                "forward, or fill them in."
            )


def as_times(times: Any, series: Sequence[np.ndarray], *, fitted: bool | None) -> list[np.ndarray] | None:
    """Time of each step, `(time,)` for each case; a single array applies to all cases.

    **Arguments:**

    - `times`: `None`, an array `(n_timepoints,)` or `(n_cases, n_timepoints)`, or a list of `(T_i,)`.
    - `series`: of the cases.
    - `fitted`: true if training had times; `None` in training.
    """
    if times is None and isinstance(series, Series):
        times = series.times
        if times is None and fitted and series.step is not None:
            times = [series.step * np.arange(len(one)) for one in series]
    if fitted is not None and fitted != (times is not None):
        has, wants = ("no times", "had them") if fitted else ("times", "had none")
        raise InvalidValue(f"There are {has}, but the data for training {wants}; give the same kind of data to both.")
    if times is None:
        return None
    times = as_list(times)
    if _ndim(times) == 1 and not _is_list(times):
        return [np.asarray(times, np.float64)] * len(series)
    return [np.asarray(one, np.float64) for one in times]


def as_list(X: Any) -> Any:
    """Convert an object array, numpy's form of unequal lengths, to a list; anything else is returned unchanged."""
    if not isinstance(X, np.ndarray) or X.dtype != object or X.ndim != 1 or not len(X):
        return X
    return list(X) if all(isinstance(one, np.ndarray | list | tuple) for one in X) else X


def _refuse_axes(X: Any) -> None:
    """Raise an error that lists the accepted forms of `X` if its axes are wrong; scikit-learn's own error would only mention tables."""
    if X is None or (isinstance(X, list | tuple) and not X):
        raise InvalidValue(f"X is {'None' if X is None else 'an empty list'}; give {FORMS}.")
    # What is only to become an array, or a table of another library, is left to scikit-learn.
    if (
        isinstance(X, Dataset)
        or _is_list(X)
        or not (hasattr(X, "ndim") or np.isscalar(X) or isinstance(X, list | tuple))
    ):
        return
    axes = _ndim(X)
    if axes not in (2, 3):
        shape = getattr(X, "shape", None)
        given = f"{axes} {'axis' if axes == 1 else 'axes'}" if shape is None else f"shape {shape}"
        one = " Reshape your data: one series alone is X.reshape(1, -1)." if axes == 1 else ""
        raise InvalidValue(f"X has {given}; expected {FORMS}.{one}")


def _is_list(X: Any) -> bool:
    """True for a list of single arrays; lists of numbers are one if their lengths differ, and else a table."""
    if not isinstance(X, list | tuple) or not X:
        return False
    if all(isinstance(one, list | tuple) for one in X):
        return _ndim(X) in (2, 3) and len({_lengths(one) for one in X}) > 1
    return all(getattr(one, "shape", ()) != () for one in X)


def _lengths(one: Sequence[Any]) -> tuple[int, ...]:
    """Lengths of the channels of a series, or a 0 for each number of one without channels."""
    return tuple(len(row) if hasattr(row, "__len__") else 0 for row in one)


def _ndim(X: Any) -> int:
    """Number of axes, also of a list; never raises."""
    if hasattr(X, "ndim"):
        return X.ndim
    depth = 0
    while isinstance(X, list | tuple) and X:
        X, depth = X[0], depth + 1
    return depth + getattr(X, "ndim", 0)


def _transposed(i: int, one: Any) -> np.ndarray:
    if isinstance(one, list | tuple) and len(set(_lengths(one))) > 1:
        raise InvalidValue(f"Series {i} has channels of {_lengths(one)} steps; all channels of a series need the same.")
    array = np.asarray(one)
    if array.ndim not in (1, 2) or array.size == 0:
        raise InvalidValue(
            f"Series {i} has shape {array.shape}; expected (n_channels, n_timepoints) or (n_timepoints,)."
        )
    if array.dtype.kind not in "fiub":
        raise InvalidValue(f"Series {i} has dtype {array.dtype}; expected numbers.")
    array = array.astype(np.float64) if array.dtype.kind != "f" else array
    if np.isinf(array).any():
        raise InvalidValue(f"Series {i} holds infinity; every value must be a finite number.")
    return array[:, None] if array.ndim == 1 else array.T
