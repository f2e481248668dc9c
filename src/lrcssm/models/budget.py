"""Memory of a training step, estimated from the shapes alone.

For T steps of a batch of B, processed C at a time (C = T if all at once), a training step takes about

    16 P + B · (T · (data + kept) + T / C · carry + C · inside + S · work)

numbers. P: parameters, for themselves, their average, Adam's two moments, the gradient, and new ones of all of these. `data`:
inputs of a step. `kept`: states of all blocks, if they are kept. `carry`: states and pool between two chunks. `inside`: results
of a step that all blocks keep for the backward pass: inputs and outputs of each weight matrix, states, and a little more.
`work`: intermediate results of the recurrence of one block for the S steps that it processes at a time.

It is an upper estimate, at most about three times too large; the tests compare it with XLA's memory analysis. XLA's own
analysis takes seconds of compilation for each candidate; the formula takes milliseconds.
"""

import math
import re
from collections.abc import Sequence
from typing import Any, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from ..engine import Auto, Solver
from ..errors import InvalidValue

UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12, "ki": 2**10, "mi": 2**20, "gi": 2**30, "ti": 2**40}
# Numbers for each state that a recurrence computes in the backward pass: for itself, and for the derivatives of its block,
# which are kept until that is done with, if all its steps are one piece.
WORK, DERIVATIVES = 14, 14
WHOLE = 64  # for each feature of a layer without states


def as_bytes(memory: Any, who: str) -> int:
    """Convert a number of bytes, or a text such as "500MB", "1.5 GB" or "2GiB", to a whole number of bytes.

    **Arguments:**

    - `memory`: the user's value.
    - `who`: name of the recipient, for the error.
    """
    number: Any = memory
    if isinstance(memory, str):
        found = re.fullmatch(r"\s*(\d+\.?\d*|\.\d+)\s*([kmgt]i?)?b?\s*", memory.lower())
        number = None if found is None else float(found[1]) * UNITS[found[2] or ""]
    if isinstance(number, bool) or not isinstance(number, int | float) or not 1 <= number < math.inf:
        raise InvalidValue(
            f'{who} got memory={memory!r}; give a number of bytes, or a text such as "500MB" or "1.5GB".'
        )
    return int(number)


def in_words(count: int) -> str:
    """Format a number of bytes, rounded up, as `as_bytes` reads it."""
    unit = next((unit for unit in ("G", "M", "k") if count >= UNITS[unit.lower()]), "")
    return f"{math.ceil(10 * count / UNITS[unit.lower()]) / 10:g}{unit}B"


def training_bytes(
    model: Any,
    x: Float[Array | jax.ShapeDtypeStruct, "time *batch features"],
    *,
    chunk: int | None = None,
    kept: Literal["all", "states", "nothing"] = "all",
    solver: Solver = Auto(),
) -> int:
    """Estimate the bytes of a training step on each device, with parameters and optimiser: the formula above.

    **Arguments:**

    - `model`: a `SequenceModel`.
    - `x`: inputs of its encoder, or their shape.
    - `chunk`, `kept`: as for `Plan`.
    - `solver`: of the recurrences.
    """
    config, blocks = model.config, model.blocks
    length, batch = -(-x.shape[0] // solver.time_shards), math.prod(x.shape[1:-1])
    batch = batch // solver.batch_shards if batch % solver.batch_shards == 0 else batch
    steps, width, states = chunk or length, config.hidden_dim, state_numbers(blocks)
    one_by_one = chunk is None and kept != "all"
    for_each_step = 4 * x.shape[-1] + 4 + (4 * config.output_dim if config.task == "per-step" else 0)
    for_each_step += (states if kept == "states" else 0) + (2 * width * len(blocks) if one_by_one else 0)
    numbers = 16 * _numbers(model) + length * batch * for_each_step
    if chunk is not None:
        pool = jax.tree.leaves(jax.eval_shape(lambda: model.start_pool(())))
        numbers += -(-length // steps) * batch * (states + sum(leaf.size for leaf in pool) + 3 * len(blocks))
    inside = [_features(block) + min(state_numbers([block]), _features(block)) + 4 * width for block in blocks]
    ends = _features((model.encoder, model.head)) + 4 * width
    numbers += steps * batch * (ends + (max(inside) if one_by_one else sum(inside)))
    at_once = 1 if one_by_one else len(blocks)
    numbers += max(_work(block, steps, batch, at_once, solver.local) for block in blocks)
    return numbers * x.dtype.itemsize


def state_numbers(blocks: Sequence[Any]) -> int:
    """Count the real numbers in the states of some blocks, for one step of one sequence."""
    layers = [layer for block in blocks for layer in (block.layer, block.back) if layer is not None]
    return _numbers(jax.eval_shape(lambda: [layer.initial_state(()) for layer in layers if layer.whole is None]))


def _numbers(tree) -> int:
    """The real numbers in all arrays of a tree."""
    return sum(map(_real, _arrays(tree)))


def _features(tree) -> int:
    """The numbers that go into and come out of each matrix of some layers, for one step."""
    matrices = [leaf for leaf in _arrays(tree) if leaf.ndim >= 2]
    return sum(_real(leaf) // leaf.shape[-1] + _real(leaf) // leaf.shape[-2] for leaf in matrices)


def _arrays(tree) -> list[Any]:
    shaped = lambda leaf: eqx.is_inexact_array(leaf) or isinstance(leaf, jax.ShapeDtypeStruct)
    return jax.tree.leaves(eqx.filter(tree, shaped))


def _real(leaf) -> int:
    return leaf.size * (2 if jnp.issubdtype(leaf.dtype, jnp.complexfloating) else 1)


def _work(block, steps: int, batch: int, at_once: int, solver: Solver) -> int:
    """Numbers that the recurrence of a block computes for the steps that it takes at a time."""
    states = state_numbers([block])
    if not states:  # a convolution, or attention
        return WHOLE * steps * batch * block.layer.size
    piece = min(max(solver.steps_at_once(steps, batch * states), math.isqrt(steps)), steps)
    work = piece * batch * states * (WORK + DERIVATIVES * (at_once if piece == steps else 1))
    dense = getattr(getattr(block.layer, "cell", None), "structure", None) == "dense"
    # The gradient of the matrices inside a recurrence is there for each step of a piece before it is summed.
    return work + (3 * piece * _numbers(block.layer) // 2 if dense else 0)
