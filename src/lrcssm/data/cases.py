"""Cases: series with their targets, of equal lengths or not, and how they are cut into batches."""

import dataclasses
import functools
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ..errors import InvalidValue


@dataclasses.dataclass(frozen=True)
class Cases:
    """Series in memory.

    ```python
    import numpy as np
    from lrcssm.data import Cases

    cases = Cases.of([np.zeros((30, 2)), np.ones((50, 2))], targets=[0, 1])  # (time, channels) each
    print(len(cases), cases.channels, cases.longest)  # 2 2 50
    ```

    **Attributes:**

    - `series`: one array `(time, channels)` for each case.
    - `targets`: one for each case: class numbers `(cases,)`, or numbers `(cases,)` or `(cases, targets)`; or one for each
        step, a tuple of arrays `(time,)` or `(time, targets)`, NaN where a step has none; `None` where there are none.
    - `valid`: which steps of each case are to be believed, `(time,)`, or `None` if all are.
    - `dt`: the time from each step's predecessor to the step, `(time,)`, for irregular series; `None` if it is always 1.
    - `unit`: how much of the source's time is one step, or `None` if there are no times.
    """

    series: tuple[np.ndarray, ...]
    targets: np.ndarray | tuple[np.ndarray, ...] | None = None
    valid: tuple[np.ndarray, ...] | None = None
    dt: tuple[np.ndarray, ...] | None = None
    unit: float | None = None

    @classmethod
    def of(
        cls,
        series: Sequence[Any] | np.ndarray,
        targets: Any = None,
        *,
        times: Sequence[Any] | np.ndarray | None = None,
        unit: float | None = None,
        missing: str = "error",
        dtype: Any = np.float32,
    ) -> "Cases":
        """From an array `(cases, time, channels)` or a sequence of `(time, channels)`, checked.

        **Arguments:**

        - `series`, `targets`: see above.
        - `times`: when each step was measured, `(time,)` for each case, increasing.
        - `unit`: how much of that is one step, dt = 1; the mean time between two steps over all cases if not given. For
            new cases of a trained model give the `unit` of the training cases.
        - `missing`: what to do with NaN: `"error"`; `"mask"`, a step where any channel is missing is skipped (its time
            still passes); or `"fill"`, a missing value is the last one that was seen, or the first to come, and only
            steps where all channels are missing are skipped.
        - `dtype`: of the series.
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
            found, valid = _believable(found, missing)
        dt = None
        if times is not None:
            stamps = _checked(found, times)
            unit = _mean_interval(stamps) if unit is None else unit
            dt = tuple(np.concatenate([[1.0], np.diff(stamp) / unit]).astype(dtype) for stamp in stamps)
        if valid is not None and dt is None and not all(one.all() for one in valid):
            dt = tuple(np.ones(len(one), dtype) for one in found)
        if valid is not None and dt is not None:
            dt = tuple(_pass_on(one, which) for one, which in zip(dt, valid, strict=True))
        return cls(found, targets, valid, dt, unit)

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
        """Whether some step of a batch may not count: lengths differ, or values are missing."""
        return self.valid is not None or any(len(one) != len(self.series[0]) for one in self.series)

    def take(self, which: Any) -> "Cases":
        """Some of them, by position."""
        which = np.asarray(which, int)
        series, valid, dt = (
            None if parts is None else tuple(parts[i] for i in which) for parts in (self.series, self.valid, self.dt)
        )
        assert series is not None
        targets = self.targets
        if targets is not None:
            targets = tuple(targets[i] for i in which) if isinstance(targets, tuple) else targets[which]
        return Cases(series, targets, valid, dt, self.unit)

    def batch(self, length: int, which: np.ndarray, size: int) -> "Batch":
        """Some cases side by side, padded to `length` steps and filled up to `size` with copies that count 0."""
        # Copies, not zeros: without a mask for what is no case, full batches and others run the same compiled function.
        full = np.concatenate([which, np.full(size - len(which), which[0])])
        inputs = np.zeros((length, size, self.channels), self.series[0].dtype)
        mask = np.zeros((length, size), bool)
        dt = None if self.dt is None else np.ones((length, size), inputs.dtype)
        for column, i in enumerate(full):
            one = self.series[i]
            inputs[: len(one), column], mask[: len(one), column] = one, True if self.valid is None else self.valid[i]
            if dt is not None and self.dt is not None:
                dt[: len(one), column] = self.dt[i]
        return Batch(
            inputs=inputs,
            mask=mask if self.ragged else None,
            dt=dt,
            targets=self._targets(full, length),
            weights=(np.arange(size) < len(which)).astype(inputs.dtype),
            positions=which,
        )

    def _targets(self, which, length):
        if not isinstance(self.targets, tuple):
            return None if self.targets is None else self.targets[which]
        found = np.zeros((length, len(which), *self.targets[0].shape[1:]), self.targets[0].dtype)
        for column, i in enumerate(which):
            found[: len(self.targets[i]), column] = self.targets[i]
        return found

    def statistics(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Mean and scale of each channel over all steps of all cases, the scale of its first differences, then mean and
        scale of the targets; what is constant has scale 1, and classes have mean 0 and scale 1."""
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


