"""A long sequence in chunks of time: each goes through all blocks before the next one starts.

Only the states of the blocks and what the pool knows go from one chunk to the next. For the backward pass the states of all
steps are kept as well, unless they are too many; everything else is computed again while it is in the cache. So the memory
of training grows with the length times the states, or with the length over the chunk.
"""

import functools
import math
from typing import Any, Literal

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float, PRNGKeyArray

from ..engine import Auto, Solution, Solver
from ..engine.system import chunk_length, scan_chunks
from .block import Passed
from .recompute import kept

# From so many numbers between two layers on a sequence is taken in chunks, each of about so many numbers. Training takes
# some 100 times the memory of one such array; both smaller and larger chunks take longer. Measured at batch 1 and 4.
LONG, CHUNK = 2**23, 2**18


def choose_chunk(
    model: Any,
    x: Float[Array, "time *batch features"],
    chunk: int | Literal["auto"] | None,
    training: bool,
    solver: Solver = Auto(),
    name: str = "chunk",
) -> int | None:
    """How many steps to take at a time; `None` for all at once.

    **Arguments:**

    - `model`: a `SequenceModel`.
    - `x`: what its encoder will see.
    - `chunk`: as the user gave it.
    - `training`: whether a batch norm would have to see all steps.
    - `solver`: of the recurrences.
    - `name`: how the user gave it.
    """
    length, each = x.shape[0], math.prod(x.shape[1:-1]) * model.config.width
    reason = why_at_once(model, training, solver)
    if chunk is None or (chunk == "auto" and (reason is not None or length * each < LONG)):
        return None
    if reason is not None:
        raise ValueError(f"The model got {name}={chunk}, but it {reason}; give {name}=None.")
    if chunk == "auto":
        chunk = chunk_length(length, each, CHUNK)
    if not isinstance(chunk, int) or chunk < 1:
        raise ValueError(f'The model got {name}={chunk!r}; give a whole number of at least 1, "auto" or None.')
    return None if chunk >= length else chunk


def choose_pieces(
    model: Any,
    x: Float[Array, "time *batch features"],
    truncate: int,
    chunk: int | None,
    training: bool,
    solver: Solver,
) -> int | None:
    """How many steps to take at a time where gradients end after `truncate`, of which that is a divisor.

    **Arguments:**

    - `chunk`: what `choose_chunk` has chosen.
    """
    if not isinstance(truncate, int) or truncate < 1:
        raise ValueError(f"The model got truncate={truncate!r}; give a whole number of at least 1, or None.")
    if choose_chunk(model, x, truncate, training, solver, name="truncate") is None:  # the sequence is not longer
        return chunk
    if chunk is None or chunk >= truncate:
        return truncate
    return max(size for size in range(1, chunk + 1) if truncate % size == 0)


def why_at_once(model: Any, training: bool, solver: Solver) -> str | None:
    """Why a sequence is not taken in chunks, if it cannot be: because of the model, or of the devices."""
    if solver.time_shards > 1:
        return "is to be solved over many devices, each of which has its own part of time"
    return needs_all_steps(model, training)


def needs_all_steps(model: Any, training: bool) -> str | None:
    """Why a model cannot take a sequence in chunks, if it cannot."""
    if model.config.bidirectional:
        return "is bidirectional"
    if training and model.config.norm == "batch":
        return "normalises over all steps of a batch while it is trained"
    return next((block.layer.whole for block in model.blocks if block.layer.whole is not None), None)


def run_chunks(
    model: Any,
    x: Float[Array, "time *batch features"],
    states: tuple[Any, ...],
    dt: Any,
    mask: Any,
    chunk: int,
    *,
    keys: tuple[PRNGKeyArray | None, ...],
    solver: Solver,
    throw: bool,
    cut: int | None,
    states_too: bool | None = None,
) -> tuple[Float[Array, "*out"], tuple[Passed, ...]]:
    """What `SequenceModel.stack` and its head give, a chunk at a time.

    `cut`: let no gradient go through the states to the chunk before, after each so many chunks. `states_too`: as for `kept`.

    The solution of a block holds its last state alone, and the worst status, iterations and residual of all chunks.
    """
    batch = x.shape[1:-1]
    begin = tuple(
        block.layer.initial_state(batch) if state is None else state
        for block, state in zip(model.blocks, states, strict=True)
    )
    none = jnp.zeros(batch, jnp.int32)
    verdict = (none, none, jnp.zeros(batch, x.dtype))

    @functools.partial(jax.checkpoint, prevent_cse=False, policy=kept(model.blocks, x, states_too))
    def run(carry, part):
        number, states, known, verdicts = carry
        if cut is not None:
            end = number % cut == 0
            states = jax.tree.map(lambda state: jnp.where(end, lax.stop_gradient(state), state), states)
        x, dt, mask = part
        h, passed = model.stack(x, states, dt, mask, keys=keys, solver=solver, throw=throw)
        verdicts = tuple(map(_worst, verdicts, passed))
        states = tuple(left.state for left in passed)
        if model.pool is None:
            return (number + 1, states, known, verdicts), model.head(h)
        return (number + 1, states, model.look(known, h, mask), verdicts), None

    carry = (jnp.zeros((), jnp.int32), begin, model.unseen(batch), (verdict,) * len(model.blocks))
    (_, states, known, verdicts), outputs = scan_chunks(run, carry, (x, dt, mask), chunk)
    passed = tuple(
        Passed(state, _solution(state, verdict, solver), None) for state, verdict in zip(states, verdicts, strict=True)
    )
    if known is None:
        assert outputs is not None
        return outputs, passed
    return model.conclude(known), passed


def _solution(state: Any, verdict: tuple[Array, ...], solver: Solver) -> Solution:
    status, iterations, residual = verdict
    return Solution(jax.tree.leaves(state)[-1][None], status, iterations, residual, str(solver))


def _worst(verdict, left: Passed):
    found = left.solution
    if found is None:
        return verdict
    return tuple(map(jnp.maximum, verdict, (found.status, found.iterations, found.residual.astype(verdict[2].dtype))))
