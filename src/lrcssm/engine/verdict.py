"""The status of arguments and states, and errors that compiled code raises."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Inexact, Int

from .solution import Status


def finite(array: Inexact[Array, "time batch features"]) -> Bool[Array, " batch"]:
    """For each sample, true if all is finite. (A maximum would be faster, and may lose NaN on its way.)"""
    return jnp.all(jnp.abs(array) < jnp.inf, (0, 2))


def judge_data(piece: Any) -> Int[Array, " batch"]:
    """The status of the inputs and times of some steps: a success, or the reason why they are not valid."""
    # A sum of zeros, which NaN and infinity make NaN: it is vectorised, and a conjunction of comparisons is not.
    good = jnp.sum(jnp.abs(piece.inputs) * 0, tuple({*range(piece.inputs.ndim)} - {1})) == 0
    status = jnp.where(good, int(Status.SUCCESS), int(Status.NONFINITE_ARGUMENT))
    if piece.dt is not None:
        known, early = (
            jnp.all(test, tuple(range(piece.dt.ndim - 1))) for test in (jnp.isfinite(piece.dt), piece.dt >= 0)
        )
        status = jnp.where(~early, int(Status.NEGATIVE_DT), status)
        status = jnp.where(~known, int(Status.NONFINITE_ARGUMENT), status)
    return status


def judge_rest(cell: Any, initial: Array, guess: Array | None = None) -> Int[Array, " batch"]:
    """The status of the parameters, the initial state and the guess."""
    good = finite(initial[None])
    if guess is not None:
        good &= finite(guess)
    for parameter in jax.tree.leaves(eqx.filter(cell, eqx.is_inexact_array)):
        good &= jnp.all(jnp.isfinite(parameter))
    return jnp.where(good, int(Status.SUCCESS), int(Status.NONFINITE_ARGUMENT))


def judge_states(status: Int[Array, " batch"], states: Array, given: Int[Array, " batch"]) -> Int[Array, " batch"]:
    """Refine the status of a solve: an unstable recurrence or invalid arguments have a status of their own.

    **Arguments:**

    - `status`: that of the solver.
    - `states`: its states.
    - `given`: that of the arguments.
    """
    status = jnp.where((status <= Status.FELL_BACK) & ~finite(states), int(Status.UNSTABLE), status)
    return jnp.where(given > Status.FELL_BACK, given, status)


def guard(states: Inexact[Array, "time batch state"], status: Int[Array, " batch"], solver: str) -> Array:
    """The states, from which compiled code raises if a status is an error.

    The value that passes through the check is copied, so an index is passed instead of the states: the first state is written
    over itself at that index, which the compiler cannot infer to be 0.
    """
    messages = [f"{solver}: {status.message}" for status in Status]
    worst = jnp.max(status)
    first = eqx.branched_error_if(jnp.zeros((), jnp.int32), worst > Status.FELL_BACK, worst, messages)
    return lax.dynamic_update_slice_in_dim(states, states[:1], first, 0)


def withdraw(outputs: Any, status: Int[Array, " batch"]) -> Any:
    """The outputs, `(time, batch, ...)`, with NaN for samples whose status is an error."""
    bad = status > Status.FELL_BACK
    return jax.tree.map(lambda a: jnp.where(bad[None, :].reshape(1, -1, *(1,) * (a.ndim - 2)), jnp.nan, a), outputs)
