"""A long sequence in chunks of time: each goes through all blocks before the next one starts.

Where a whole sequence would not fit, only the states of the blocks and what the pool knows are kept between two chunks;
everything else is computed again in the backward pass, while it is in the cache. So the memory of training grows with the
length over the chunk.
"""

import math
from typing import Any, Literal

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float, PRNGKeyArray

from ..engine import Auto, Sharded, Solution, Solver
from ..engine.system import chunk_length, scan_chunks
from .block import Passed

# Numbers between two layers: from the first on a sequence is taken in chunks; and if there are as many as the second
# between all layers together, those inside the layers are computed twice.
LONG, VERY_LONG = 2**25, 2**26


def choose_chunk(
    model: Any,
    x: Float[Array, "time *batch features"],
    chunk: int | Literal["auto"] | None,
    training: bool,
    solver: Solver = Auto(),
) -> int | None:
    """How many steps to take at a time; `None` for all at once.

    **Arguments:**

    - `model`: a `SequenceModel`.
    - `x`: what its encoder will see.
    - `chunk`: as the user gave it.
    - `training`: whether a batch norm would have to see all steps.
    - `solver`: of the recurrences.
    """
    length, each = x.shape[0], math.prod(x.shape[1:-1]) * model.config.width
    reason = needs_all_steps(model, training)
    if isinstance(solver, Sharded):
        reason = "is to be solved over many devices, each of which has its own part of time"
    if chunk is None or (chunk == "auto" and (reason is not None or length * each < LONG)):
        return None
    if reason is not None:
        raise ValueError(f"The model got chunk={chunk}, but it {reason}; give chunk=None.")
    if chunk == "auto":
        chunk = chunk_length(length, each)
    if chunk < 1:
        raise ValueError(f'The model got chunk={chunk}; give a whole number of at least 1, "auto" or None.')
    return None if chunk >= length else chunk


def very_long(model: Any, x: Float[Array, "time *batch features"]) -> bool:
    """Whether what is inside the blocks should not be kept for the backward pass."""
    return math.prod(x.shape[:-1]) * model.config.width * len(model.blocks) >= VERY_LONG


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
    again: bool,
    cut: bool,
) -> tuple[Float[Array, "*out"], tuple[Passed, ...]]:
    """What `SequenceModel.stack` and its head give, a chunk at a time.

    `again`: compute what is inside a chunk again in the backward pass, and keep nothing of it. `cut`: let no gradient go
    through the states from one chunk to the one before it.

    The solution of a block holds its last state alone, and the worst status, iterations and residual of all chunks.
    """
    batch = x.shape[1:-1]
    begin = tuple(
        block.layer.initial_state(batch) if state is None else state
        for block, state in zip(model.blocks, states, strict=True)
    )
    none = jnp.zeros(batch, jnp.int32)
    verdict = (none, none, jnp.zeros(batch, x.dtype))

    def run(carry, part):
        states, known, verdicts = carry
        if cut:
            states = lax.stop_gradient(states)
        x, dt, mask = part
        h, passed = model.stack(x, states, dt, mask, keys=keys, solver=solver, throw=throw)
        verdicts = tuple(map(_worst, verdicts, passed))
        states = tuple(left.state for left in passed)
        if model.pool is None:
            return (states, known, verdicts), model.head(h)
        return (states, model.look(known, h, mask), verdicts), None

    carry = (begin, model.unseen(batch), (verdict,) * len(model.blocks))
    if again:
        run = jax.checkpoint(run, prevent_cse=False)
    (states, known, verdicts), outputs = scan_chunks(run, carry, (x, dt, mask), chunk)
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
