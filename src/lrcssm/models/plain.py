"""Recurrences without a solver, for single steps and for exported programs."""

from typing import Any, TypeVar

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float

from ..engine.system import update
from .context import Context
from .time import Outcome, Recurrent
from .time.base import first_state

T = TypeVar("T")


class Plain(Recurrent):
    """A cell over time as a plain loop over its `step`, without status, checks or implicit gradient.

    A single step has no loop. The outputs are those of `Sequential`; the length may be symbolic.
    """

    def __init__(self, layer: Recurrent):
        self.cell, self.size = layer.cell, layer.size

    def __call__(self, inputs: Float[Array, "time *batch width"], state: Any, context: Context) -> Outcome:
        cell, batch, dt, mask = self.cell, inputs.shape[1:-1], context.dt, context.mask
        state = first_state(cell, state, batch)
        if dt is not None:
            dt = jnp.asarray(dt, jnp.finfo(state.dtype).dtype)
        if mask is not None:
            inputs = jnp.where(mask[..., None], inputs, 1)

        def step(state, now):
            drive, given, valid, inputs = now
            state = update(cell, state, drive, _spread(dt if given is None else given, batch), valid)
            return state, cell.read(state, inputs) if cell.expands else state

        moving = dt if dt is not None and dt.ndim else None
        steps = (cell.drive(inputs), moving, mask, inputs if cell.expands else None)
        if isinstance(inputs.shape[0], int) and inputs.shape[0] == 1:
            state, outputs = step(state, jax.tree.map(lambda a: a[0], steps))
            outputs = outputs[None]
        else:
            state, outputs = lax.scan(step, state, steps)
        return Outcome(outputs if cell.expands else cell.read(outputs, inputs), state, None)


def _spread(dt, batch):
    """`dt` in the form that `update` expects: one for all samples, or one for each."""
    return dt if dt is None or dt.ndim == 0 else jnp.broadcast_to(dt, batch)


def plain(tree: T) -> T:
    """Replace every recurrence in a model, or in part of one, by a plain loop."""
    recurrent = lambda node: isinstance(node, Recurrent)
    return jax.tree.map(lambda node: Plain(node) if recurrent(node) else node, tree, is_leaf=recurrent)
