"""From finished states to a status, and from a status to an error that compiled code raises."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Inexact, Int

from .solution import Status


def finite(array: Inexact[Array, "time batch features"]) -> Bool[Array, " batch"]:
    """For each sample, whether all is finite. (A maximum would be faster, and may lose NaN on its way.)"""
    return jnp.all(jnp.abs(array) < jnp.inf, (0, 2))


def judge(
    status: Int[Array, " batch"], states: Array, cell: Any, piece: Any, initial: Array, guess: Array | None = None
) -> Int[Array, " batch"]:
    """Tells a recurrence that overflows, or arguments that were never finite, from an iteration that failed."""
    status = jnp.where((status <= Status.FELL_BACK) & ~finite(states), int(Status.UNSTABLE), status)

    def search():
        given = finite(piece.inputs) & finite(initial[None])
        if guess is not None:
            given &= finite(guess)
        if piece.dt is not None:
            given &= jnp.all(jnp.isfinite(piece.dt), tuple(range(piece.dt.ndim - 1)))
        for parameter in jax.tree.leaves(eqx.filter(cell, eqx.is_inexact_array)):
            given &= jnp.all(jnp.isfinite(parameter))
        return jnp.where(~given & (status > Status.FELL_BACK), int(Status.NONFINITE_ARGUMENT), status)

    return lax.cond(jnp.any(status > Status.FELL_BACK), search, lambda: status)


def guard(states: Inexact[Array, "time batch state"], status: Int[Array, " batch"], solver: str) -> Array:
    """The states, which cannot be had without the error if a status is one.

    What passes through the check is copied, so that is an index, not the states: at that index, which the compiler
    cannot know to be 0, the first state is written over itself.
    """
    messages = [f"{solver}: {status.message}" for status in Status]
    worst = jnp.max(status)
    first = eqx.branched_error_if(jnp.zeros((), jnp.int32), worst > Status.FELL_BACK, worst, messages)
    return lax.dynamic_update_slice_in_dim(states, states[:1], first, 0)
