"""One pass over the steps of a batch of series, pooled as it goes: a step is one step of the cells and one update of the
running statistics. The number of steps is not part of the compiled program, so that few programs serve all lengths."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float, Int

from ..cells import LRC
from . import statistics
from .signals import Signals
from .statistics import Reference
from .units import SPEED, TAPS, Units


def taps(
    values: Float[Array, "time signal batch"], units: Units, step: Int[Array, ""] | int
) -> Float[Array, "group tap batch"]:
    """The inputs of each group."""
    ago = units.dilations[:, None] * jnp.arange(TAPS, dtype=units.dilations.dtype)
    return values[jnp.maximum(step - ago, 0), units.sources]


def advance(
    cell: LRC,
    state: Float[Array, "group unit batch"],
    inputs: Float[Array, "group tap batch"],
    dt: Float[Array, " batch"],
) -> Float[Array, "group unit batch"]:
    """The next state of all groups."""
    drive = eqx.filter_vmap(lambda cell, u: cell.drive(u))(cell, jnp.swapaxes(inputs, 1, 2))  # (group, batch, unit)
    drive = jax.tree.map(lambda a: jnp.swapaxes(a, 1, 2)[..., None], drive)
    single = lambda cell, x, u: cell.step(x, u, SPEED * dt[:, None])
    return eqx.filter_vmap(eqx.filter_vmap(single))(_single_units(cell), state[..., None], drive)[..., 0]


def _single_units(cell: LRC) -> LRC:
    """Cells of one unit each, `(group, unit)` of them, so that the batch and not the units is the last axis of a step."""
    return jax.tree.map(lambda a: a[..., None] if a.ndim == 2 else jnp.swapaxes(a, 1, 2)[..., None], cell)


def resting(cell: LRC, batch: int) -> Float[Array, "group unit batch"]:
    """The state before the first step."""
    return jnp.zeros((*cell.v.shape, batch), cell.v.dtype)


@eqx.filter_jit
def pooled(units: Units, reference: Reference, signals: Signals) -> Float[Array, "batch statistic group unit"]:
    """The statistics of each case."""
    values, dt = signals.values, signals.dt
    rest = resting(units.cell, values.shape[2])

    def body(t, carry):
        state, running = carry
        new = advance(units.cell, state, taps(values, units, t), dt[t])
        return new, statistics.update(running, state, new, (dt[t] > 0).astype(state.dtype), reference)

    state, running = lax.fori_loop(jnp.zeros_like(signals.steps), signals.steps, body, (rest, statistics.start(rest)))
    return statistics.finish(running, state, reference)


@eqx.filter_jit
def recorded(
    units: Units, signals: Signals, slots: Int[Array, " time"], count: int
) -> Float[Array, "slot group unit batch"]:
    """The states at chosen steps: that of step t is written to slot `slots[t]`, and slot `count - 1` is for the rest."""
    values, dt = signals.values, signals.dt
    rest = resting(units.cell, values.shape[2])

    def body(t, carry):
        state, record = carry
        new = advance(units.cell, state, taps(values, units, t), dt[t])
        return new, lax.dynamic_update_index_in_dim(record, new, slots[t], 0)

    record = jnp.zeros((count, *rest.shape), rest.dtype)
    return lax.fori_loop(jnp.zeros_like(signals.steps), signals.steps, body, (rest, record))[1]
