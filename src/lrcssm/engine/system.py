"""A cell and its data in the one layout that all solvers work on: `(time, batch, state)`.

Everything here accepts a *piece* of time as well as the whole sequence.
"""

import math
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Inexact

from .solution import Status
from .verdict import guard, judge_data, judge_rest, judge_states


class Piece(eqx.Module):
    """The data of some steps. `dt` is `None` (one), a scalar, or a value for each step and sample."""

    inputs: Inexact[Array, "time batch *features"]
    dt: Inexact[Array, ""] | Inexact[Array, "time batch"] | None
    mask: Bool[Array, "time batch"] | None

    @property
    def length(self) -> int:
        return self.inputs.shape[0]


def update(cell: Any, states: Array, drive: Any, dt: Array | None, mask: Array | None) -> Array:
    """The next state `F(x, u)`; the identity where the mask is false.

    `states` is `(..., state)` and everything else has the same leading axes; the cell's `step` is called without them.
    """
    step = cell.step
    for _ in range(states.ndim - 1):
        step = jax.vmap(step, in_axes=(0, 0, 0 if dt is not None and dt.ndim else None))
    new = step(states, drive, 1.0 if dt is None else dt)
    return new if mask is None else jnp.where(mask[..., None], new, states)


def held(tree: Any) -> Any:
    """Stop derivatives through all arrays of a tree."""
    return jax.tree.map(lambda leaf: lax.stop_gradient(leaf) if eqx.is_inexact_array(leaf) else leaf, tree)


def sweep(cell: Any, piece: Piece, initial: Array, chunk: int, solver: str | None = None) -> tuple[Array, Array]:
    """Compute the states of all steps one after the other, `chunk` steps of drive and recurrence at a time.

    Returns the states and the status of each sample. A status that is an error raises if `solver` gives a name for it."""

    def run(carry, part: Piece):
        def step(state, now):
            drive, dt, mask = now
            state = update(cell, state, drive, part.dt if dt is None else dt, mask)
            return state, state

        first, status = carry
        moving = part.dt if part.dt is not None and part.dt.ndim else None
        last, states = lax.scan(step, first, (cell.drive(part.inputs), moving, part.mask))
        # The first chunk that fails has the reason; and here its inputs and states are in the cache.
        status = jnp.where(status == Status.SUCCESS, judge_states(status, states, judge_data(part)), status)
        return (last, status), states if solver is None else guard(states, status, solver)

    begin = initial, judge_rest(cell, initial)
    (_, status), states = scan_chunks(run, begin, piece, chunk)
    return states, status


def scan_chunks(run, carry, data, chunk: int) -> tuple[Any, Any]:
    """`lax.scan` over chunks of time: `run(carry, part) -> (carry, outputs)`, where `data` and `outputs` have time on
    axis 0 of every array (scalars are the same for all parts) and the last part may be shorter."""
    moving, fixed = eqx.partition(data, lambda a: eqx.is_array(a) and a.ndim > 0)
    length = jax.tree.leaves(moving)[0].shape[0]
    count = length // chunk
    if count <= 1 and length % chunk == 0:
        return run(carry, data)

    def body(carry, part):
        return run(carry, eqx.combine(part, fixed))

    whole = count * chunk
    folded = jax.tree.map(lambda a: a[:whole].reshape(count, chunk, *a.shape[1:]), moving)
    carry, outputs = lax.scan(body, carry, folded)
    outputs = jax.tree.map(lambda a: a.reshape(whole, *a.shape[2:]), outputs)
    if whole < length:
        carry, rest = body(carry, jax.tree.map(lambda a: a[whole:], moving))
        outputs = jax.tree.map(lambda a, b: jnp.concatenate([a, b]), outputs, rest)
    return carry, outputs


# Elements of one array of a chunk: what is read and written for a chunk then stays in the second-level cache, and a
# chunk is still large enough to be worth a thread of its own. Measured at batch 4 and 32, 16 to 256 states.
CHUNK_ELEMENTS = 2**17


def chunk_length(length: int, elements_per_step: int, elements: int = CHUNK_ELEMENTS) -> int:
    """The number of steps to take at a time: a divisor of the length near the wanted size, if there is one."""
    wanted = max(1, elements // elements_per_step)
    if length <= 2 * wanted:
        return length
    for size in sorted(range(math.ceil(wanted / 2), 2 * wanted), key=lambda size: abs(math.log(size / wanted))):
        if length % size == 0:
            return size
    return wanted
