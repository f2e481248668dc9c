"""Cases: series of equal or unequal lengths with their targets, as models accept them."""

import dataclasses
import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..errors import InvalidValue


@dataclasses.dataclass(frozen=True)
class Cases:
    """Series of equal or unequal lengths, with targets, times and weights.

    ```python
    import numpy as np
    from lrcssm.data import Cases

    cases = Cases.of([np.zeros((30, 2)), np.ones((50, 2))], targets=[0, 1])  # (time, channels) each
    print(len(cases), cases.channels, cases.longest)  # 2 2 50
    ```

    **Attributes:**

    - `series`: one array `(time, channels)` for each case.
    - `targets`: one for each case: class numbers `(cases,)`, or numbers `(cases,)` or `(cases, targets)`; or one for each
        step, a tuple of arrays `(time,)` or `(time, targets)`, −1 or NaN where a step has none; `None` where there are none.
    - `valid`: for each case `(time,)`, true at observed steps; `None` if all steps are.
    - `dt`: the time from each step's predecessor to the step, `(time,)`, for irregular series; `None` if it is always 1.
    - `unit`: source time per step, or `None` if there are no times.
    - `weights`: the weight of each case in the loss, `(cases,)`, or `None` if all count the same.
    """

    series: tuple[np.ndarray, ...]
    targets: np.ndarray | tuple[np.ndarray, ...] | None = None
    valid: tuple[np.ndarray, ...] | None = None
    dt: tuple[np.ndarray, ...] | None = None
    unit: float | None = None
    weights: np.ndarray | None = None

    @classmethod
    def of(
        cls,
        series: Sequence[Any] | np.ndarray,
        targets: Any = None,
        *,
        times: Sequence[Any] | np.ndarray | None = None,
        unit: float | None = None,
        missing: str = "error",
        weights: Any = None,
        dtype: Any = np.float32,
    ) -> "Cases":
        """Check series and convert them to cases.

        **Arguments:**

        - `series`: an array `(cases, time, channels)` or a sequence of arrays `(time, channels)`.
        - `targets`, `weights`: as the attributes.
        - `times`: time of each step, `(time,)` for each case, increasing.
        - `unit`: the time of one step, dt = 1; by default the mean time between two steps over all cases. For new cases of a
            trained model pass the `unit` of the training cases.
        - `missing`: treatment of NaN. `"error"` raises an error. `"mask"` skips each step where a channel is missing (its time
            still passes). `"fill"` replaces a missing value by the last observed one, or by the first one at the start, and
            skips only steps where all channels are missing.
        - `dtype`: of the series.

        **Returns:**

        `Cases`. Series that cannot be used raise `InvalidValue`.
        """
        if missing not in ("error", "mask", "fill"):
            raise InvalidValue(f'Cases got missing={missing!r}; give "error", "mask" or "fill".')
        found = tuple(np.ascontiguousarray(one, dtype) for one in series)
        if not found:
            raise InvalidValue("There is no case; give at least one series.")
        for i, one in enumerate(found):
            if one.ndim != 2 or 0 in one.shape:
                raise InvalidValue(
                    f"Series {i} has shape {one.shape}; expected (time, channels), neither of them empty."
                )
            if one.shape[1] != found[0].shape[1]:
                raise InvalidValue(
                    f"Series {i} has {one.shape[1]} channels and series 0 has {found[0].shape[1]}; all need the same."
                )
            if np.isinf(one).any():
                raise InvalidValue(f"Series {i} holds infinity; every value must be a finite number.")
            if missing == "error" and np.isnan(one).any():
                raise InvalidValue(
                    f'Series {i} holds NaN; give missing="mask" to skip such steps, missing="fill" to carry the last '
                    "value forward, or fill them in."
                )
        if targets is not None:
            targets = tuple(np.asarray(one) for one in targets) if isinstance(targets, tuple) else np.asarray(targets)
            if len(targets) != len(found):
                raise InvalidValue(
                    f"There are {len(found)} series and {len(targets)} targets; give one target for each series."
                )
            if isinstance(targets, tuple) and any(len(a) != len(b) for a, b in zip(targets, found, strict=True)):
                raise InvalidValue("Targets for each step were given; they need as many steps as their series.")
        valid = None
        if any(np.isnan(one).any() for one in found):
            found, valid = _filled(found, missing)
        dt = None
        if times is not None:
            stamps = _checked(found, times)
            unit = _mean_interval(stamps) if unit is None else unit
            dt = tuple(np.concatenate([[1.0], np.diff(stamp) / unit]).astype(dtype) for stamp in stamps)
        if valid is not None and dt is None and not all(one.all() for one in valid):
            dt = tuple(np.ones(len(one), dtype) for one in found)
        if valid is not None and dt is not None:
            dt = tuple(_pass_on(one, which) for one, which in zip(dt, valid, strict=True))
        if weights is not None:
            weights = np.asarray(weights, np.float64)
            if (
                weights.shape != (len(found),)
                or not np.isfinite(weights).all()
                or (weights < 0).any()
                or not weights.any()
            ):
                raise InvalidValue(
                    f"weights have shape {weights.shape} for {len(found)} series; give one finite number of at least 0 for "
                    "each, not all of them zero."
                )
        return cls(found, targets, valid, dt, unit, weights)

    def __len__(self) -> int:
        return len(self.series)

    @property
    def channels(self) -> int:
        return self.series[0].shape[1]

    @property
    def longest(self) -> int:
        return max(len(one) for one in self.series)

    @functools.cached_property
    def ragged(self) -> bool:
        """True if lengths differ or steps are missing, so that batches need a mask."""
        return self.valid is not None or any(len(one) != len(self.series[0]) for one in self.series)

    def take(self, which: Any) -> "Cases":
        """Select cases by position."""
        which = np.asarray(which, int)
        series, valid, dt = (
            None if parts is None else tuple(parts[i] for i in which) for parts in (self.series, self.valid, self.dt)
        )
        assert series is not None
        targets = self.targets
        if targets is not None:
            targets = tuple(targets[i] for i in which) if isinstance(targets, tuple) else targets[which]
        weights = None if self.weights is None else self.weights[which]
        return Cases(series, targets, valid, dt, self.unit, weights)

    def statistics(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Compute the mean and scale of each channel over all steps of all cases, the scale of its first differences, and mean
        and scale of the targets. A constant has scale 1; classes have mean 0 and scale 1."""
        series = self.series
        if self.valid is not None:
            series = tuple(one[which] for one, which in zip(series, self.valid, strict=True))
        mean, scale = _moments(series)
        changes = [np.diff(one, axis=0) for one in series if len(one) > 1]
        difference = np.sqrt(sum((d.astype(np.float64) ** 2).sum(0) for d in changes) / max(sum(map(len, changes)), 1))
        difference = np.where(difference > 1e-12 * (1 + np.abs(mean)), difference, 1.0)
        if self.targets is None or np.issubdtype(self.targets[0].dtype, np.integer):
            return mean, scale, difference, np.zeros(()), np.ones(())
        numbers = self.targets if isinstance(self.targets, tuple) else (self.targets,)
        columns = [one.reshape(len(one), -1) for one in numbers]
        if isinstance(self.targets, tuple):
            columns = [one[~np.isnan(one).any(-1)] for one in columns]
        return mean, scale, difference, *_moments(tuple(columns))


def _moments(arrays):
    """Compute mean and scale of each column over the rows of all arrays."""
    count = sum(len(one) for one in arrays)
    mean = np.sum([one.sum(0, dtype=np.float64) for one in arrays], 0) / count
    scale = np.sqrt(np.sum([((one - mean) ** 2).sum(0) for one in arrays], 0) / count)
    return mean, np.where(scale > 1e-12 * (1 + np.abs(mean)), scale, 1.0)


def _filled(series, missing):
    """Replace NaN; returns the series and their observed steps."""
    filled, valid = [], []
    for i, one in enumerate(series):
        ok = ~np.isnan(one)
        valid.append(ok.any(1) if missing == "fill" else ok.all(1))
        if not valid[-1].any():
            raise InvalidValue(f"Series {i} has no step without a missing value; leave it out, or fill it in.")
        if not ok.any(0).all():
            channel = int(np.flatnonzero(~ok.any(0))[0])
            raise InvalidValue(f"Series {i} has no value of channel {channel} at all; leave it out, or fill it in.")
        last = np.maximum.accumulate(np.where(ok, np.arange(len(one))[:, None], -1))
        source = np.where(last < 0, ok.argmax(0), last)
        filled.append(np.ascontiguousarray(np.take_along_axis(one, source, 0)))
    return tuple(filled), tuple(valid)


def _checked(series, times):
    if len(times) != len(series):
        raise InvalidValue(
            f"There are {len(series)} series and times for {len(times)}; give one array for each series."
        )
    stamps = [np.asarray(one, np.float64) for one in times]
    for i, (one, stamp) in enumerate(zip(series, stamps, strict=True)):
        if stamp.shape != one.shape[:1]:
            raise InvalidValue(f"The times of series {i} have shape {stamp.shape}; expected {one.shape[:1]}.")
        if not np.isfinite(stamp).all() or (np.diff(stamp) <= 0).any():
            raise InvalidValue(f"The times of series {i} do not increase from step to step; sort the steps by time.")
    return stamps


def _mean_interval(stamps):
    steps = sum(len(stamp) - 1 for stamp in stamps)
    return float(sum(stamp[-1] - stamp[0] for stamp in stamps) / steps) if steps else 1.0


def _pass_on(dt, valid):
    """Add the time of skipped steps to that of the next observed one."""
    total = np.cumsum(dt)
    kept = np.flatnonzero(valid)
    out = np.ones_like(dt)
    out[kept] = np.diff(total[kept], prepend=0)
    return out
