"""Running statistics of the states: each is updated step by step, so that no history of states is kept.

Of each unit, over the observed steps:

    above-0 … above-7    the share of steps with a state above a threshold, a quantile of the training states
    mean, std            of the state
    max, min             of the state
    rises                the share of steps at which the state rises
    last                 the state after the last step

States count in units of their mean and scale over the training cases.
"""

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float

THRESHOLDS = 8
STATISTICS = (*(f"above-{i}" for i in range(THRESHOLDS)), "mean", "std", "max", "min", "rises", "last")


class Reference(NamedTuple):
    """Facts about the states of the training cases, one for each unit."""

    mean: Float[Array, "group 1 unit"]
    scale: Float[Array, "group 1 unit"]
    thresholds: Float[Array, "threshold group 1 unit"]


class Running(NamedTuple):
    """Sums and extremes so far, `(group, batch, unit)` each."""

    steps: Float[Array, "batch 1"]
    above: Float[Array, "threshold group batch unit"]
    total: Float[Array, "group batch unit"]
    squares: Float[Array, "group batch unit"]
    high: Float[Array, "group batch unit"]
    low: Float[Array, "group batch unit"]
    rises: Float[Array, "group batch unit"]


def start(state: Float[Array, "group batch unit"]) -> Running:
    """Statistics of no step, for states of this shape."""
    zero = jnp.zeros_like(state)
    above = jnp.zeros((THRESHOLDS, *state.shape), state.dtype)
    return Running(jnp.zeros((state.shape[1], 1), state.dtype), above, zero, zero, zero - jnp.inf, zero + jnp.inf, zero)


def update(
    running: Running,
    before: Float[Array, "group batch unit"],
    state: Float[Array, "group batch unit"],
    observed: Float[Array, "batch 1"],
    reference: Reference,
) -> Running:
    """Statistics with one more step; where `observed` is 0 they stay as they are."""
    seen = observed > 0
    centred = state - reference.mean
    return Running(
        steps=running.steps + observed,
        above=running.above + jnp.where(state > reference.thresholds, observed, 0.0),
        total=running.total + observed * centred,
        squares=running.squares + observed * (centred * centred),
        high=jnp.where(seen, jnp.maximum(running.high, centred), running.high),
        low=jnp.where(seen, jnp.minimum(running.low, centred), running.low),
        rises=running.rises + jnp.where(state > before, observed, 0.0),
    )


def finish(
    running: Running, state: Float[Array, "group batch unit"], reference: Reference
) -> Float[Array, "batch statistic group unit"]:
    """The statistics so far, in the order of `STATISTICS`."""
    steps = jnp.maximum(running.steps, 1.0)
    mean = running.total / steps
    spread = jnp.sqrt(jnp.maximum(running.squares / steps - mean * mean, 0.0))
    own = (mean, spread, running.high, running.low, state - reference.mean)
    mean, spread, high, low, last = (part / reference.scale for part in own)
    parts = (*(share / steps for share in running.above), mean, spread, high, low, running.rises / steps, last)
    return jnp.moveaxis(jnp.stack(parts), 2, 0)  # batch first
