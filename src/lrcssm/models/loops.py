"""Loops that save memory in the backward pass: over chunks of time, and over the blocks of a model."""

from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float

from ..engine.system import scan_chunks
from .block import Block, BlockResult
from .context import Context
from .plan import Plan
from .time.base import Worst


def run_chunks(
    model: Any, x: Float[Array, "time *batch features"], states: tuple[Any, ...], context: Context, plan: Plan
) -> tuple[Float[Array, "*out"], tuple[BlockResult, ...]]:
    """Run encoder, blocks, pool and head over one chunk of time after the other.

    **Arguments:**

    - `model`: a `SequenceModel`.
    - `x`: inputs of its encoder.
    - `states`: of its blocks, `None` for those that start.
    - `context`: of all steps.
    - `plan`: with a chunk.

    **Returns:**

    The outputs, and the results of the blocks. The solution of a block holds its last state alone, and the worst status,
    iterations and residual of all chunks.
    """
    assert plan.chunk is not None
    batch = x.shape[1:-1]
    first = tuple(
        block.layer.initial_state(batch) if state is None else state
        for block, state in zip(model.blocks, states, strict=True)
    )

    @plan.checkpoint
    def run(carry, part):
        number, states, pooled, worst = carry
        if plan.cut is not None:
            end = number % plan.cut == 0
            states = jax.tree.map(lambda state: jnp.where(end, lax.stop_gradient(state), state), states)
        x, dt, mask = part
        h, results = model.stack(x, states, context.replace(dt=dt, mask=mask), plan)
        worst = tuple(old.add(result.solution) for old, result in zip(worst, results, strict=True))
        pooled, outputs = model.read(pooled, h, mask)
        return (number + 1, tuple(result.state for result in results), pooled, worst), outputs

    worst = (Worst.start(batch, x.dtype),) * len(model.blocks)
    carry = (jnp.zeros((), jnp.int32), first, model.start_pool(batch), worst)
    (_, states, pooled, worst), outputs = scan_chunks(run, carry, (x, context.dt, context.mask), plan.chunk)
    results = tuple(
        BlockResult(state, bad.solution(jax.tree.leaves(state)[-1], context.solver), None)
        for state, bad in zip(states, worst, strict=True)
    )
    return model.finish(pooled, outputs), results


def run_blocks(
    blocks: Sequence[Block],
    h: Float[Array, "time *batch width"],
    states: Sequence[Any],
    context: Context,
    plan: Plan,
) -> tuple[Float[Array, "time *batch width"], tuple[BlockResult, ...]]:
    """Run blocks that are alike one after the other, as a loop whose body is recomputed in the backward pass: without a loop,
    XLA on a CPU recognises the body as computed before, and keeps its results."""
    rest = eqx.filter(blocks[0], eqx.is_array, inverse=True)
    stacked = _stacked([eqx.filter(block, eqx.is_array) for block in blocks])

    @plan.checkpoint
    def run(h, given):
        arrays, state, key = given
        return eqx.combine(arrays, rest)(h, state, context.replace(key=key))

    h, results = lax.scan(run, h, (stacked, _stacked(states), _stacked(context.keys(len(blocks)))))
    leaves, tree = jax.tree.flatten(results)
    return h, tuple(jax.tree.unflatten(tree, [leaf[i] for leaf in leaves]) for i in range(len(blocks)))


def _stacked(trees: Sequence[Any]) -> Any:
    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *trees)
