"""Random liquid units: groups of `LRC` cells, each fed by the last values of one signal, and one mixed signal a group.

A group sees one signal, a random mix of the channels of one view, at nine equally spaced steps: now, and d, 2d … 8d steps
ago, where the dilation d differs from group to group. The cell's input weights are random kernels over these nine taps.
Kernels of mean 0 see shapes whatever the level is; some groups have kernels of one tap, which see the level.
Before the first step a signal is what it is at the first step.

Half of the units of a group follow the kernel from step to step; the time constants of the others are log-uniform up to
`max_time`. The cells are integrated implicitly, with `SPEED` units of their time from one step of the series to the next:
that is stable for any gap between two steps, and a step of no time leaves the state as it is.
"""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from ..cells import LRC

TAPS = 9
SPEED = 16.0  # the fastest units keep 1/(1 + 0.95 · SPEED · σ(f)) of the state, about a tenth
GAIN = 2.0  # the scale of a kernel's response in the argument of its synapse
FASTEST = 0.95  # the largest elastance at rest


class Units(NamedTuple):
    """Groups of units, and the signals that they see.

    **Attributes:**

    - `cell`: `LRC` cells, their arrays stacked along a first axis of groups.
    - `dilations`: of each group.
    - `mixes`: how much of each view and channel is in each group's signal.
    """

    cell: LRC
    dilations: Int[Array, " group"]
    mixes: Float[np.ndarray, "view channel group"]


class Design(NamedTuple):
    """Shape of the random units.

    **Attributes:**

    - `groups`, `units`: groups, and units of a group.
    - `levels`: the share of the groups whose kernels have one tap.
    """

    groups: int
    units: int
    levels: float = 1 / 8


def draw(rng: np.random.Generator, design: Design, views: int, channels: int, length: int, max_time: float) -> Units:
    """Random units, before their kernels are scaled.

    **Arguments:**

    - `rng`: the source of randomness.
    - `design`: how many.
    - `views`, `channels`: of the series.
    - `length`: steps of a typical series.
    - `max_time`: the longest time constant, in steps.
    """
    groups, units = design.groups, design.units
    view = np.arange(groups) % views
    dilations = np.ones(groups, np.int32)
    kernels = rng.standard_normal((groups, TAPS, units))
    kernels -= kernels.mean(1, keepdims=True)
    top = np.log2(max((length - 1) / (TAPS - 1), 1))
    for v in range(views):
        mine = np.flatnonzero(view == v)
        single = round(len(mine) * design.levels)
        wide = mine[: len(mine) - single]
        dilations[wide] = 2 ** np.linspace(0, top, len(wide))
        for g in mine[len(mine) - single :]:
            kernels[g] = 0
            kernels[g, 0] = rng.choice([-1.0, 1.0], units)
    mixes = np.zeros((views, channels, groups))
    for g in range(groups):
        count = int(min(channels, 9) ** rng.uniform(0, 1) + rng.uniform(0, 1))
        chosen = rng.permutation(channels)[: min(count, channels)]
        mixes[view[g], chosen, g] = rng.standard_normal(len(chosen)) if channels > 1 else 1.0
    times = np.ones((groups, units))
    slow = units - units // 2
    times[:, units // 2 :] = max(max_time, 1.0) ** rng.uniform(0, 1, (groups, slow))
    return Units(_cells(rng, kernels, times), jnp.asarray(dilations), mixes)


def _cells(rng: np.random.Generator, kernels: np.ndarray, times: np.ndarray) -> LRC:
    """Stacked cells with these input weights and time constants."""
    groups, taps, units = kernels.shape
    keys = jax.random.split(jax.random.key(int(rng.integers(2**31))), groups)
    cell = stacked(taps, units, keys)
    # σ(v) SPEED σ(f) is the rate; 1/(1 + rate) = exp(−1/τ) of the state is kept.
    rate = np.expm1(1 / times) / SPEED / np.asarray(jax.nn.sigmoid(jax.vmap(lambda c: c._mean_forget())(cell)))
    share = np.minimum(rate, FASTEST)
    return with_arrays(cell, a_u=kernels, v=np.log(share) - np.log1p(-share))


@eqx.filter_jit
def stacked(taps: int, units: int, keys: Array) -> LRC:
    """One cell for each key, stacked."""
    make = lambda key: LRC(
        taps, units, elastance_input=False, integrator="implicit", init="spread", max_time=2, dtype=jnp.float32, key=key
    )
    return eqx.filter_vmap(make)(keys)


def with_arrays(cell: LRC, **arrays: np.ndarray) -> LRC:
    """The cell with other arrays in some of its fields."""
    new = [jnp.asarray(array, jnp.float32) for array in arrays.values()]
    return eqx.tree_at(lambda c: [getattr(c, name) for name in arrays], cell, new)


def scaled(units: Units, taps: np.ndarray) -> Units:
    """The units with responses of mean 0 and scale `GAIN` on these taps, `(sample, group, tap)`."""
    cell = units.cell
    kernels = np.asarray(cell.a_u, np.float64)
    responses = np.einsum("sgt,gtu->sgu", taps, kernels)
    mean, scale = responses.mean(0), responses.std(0)
    gain = GAIN / np.where(scale > 1e-6, scale, 1.0)
    b_u = np.asarray(cell.b_u, np.float64) - gain * mean
    return units._replace(cell=with_arrays(cell, a_u=kernels * gain[:, None], b_u=b_u))


def cell_arrays(cell: LRC) -> dict[str, Array]:
    """The arrays of stacked cells by their field."""
    return {name: value for name, value in vars(cell).items() if eqx.is_array(value)}


def cell_of(arrays: dict[str, np.ndarray]) -> LRC:
    """The inverse of `cell_arrays`."""
    groups, taps, units = arrays["a_u"].shape
    skeleton = stacked(taps, units, jax.random.split(jax.random.key(0), groups))
    if set(cell_arrays(skeleton)) != set(arrays):
        raise ValueError("the arrays are not those of an LRC cell.")
    return with_arrays(skeleton, **arrays)
