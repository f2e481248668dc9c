"""One pass over the steps of a batch of series, pooled as it goes: a step is one step of the cells and one update of the
running statistics. The number of steps is not part of the compiled program, so that few programs serve all lengths."""

import equinox as eqx
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float, Int

from ..cells import LRC
from . import statistics
from .signals import Signals
from .statistics import Reference
from .units import SPEED, TAPS, Units


def taps(
    values: Float[Array, "time group batch"], dilations: Int[Array, " group"], step: Int[Array, ""] | int
) -> Float[Array, "group batch tap"]:
    """The last values of each group's signal."""
    ago = dilations[:, None] * jnp.arange(TAPS, dtype=dilations.dtype)
    when = jnp.maximum(step - ago, 0)
    found = values[when, jnp.arange(len(dilations))[:, None]]  # (group, tap, batch)
    return jnp.swapaxes(found, 1, 2)


def advance(
    cell: LRC,
    state: Float[Array, "group batch unit"],
    inputs: Float[Array, "group batch tap"],
    dt: Float[Array, "batch 1"],
) -> Float[Array, "group batch unit"]:
    """The next state of all groups."""
    one = lambda cell, x, u: cell.step(x, cell.drive(u), SPEED * dt)
    return eqx.filter_vmap(one)(cell, state, inputs)


def resting(cell: LRC, batch: int) -> Float[Array, "group batch unit"]:
    """The state before the first step."""
    groups, size = cell.v.shape
    return jnp.zeros((groups, batch, size), cell.v.dtype)


@eqx.filter_jit
def pooled(units: Units, reference: Reference, signals: Signals) -> Float[Array, "batch statistic group unit"]:
    """The statistics of each case."""
    values, dt = signals.values, signals.dt
    rest = resting(units.cell, values.shape[2])

    def body(t, carry):
        state, running = carry
        gap = dt[t][:, None]
        new = advance(units.cell, state, taps(values, units.dilations, t), gap)
        return new, statistics.update(running, state, new, (gap > 0).astype(state.dtype), reference)

    state, running = lax.fori_loop(jnp.zeros_like(signals.steps), signals.steps, body, (rest, statistics.start(rest)))
    return statistics.finish(running, state, reference)


@eqx.filter_jit
def recorded(
    units: Units, signals: Signals, slots: Int[Array, " time"], count: int
) -> Float[Array, "slot group batch unit"]:
    """The states at chosen steps: that of step t is written to slot `slots[t]`, and slot `count - 1` is for the rest."""
    values, dt = signals.values, signals.dt
    rest = resting(units.cell, values.shape[2])

    def body(t, carry):
        state, record = carry
        new = advance(units.cell, state, taps(values, units.dilations, t), dt[t][:, None])
        return new, lax.dynamic_update_index_in_dim(record, new, slots[t], 0)

    record = jnp.zeros((count, *rest.shape), rest.dtype)
    return lax.fori_loop(jnp.zeros_like(signals.steps), signals.steps, body, (rest, record))[1]
