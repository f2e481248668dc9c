"""Cases: series with their targets, of equal lengths or not, and how they are cut into batches."""

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np


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
    - `targets`: one for each case: class numbers, or an array of numbers; `None` where there are none.
    """

    series: tuple[np.ndarray, ...]
    targets: np.ndarray | None = None

    @classmethod
    def of(cls, series: Sequence[Any] | np.ndarray, targets: Any = None, dtype: Any = np.float32) -> "Cases":
        """From an array `(cases, time, channels)` or a sequence of `(time, channels)`, checked."""
        found = tuple(np.ascontiguousarray(one, dtype) for one in series)
        if not found:
            raise ValueError("There is no case; give at least one series.")
        for i, one in enumerate(found):
            if one.ndim != 2 or 0 in one.shape:
                raise ValueError(f"Series {i} has shape {one.shape}; expected (time, channels), neither of them empty.")
            if one.shape[1] != found[0].shape[1]:
                raise ValueError(
                    f"Series {i} has {one.shape[1]} channels and series 0 has {found[0].shape[1]}; all need the same."
                )
            if not np.isfinite(one).all():
                raise ValueError(f"Series {i} holds NaN or infinity; fill them in, or mask them.")
        if targets is not None:
            targets = np.asarray(targets)
            if len(targets) != len(found):
                raise ValueError(
                    f"There are {len(found)} series and {len(targets)} targets; give one target for each series."
                )
        return cls(found, targets)

    def __len__(self) -> int:
        return len(self.series)

    @property
    def channels(self) -> int:
        return self.series[0].shape[1]

    @property
    def longest(self) -> int:
        return max(len(one) for one in self.series)

    def take(self, which: Any) -> "Cases":
        """Some of them, by position."""
        chosen = tuple(self.series[int(i)] for i in which)
        return Cases(chosen, None if self.targets is None else self.targets[np.asarray(which)])

    def statistics(self) -> tuple[np.ndarray, np.ndarray]:
        """Mean and scale of each channel over all steps of all cases; the scale of a constant channel is 1."""
        count = sum(len(one) for one in self.series)
        mean = np.sum([one.sum(0, dtype=np.float64) for one in self.series], 0) / count
        scale = np.sqrt(np.sum([((one - mean) ** 2).sum(0) for one in self.series], 0) / count)
        return mean, np.where(scale > 1e-12 * (1 + np.abs(mean)), scale, 1.0)


@dataclasses.dataclass(frozen=True)
class Batch:
    """Some cases side by side, padded to one length.

    **Attributes:**

    - `inputs`: `(time, batch, channels)`, zero after a series' end.
    - `mask`: `(time, batch)`, true where a step is real, or `None` if all are.
    - `targets`: `(batch, ...)`.
    - `weights`: `(batch,)`, 1 for a case and 0 for one that only fills the batch up.
    - `positions`: which cases these are.
    """

    inputs: np.ndarray
    mask: np.ndarray | None
    targets: np.ndarray | None
    weights: np.ndarray
    positions: np.ndarray


def batches(cases: Cases, size: int, rng: np.random.Generator | None = None) -> Iterator[Batch]:
    """All cases once, in batches of equal size: shuffled by `rng`, or in order.

    Series of similar length share a batch and are padded to one of a few lengths, so that little is compiled and little
    padded. The last batch of a length is filled up with cases of weight 0: each case counts once.
    """
    lengths = np.array([len(one) for one in cases.series])
    ends = _bucket_ends(lengths)
    bucket = np.searchsorted(ends, lengths)
    groups = []
    for i in np.unique(bucket):
        which = np.flatnonzero(bucket == i)
        which = which if rng is None else rng.permutation(which)
        groups += [(ends[i], which[start : start + size]) for start in range(0, len(which), size)]
    if rng is not None:
        groups = [groups[i] for i in rng.permutation(len(groups))]
    ragged = bool((lengths != lengths[0]).any())
    for length, which in groups:
        yield _batch(cases, which, size, int(length), ragged)


def _bucket_ends(lengths: np.ndarray) -> np.ndarray:
    """Lengths to pad to: the longest, and shorter ones in steps of a quarter, as far as there are series for them."""
    ends = [int(lengths.max())]
    while ends[-1] > lengths.min() and len(ends) < 16:
        ends.append(max(int(ends[-1] / 1.25), 1))
    ends = np.array(sorted(set(ends)))
    return ends[np.unique(np.searchsorted(ends, np.minimum(lengths, ends[-1])))]


def _batch(cases, which, size, length, ragged):
    inputs = np.zeros((length, size, cases.channels), cases.series[0].dtype)
    mask = np.zeros((length, size), bool)
    for column, i in enumerate(which):
        one = cases.series[i]
        inputs[: len(one), column], mask[: len(one), column] = one, True
    mask[0, len(which) :] = True  # what fills a batch up has one valid step, so that its mean exists
    full = np.concatenate([which, np.full(size - len(which), which[0])])
    weights = (np.arange(size) < len(which)).astype(inputs.dtype)
    return Batch(
        inputs=inputs,
        mask=mask if ragged or len(which) < size else None,
        targets=None if cases.targets is None else cases.targets[full],
        weights=weights,
        positions=which,
    )
