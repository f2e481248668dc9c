"""Random liquid units: groups of `LRC` cells whose inputs are nine values of mixed signals.

A signal is a random mix of the channels of one view. There are two kinds of groups:

    shapes    one signal at nine equally spaced steps: now, and d, 2d … 8d steps ago. The dilation d differs from group to group,
              and the input weights of the cell are random kernels of mean 0, which respond to shapes at any level.
    levels    nine signals at the current step (one, if there is one channel), d = 0. Each unit sees one of them.

Channels enter in random order, each one as often as any other. Before the first step a signal has its first value.

Half of the units of a group follow their input from step to step; the time constants of the others are log-uniform up to
`max_time`. The cells are integrated implicitly, with `SPEED` units of their time from one step of the series to the next:
this is stable for any gap between two steps, and a step of no time leaves the state as it is.
"""

import itertools
from collections.abc import Iterator
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from ..cells import LRC
from ..errors import InvalidValue

TAPS = 9
SPEED = 16.0  # the fastest units keep 1/(1 + 0.95 · SPEED · σ(f)) of the state, about a tenth
GAIN = 2.0  # the scale of a kernel's response in the argument of its synapse
FASTEST = 0.95  # the largest elastance at rest
_MOST_MIXED = 9  # channels of a signal
_LEVELS, _LEVELS_OF_MANY = 1 / 8, 1 / 2  # share of the groups that see levels, for one channel and for several


class Units(NamedTuple):
    """Groups of units, and their signals.

    **Attributes:**

    - `cell`: `LRC` cells, their arrays stacked along a first axis of groups.
    - `dilations`: of each group; 0 for levels.
    - `sources`: the signal of each input.
    - `mixes`: weights of views and channels in each signal.
    """

    cell: LRC
    dilations: Int[Array, " group"]
    sources: Int[Array, "group tap"]
    mixes: Float[np.ndarray, "view channel signal"]


class Design(NamedTuple):
    """Number of groups, and of units in each."""

    groups: int
    units: int


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
    dilations = np.zeros(groups, np.int32)
    sources = np.zeros((groups, TAPS), np.int32)
    kernels = rng.standard_normal((groups, TAPS, units))
    kernels -= kernels.mean(1, keepdims=True)
    top = np.log2(max((length - 1) / (TAPS - 1), 1))
    mixes = []

    def add_signal(view: int, chosen: list[int]) -> int:
        mix = np.zeros((views, channels))
        mix[view, chosen] = rng.standard_normal(len(chosen)) if channels > 1 else 1.0
        mixes.append(mix)
        return len(mixes) - 1

    for view in range(views):
        mine = np.arange(view, groups, views)
        shapes = len(mine) - round(len(mine) * (_LEVELS if channels == 1 else _LEVELS_OF_MANY))
        dilations[mine[:shapes]] = 2 ** np.linspace(0, top, shapes)
        deck = _in_turn(rng, channels)
        for group in mine[:shapes]:
            count = int(min(channels, _MOST_MIXED) ** rng.uniform() + rng.uniform())
            sources[group] = add_signal(view, list(itertools.islice(deck, count)))
        deck = _in_turn(rng, channels)
        for group in mine[shapes:]:
            if channels > 1:
                sources[group] = [add_signal(view, [next(deck)]) for _ in range(TAPS)]
            else:
                sources[group] = add_signal(view, [0])
            kernels[group] = (np.arange(TAPS)[:, None] == rng.permutation(np.arange(units) % TAPS)) * rng.choice(
                [-1.0, 1.0], units
            )
    times = np.ones((groups, units))
    slow = units - units // 2
    times[:, units // 2 :] = max(max_time, 1.0) ** rng.uniform(0, 1, (groups, slow))
    return Units(_cells(rng, kernels, times), jnp.asarray(dilations), jnp.asarray(sources), np.stack(mixes, -1))


def _in_turn(rng: np.random.Generator, channels: int) -> Iterator[int]:
    """Channels without end: all of them in random order, then all of them again."""
    while True:
        yield from rng.permutation(channels).tolist()


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


def unit_arrays(units: Units) -> dict[str, np.ndarray]:
    """All arrays of the units by name."""
    arrays = {f"cell.{name}": np.asarray(value) for name, value in cell_arrays(units.cell).items()}
    return arrays | {name: np.asarray(getattr(units, name)) for name in ("dilations", "sources", "mixes")}


def units_of(arrays: dict[str, np.ndarray]) -> Units:
    """The inverse of `unit_arrays`, among further arrays."""
    own = {name[5:]: array for name, array in arrays.items() if name.startswith("cell.")}
    groups, taps, units = own["a_u"].shape
    skeleton = stacked(taps, units, jax.random.split(jax.random.key(0), groups))
    if set(cell_arrays(skeleton)) != set(own):
        raise InvalidValue("its arrays are not those of an LRC cell")
    dilations, sources = (jnp.asarray(arrays[name]) for name in ("dilations", "sources"))
    return Units(with_arrays(skeleton, **own), dilations, sources, arrays["mixes"])


def cell_arrays(cell: LRC) -> dict[str, Array]:
    """The arrays of stacked cells by their field."""
    return {name: value for name, value in vars(cell).items() if eqx.is_array(value)}
