"""Windows of a series, the values that follow each window, and the seasonal naive forecast."""

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Float

from ..data import Cases
from ..errors import InvalidValue


def window_of(forecaster: Any, length: int, season: int) -> int:
    """Choose the window of a forecaster, and check that it fits the horizon, the season and the series.

    **Arguments:**

    - `forecaster`: with `horizon` and `window`, and perhaps `patch`.
    - `length`: steps of the shortest series.
    - `season`: steps of a season; 1 for none.
    """
    kind, patch = type(forecaster).__name__, getattr(forecaster, "patch", 1)
    for name in ("horizon", "patch", "window"):
        value = getattr(forecaster, name, 1)
        if value is not None and (not isinstance(value, int | np.integer) or value < 1):
            raise InvalidValue(f"{kind} got {name}={value!r}; give a whole number of at least 1.")
    window = forecaster.window
    if window is None:
        window = max(season, min(max(64, 2 * season, 4 * forecaster.horizon), length // 3), 1)
        window = -(-window // patch) * patch
    if window < season:
        raise InvalidValue(f"{kind} got window={window}, less than one season of {season} steps.")
    if window % patch or forecaster.horizon % patch:
        raise InvalidValue(
            f"{kind} got window={window}, horizon={forecaster.horizon} and patch={patch}; give multiples of the patch."
        )
    if length < window + forecaster.horizon:
        raise InvalidValue(
            f"{kind} got a series of {length} steps (n_samples={length}); it needs at least "
            f"{window + forecaster.horizon}, a window of {window} and a horizon of {forecaster.horizon}."
        )
    return int(window)


def positions(length: int, window: int, horizon: int, *, start: int = 0, most: int | None = None) -> np.ndarray:
    """Positions of windows whose following values begin at `start` or later and ends within the series; if there
    are more than `most` of them, evenly spaced ones."""
    found = np.arange(max(0, start - window), length - window - horizon + 1)
    return found if most is None or len(found) <= most else found[np.linspace(0, len(found) - 1, most).astype(int)]


def cut(
    series: Float[np.ndarray, "time channels"], begins: np.ndarray, window: int, horizon: int
) -> tuple[Float[np.ndarray, "cases window channels"], Float[np.ndarray, "cases horizon channels"]]:
    """The windows that start at some positions, and the values that follow each."""
    rows = begins[:, None] + np.arange(window + horizon)
    pieces = series[rows]
    return pieces[:, :window], pieces[:, window:]


def levels(pieces: Float[np.ndarray, "cases window channels"], kind: str) -> Float[np.ndarray, "cases 1 channels"]:
    """Level that is subtracted from a window and from the values after it, so that the model also works at new levels; missing
    values are ignored."""
    if kind == "last":
        return carried_forward(pieces)[:, -1:]
    if kind == "mean":
        return np.nanmean(pieces, 1, keepdims=True) if np.isnan(pieces).any() else pieces.mean(1, keepdims=True)
    return np.zeros_like(pieces[:, :1])


def believable(series: Float[np.ndarray, "*cases time channels"], missing: str) -> np.ndarray:
    """Mask of the steps that a model uses, `(..., time)`."""
    known = ~np.isnan(series)
    return np.any(known, -1) if missing == "fill" else np.all(known, -1)


def usable(pieces: Float[np.ndarray, "cases window channels"], missing: str) -> np.ndarray:
    """Mask of the windows that have a value of each channel and end with a step that the model uses, because the model cannot
    know how long ago its last step was."""
    return believable(pieces, missing)[:, -1] & ~np.any(np.all(np.isnan(pieces), 1), 1)


def complete(windows: "Windows", missing: str) -> np.ndarray:
    """Mask of the windows that are usable and have all values after them."""
    return usable(windows.pieces, missing) & ~np.isnan(windows.after).any((1, 2))


def carried_forward(pieces: Float[np.ndarray, "cases window channels"]) -> Float[np.ndarray, "cases window channels"]:
    """Fill missing values with the last value before them in the window, or the first after them."""
    known = ~np.isnan(pieces)
    if known.all():
        return pieces
    last = np.maximum.accumulate(np.where(known, np.arange(pieces.shape[1])[:, None], -1), 1)
    return np.take_along_axis(pieces, np.where(last < 0, known.argmax(1)[:, None], last), 1)


@dataclasses.dataclass(frozen=True)
class Windows:
    """Windows `(cases, window, channels)`, the values after each, `(cases, horizon, channels)`, and the times of its steps,
    `(cases, window)` or `None`."""

    pieces: np.ndarray
    after: np.ndarray
    stamps: np.ndarray | None

    @classmethod
    def of(
        cls,
        series: Sequence[np.ndarray],
        stamps: Sequence[np.ndarray] | None,
        begins: Sequence[np.ndarray],
        window: int,
        horizon: int,
    ) -> "Windows":
        """Windows of all series that begin at `begins`."""
        parts = [cut(one, where, window, horizon) for one, where in zip(series, begins, strict=True)]
        pieces, after = (np.concatenate(both) for both in zip(*parts, strict=True))
        if stamps is None:
            return cls(pieces, after, None)
        rows = [where[:, None] + np.arange(window) for where in begins]
        return cls(pieces, after, np.concatenate([one[row] for one, row in zip(stamps, rows, strict=True)]))

    def take(self, which: Any) -> "Windows":
        """Select windows by a mask."""
        return Windows(self.pieces[which], self.after[which], None if self.stamps is None else self.stamps[which])


def as_cases(
    pieces: np.ndarray,
    after: np.ndarray | None,
    kind: str,
    dtype: np.dtype,
    *,
    stamps: np.ndarray | None = None,
    unit: float | None = None,
    missing: str = "error",
    start: np.ndarray | None = None,
) -> Cases:
    """Windows and the values after them as cases with targets, relative to their levels; targets relative to `start` if it is
    given. `stamps`, `unit` and `missing` as for `Cases.of`."""
    level = levels(pieces, kind)
    targets = None
    if after is not None:
        targets = (
            (after - (level if start is None else start))
            .reshape(len(after), after.shape[1] * after.shape[2])
            .astype(dtype)
        )
    if not len(pieces) or (stamps is None and not np.isnan(pieces).any()):
        return Cases(tuple((pieces - level).astype(dtype)), targets)
    return Cases.of(pieces - level, targets, times=stamps, unit=unit, missing=missing, dtype=dtype)


def seasonal_naive(
    pieces: Float[np.ndarray, "cases window channels"], horizon: int, season: int
) -> Float[np.ndarray, "cases horizon channels"]:
    """The seasonal naive forecast: repeat the last season, or the last value with `season=1`."""
    return np.tile(carried_forward(pieces)[:, -season:], (1, math.ceil(horizon / season), 1))[:, :horizon]


def naive_error(series: list[np.ndarray], season: int) -> Float[np.ndarray, " channels"]:
    """Mean absolute error of the seasonal naive forecast of each channel within the series, one season ahead: the
    unit of MASE (Hyndman and Koehler, "Another look at measures of forecast accuracy", 2006). It is 1 where that is 0."""
    changes = [np.abs(one[season:] - one[:-season]) for one in series if len(one) > season]
    changes = np.concatenate(changes) if changes else np.zeros((1, series[0].shape[1]))
    error = np.nansum(changes, 0) / np.maximum((~np.isnan(changes)).sum(0), 1)
    return np.where(error > 0, error, 1.0)
