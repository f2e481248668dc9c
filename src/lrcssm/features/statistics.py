"""Running statistics of the states: each is updated step by step, so that no history of states is kept.

For each unit, over the observed steps:

    above-0 … above-3        share of steps with a state above a threshold, a quantile of the training states
    late-0, late-1           the same for the middle two thresholds, step k of n counted as k/n: large if the state is high late
    longest-0, longest-1     share of steps in the longest run above the middle two thresholds
    mean, std, max, min      of the state
    rises                    share of steps at which the state rises
    last                     the state after the last step
    leads, trails            mean of the state over all steps, counted as 0 unless it is the largest (smallest) of its group

States are measured relative to their mean and scale over the training cases. The longest run and the sums by position are
those of MultiRocket (Tan et al., 2022), and the competition within a group is that of Hydra (Dempster et al., 2023), applied to
states instead of convolutions.

The batch is the last axis: a step then runs over contiguous numbers, whatever the number of units is.
"""

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float

THRESHOLDS = 4
MIDDLE = slice(1, 3)
STATISTICS = (
    *(f"above-{i}" for i in range(THRESHOLDS)), "late-0", "late-1", "longest-0", "longest-1",
    "mean", "std", "max", "min", "rises", "last", "leads", "trails",
)  # fmt: skip


class Reference(NamedTuple):
    """Mean, scale and quantiles of the states of the training cases."""

    mean: Float[Array, "group unit 1"]
    scale: Float[Array, "group unit 1"]
    thresholds: Float[Array, "threshold group unit 1"]


class Running(NamedTuple):
    """Sums and extremes so far."""

    steps: Float[Array, " batch"]
    above: Float[Array, "threshold group unit batch"]
    late: Float[Array, "middle group unit batch"]
    run: Float[Array, "middle group unit batch"]
    longest: Float[Array, "middle group unit batch"]
    total: Float[Array, "group unit batch"]
    squares: Float[Array, "group unit batch"]
    high: Float[Array, "group unit batch"]
    low: Float[Array, "group unit batch"]
    rises: Float[Array, "group unit batch"]
    leads: Float[Array, "group unit batch"]
    trails: Float[Array, "group unit batch"]


def start(state: Float[Array, "group unit batch"]) -> Running:
    """Statistics before the first step, for states of this shape."""
    zero = jnp.zeros_like(state)
    above = jnp.zeros((THRESHOLDS, *state.shape), state.dtype)
    middle = above[MIDDLE]
    return Running(
        jnp.zeros(state.shape[-1], state.dtype), above, middle, middle, middle,
        zero, zero, zero - jnp.inf, zero + jnp.inf, zero, zero, zero,
    )  # fmt: skip


def update(
    running: Running,
    before: Float[Array, "group unit batch"],
    state: Float[Array, "group unit batch"],
    observed: Float[Array, " batch"],
    reference: Reference,
) -> Running:
    """Statistics after one more step; unchanged where `observed` is 0."""
    seen = observed > 0
    centred = state - reference.mean
    above = jnp.where(state > reference.thresholds, observed, 0.0)
    run = jnp.where(seen, (running.run + 1) * above[MIDDLE], running.run)
    relative = centred / reference.scale
    leading = relative == jnp.max(relative, 1, keepdims=True)
    trailing = relative == jnp.min(relative, 1, keepdims=True)
    return Running(
        steps=running.steps + observed,
        above=running.above + above,
        late=running.late + running.steps * above[MIDDLE],
        run=run,
        longest=jnp.maximum(running.longest, run),
        total=running.total + observed * centred,
        squares=running.squares + observed * (centred * centred),
        high=jnp.where(seen, jnp.maximum(running.high, centred), running.high),
        low=jnp.where(seen, jnp.minimum(running.low, centred), running.low),
        rises=running.rises + jnp.where(state > before, observed, 0.0),
        leads=running.leads + jnp.where(leading, observed * relative, 0.0),
        trails=running.trails + jnp.where(trailing, observed * relative, 0.0),
    )


def finish(
    running: Running, state: Float[Array, "group unit batch"], reference: Reference
) -> Float[Array, "batch statistic group unit"]:
    """The statistics so far, in the order of `STATISTICS`."""
    steps = jnp.maximum(running.steps, 1.0)
    mean = running.total / steps
    spread = jnp.sqrt(jnp.maximum(running.squares / steps - mean * mean, 0.0))
    own = (mean, spread, running.high, running.low, state - reference.mean)
    mean, spread, high, low, last = (part / reference.scale for part in own)
    parts = (
        *(running.above / steps), *(running.late / steps / steps), *(running.longest / steps),
        mean, spread, high, low, running.rises / steps, last, running.leads / steps, running.trails / steps,
    )  # fmt: skip
    return jnp.moveaxis(jnp.stack(parts), -1, 0)
