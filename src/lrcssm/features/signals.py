"""Batches of series as the groups of units see them, padded to one of a few lengths."""

import concurrent.futures
import dataclasses
import os
from collections.abc import Callable, Iterator
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from ..data import Cases
from .units import Units
from .views import Views

_SHORTEST, _FACTOR, _LONGEST = 64, 4, 4096  # buffers: a few lengths, then multiples of the longest
_BUFFER = 2**24  # numbers in the signals of a batch
_TOGETHER = 2**26  # numbers in those of all threads


class Signals(NamedTuple):
    """A batch of series as the groups see them.

    **Attributes:**

    - `values`: the mixed signals.
    - `dt`: the time to each step from the one before, `(time, batch)`; 0 for steps that are skipped and for padding.
    - `steps`: how many steps there are; what follows is padding.
    """

    values: Float[Array, "time signal batch"]
    dt: Float[Array, "time batch"]
    steps: Int[Array, ""]


@dataclasses.dataclass(frozen=True)
class Batches:
    """Batches of some cases, those of similar length together.

    **Attributes:**

    - `cases`: the series.
    - `views`, `units`: views of the series, and mixes of these.
    - `size`: number of cases in a batch. Fewer are filled up with padding.
    """

    cases: Cases
    views: Views
    units: Units
    size: int

    @classmethod
    def of(cls, cases: Cases, views: Views, units: Units, size: int) -> "Batches":
        """Batches of at most `size` cases, and fewer if they are very long."""
        while size > 1 and cls(cases, views, units, size)._numbers() > _BUFFER:
            size //= 2
        return cls(cases, views, units, size)

    def __iter__(self) -> Iterator[np.ndarray]:
        """Positions of the cases of each batch."""
        order = np.argsort([len(one) for one in self.cases.series], kind="stable")
        return (order[start : start + self.size] for start in range(0, len(order), self.size))

    def _numbers(self) -> int:
        """Numbers in the signals of the longest batch."""
        longest = max(len(one) for one in self.cases.series)
        return self.size * buffer_length(longest) * self.units.mixes.shape[-1]

    def signals(self, which: np.ndarray) -> Signals:
        """Signals of the cases at these positions."""
        cases = self.cases
        steps = max(len(cases.series[i]) for i in which)
        mixes = self.units.mixes.reshape(-1, self.units.mixes.shape[-1]).astype(np.float32)
        values = np.zeros((self.size, buffer_length(steps), mixes.shape[1]), np.float32)
        dt = np.zeros(values.shape[:2], np.float32)
        for row, i in enumerate(which.tolist()):
            seen = self.views(cases, i)
            here = slice(0, len(seen))
            np.matmul(seen.reshape(len(seen), -1), mixes, out=values[row, here])
            dt[row, here] = 1.0 if cases.dt is None else cases.dt[i]
            if cases.valid is not None:
                dt[row, here] *= cases.valid[i]
        dtype = self.units.cell.v.dtype
        return Signals(
            jnp.asarray(values.transpose(1, 2, 0), dtype), jnp.asarray(dt.T, dtype), jnp.asarray(steps, jnp.int32)
        )

    def run(self, compute: Callable[[Signals, np.ndarray], None]) -> None:
        """Call a function with the signals and the positions of each batch, in as many threads as the process has cores and
        memory allows. Compiled programs run side by side, as they do without Python's lock."""
        parts = list(self)
        threads = min(len(parts), cores(), max(1, _TOGETHER // self._numbers()))
        one = lambda which: compute(self.signals(which), which)
        if threads == 1:
            for which in parts:
                one(which)
            return
        with concurrent.futures.ThreadPoolExecutor(threads) as pool:
            for _ in pool.map(one, parts):
                pass


def cores() -> int:
    """Number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def buffer_length(steps: int) -> int:
    """A length to pad to, of which there are few: each is compiled for."""
    length = _SHORTEST
    while length < min(steps, _LONGEST):
        length *= _FACTOR
    return length if steps <= _LONGEST else -(-steps // _LONGEST) * _LONGEST
