"""A long series as many cases: windows, what follows each of them, and the simplest forecast of that."""

import math

import numpy as np
from jaxtyping import Float

from ..data import Cases


def positions(length: int, window: int, horizon: int, *, start: int = 0, most: int | None = None) -> np.ndarray:
    """Where a window begins such that what follows it begins at `start` or later and ends within the series; if there
    are more than `most` of them, evenly spaced ones."""
    found = np.arange(max(0, start - window), length - window - horizon + 1)
    return found if most is None or len(found) <= most else found[np.linspace(0, len(found) - 1, most).astype(int)]


def cut(
    series: Float[np.ndarray, "time channels"], begins: np.ndarray, window: int, horizon: int
) -> tuple[Float[np.ndarray, "cases window channels"], Float[np.ndarray, "cases horizon channels"]]:
    """The windows that begin there, and what follows each."""
    rows = begins[:, None] + np.arange(window + horizon)
    pieces = series[rows]
    return pieces[:, :window], pieces[:, window:]


def levels(pieces: Float[np.ndarray, "cases window channels"], kind: str) -> Float[np.ndarray, "cases 1 channels"]:
    """What is subtracted from a window and from what follows it, so that a level never seen before is no obstacle."""
    if kind == "last":
        return pieces[:, -1:]
    return pieces.mean(1, keepdims=True) if kind == "mean" else np.zeros_like(pieces[:, :1])


def as_cases(pieces: np.ndarray, after: np.ndarray | None, kind: str, dtype: np.dtype) -> Cases:
    """Windows and what follows them as cases with targets, relative to their levels."""
    level = levels(pieces, kind)
    series = tuple((pieces - level).astype(dtype))
    if after is None:
        return Cases(series)
    return Cases(series, (after - level).reshape(len(after), after.shape[1] * after.shape[2]).astype(dtype))


def seasonal_naive(
    pieces: Float[np.ndarray, "cases window channels"], horizon: int, season: int
) -> Float[np.ndarray, "cases horizon channels"]:
    """The last season again and again; with `season=1`, the last value."""
    return np.tile(pieces[:, -season:], (1, math.ceil(horizon / season), 1))[:, :horizon]


def naive_error(series: list[np.ndarray], season: int) -> Float[np.ndarray, " channels"]:
    """Of each channel, the mean absolute error of the seasonal naive forecast within the series, one season ahead: the
    unit of MASE (Hyndman and Koehler, "Another look at measures of forecast accuracy", 2006). It is 1 where that is 0."""
    changes = [np.abs(one[season:] - one[:-season]) for one in series if len(one) > season]
    error = np.concatenate(changes).mean(0) if changes else np.zeros(series[0].shape[1])
    return np.where(error > 0, error, 1.0)