@dataclasses.dataclass(frozen=True)
class Batch:
    """Some cases side by side, padded to one length.

    **Attributes:**

    - `inputs`: `(time, batch, channels)`, zero after a series' end.
    - `mask`: `(time, batch)`, true where a step is real, or `None` if all are.
    - `dt`: `(time, batch)`, or `None` if it is always 1.
    - `targets`: `(batch, ...)`, or `(time, batch, ...)` if each step has its own.
    - `weights`: `(batch,)`, 1 for a case and 0 for one that only fills the batch up.
    - `positions`: which cases these are.
    """

    inputs: np.ndarray
    mask: np.ndarray | None
    dt: np.ndarray | None
    targets: np.ndarray | None
    weights: np.ndarray
    positions: np.ndarray


def batches(cases: Cases, size: int, rng: np.random.Generator | None = None) -> Iterator[Batch]:
    """All cases once, in batches of equal size: shuffled by `rng`, or in order.

    Series of similar length share a batch and are padded to one of a few lengths, so that little is compiled and little
    padded. The last batch of a length is filled up with cases of weight 0: each case counts once.
    """
    for length, which in arrange(cases, size, rng):
        yield cases.batch(length, which, size)


def arrange(cases: Cases, size: int, rng: np.random.Generator | None = None) -> list[tuple[int, np.ndarray]]:
    """Of each batch, the length that its cases are padded to, and which cases they are."""
    lengths = np.array([len(one) for one in cases.series])
    ends = _bucket_ends(lengths)
    bucket = np.searchsorted(ends, lengths)
    groups = []
    for i in np.unique(bucket):
        which = np.flatnonzero(bucket == i)
        which = which if rng is None else rng.permutation(which)
        groups += [(int(ends[i]), which[start : start + size]) for start in range(0, len(which), size)]
    return groups if rng is None else [groups[i] for i in rng.permutation(len(groups))]


def _bucket_ends(lengths: np.ndarray) -> np.ndarray:
    """Lengths to pad to: the longest, and shorter ones in steps of a quarter, as far as there are series for them."""
    ends = [int(lengths.max())]
    while ends[-1] > lengths.min() and len(ends) < 16:
        ends.append(max(int(ends[-1] / 1.25), 1))
    ends = np.array(sorted(set(ends)))
    return ends[np.unique(np.searchsorted(ends, np.minimum(lengths, ends[-1])))]


def _moments(arrays):
    """Mean and scale of each column over the rows of all arrays."""
    count = sum(len(one) for one in arrays)
    mean = np.sum([one.sum(0, dtype=np.float64) for one in arrays], 0) / count
    scale = np.sqrt(np.sum([((one - mean) ** 2).sum(0) for one in arrays], 0) / count)
    return mean, np.where(scale > 1e-12 * (1 + np.abs(mean)), scale, 1.0)


def _believable(series, missing):
    """Series without NaN, and which of their steps to believe."""
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
    """Steps that are skipped hand their time to the next one that is not."""
    total = np.cumsum(dt)
    kept = np.flatnonzero(valid)
    out = np.ones_like(dt)
    out[kept] = np.diff(total[kept], prepend=0)
    return out
