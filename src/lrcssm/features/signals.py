"""Batches of series as the groups of units see them, padded to one of a few lengths."""

from collections.abc import Iterator
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from ..data import Cases
from .units import Units
from .views import Views

_SHORTEST, _FACTOR, _LONGEST = 64, 4, 4096  # buffers: a few lengths, then multiples of the longest
_BUFFER = 2**25  # numbers in the signals of a batch


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


def batches(cases: Cases, views: Views, units: Units, size: int) -> Iterator[tuple[Signals, np.ndarray]]:
    """Signals of all cases, those of similar length together.

    **Arguments:**

    - `cases`: the series.
    - `views`, `units`: what becomes of them.
    - `size`: how many cases a batch has; fewer where they are very long. The last one is filled up with padding.

    **Returns:**

    Batches, and the positions of their cases.
    """
    lengths = np.array([len(one) for one in cases.series])
    order = np.argsort(lengths, kind="stable")
    size = max(1, min(size, _BUFFER // (buffer_length(int(lengths.max())) * units.mixes.shape[-1])))
    for start in range(0, len(order), size):
        which = order[start : start + size]
        yield _signals(cases, views, units, which.tolist(), size), which


def _signals(cases: Cases, views: Views, units: Units, which: list[int], size: int) -> Signals:
    steps = max(len(cases.series[i]) for i in which)
    length = buffer_length(steps)
    mixes = units.mixes.reshape(-1, units.mixes.shape[-1]).astype(np.float32)
    values = np.zeros((length, mixes.shape[1], size), np.float32)
    dt = np.zeros((length, size), np.float32)
    for column, i in enumerate(which):
        seen = views(cases, i)
        here = slice(0, len(seen))
        values[here, :, column] = seen.reshape(len(seen), -1) @ mixes
        dt[here, column] = 1.0 if cases.dt is None else cases.dt[i]
        if cases.valid is not None:
            dt[here, column] *= cases.valid[i]
    dtype = units.cell.v.dtype
    return Signals(jnp.asarray(values, dtype), jnp.asarray(dt, dtype), jnp.asarray(steps, jnp.int32))


def buffer_length(steps: int) -> int:
    """A length to pad to, of which there are few: each is compiled for."""
    length = _SHORTEST
    while length < min(steps, _LONGEST):
        length *= _FACTOR
    return length if steps <= _LONGEST else -(-steps // _LONGEST) * _LONGEST
