"""A memory budget: what training takes, from the shapes alone, and the quickest way to take a sequence that fits.

For T steps of a batch of B, taken C at a time (C = T if all at once), a step of training takes about

    16 P + B · (T · (data + kept) + T / C · carry + C · inside + S · work)

numbers: P is that of the parameters, for themselves, their average, Adam's two moments, the gradient and the new ones of all of
these; `data` is what the model is given for a step; `kept` the states of all blocks, if they are kept; `carry` the states and
what the pool knows, at each border of two chunks; `inside` what a step leaves in all blocks for the backward pass: what goes into
and comes out of each weight matrix, the states, and a little more; and `work` what the recurrence of one block computes for the S
steps that it takes at a time. It is an estimate from above, at most some three times too large: the tests compare it with XLA's plan.
"""

import math
import re
from collections.abc import Iterator
from typing import Any, Literal, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from ..engine import Auto, Solver
from ..engine.system import chunk_length
from .chunks import CHUNK
from .recompute import alike, states_of

UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12, "ki": 2**10, "mi": 2**20, "gi": 2**30, "ti": 2**40}
# Numbers for each state that a recurrence computes in the backward pass: for itself, and for the derivatives of its block,
# which are kept until that is done with, if all its steps are one piece.
WORK, DERIVATIVES = 14, 14
WHOLE = 64  # for each feature that a layer without states gives


class Way(NamedTuple):
    """How to take a sequence: so many steps at a time, or all (`None`); whether to compute again what is inside the blocks if
    it is all of them; and whether the states are kept for the backward pass where the rest is computed again."""

    chunk: int | None
    again: bool
    states: bool


def as_bytes(memory: Any, who: str) -> int:
    """A number of bytes, or a text such as "500MB", "1.5 GB" or "2GiB", as a whole number of bytes.

    **Arguments:**

    - `memory`: as the user gave it.
    - `who`: was given it, for the sentence that refuses it.
    """
    number: Any = memory
    if isinstance(memory, str):
        found = re.fullmatch(r"\s*(\d+\.?\d*|\.\d+)\s*([kmgt]i?)?b?\s*", memory.lower())
        number = None if found is None else float(found[1]) * UNITS[found[2] or ""]
    if isinstance(number, bool) or not isinstance(number, int | float) or not 1 <= number < math.inf:
        raise ValueError(f'{who} got memory={memory!r}; give a number of bytes, or a text such as "500MB" or "1.5GB".')
    return int(number)


def choose_way(
    model: Any,
    x: Float[Array | jax.ShapeDtypeStruct, "time *batch features"],
    memory: int | float | str,
    chunk: int | Literal["auto"] | None,
    size: int | None,
    truncate: int | None,
    reason: str | None,
    solver: Solver,
) -> Way:
    """The first of these that fits into the budget: everything is kept; the states are; nothing is. Where not all steps are
    taken at once, in the largest chunks that fit, none larger than what is best for the cache.

    **Arguments:**

    - `model`: a `SequenceModel`.
    - `x`: what its encoder will see.
    - `memory`, `chunk`, `truncate`: as the user gave them.
    - `size`: the chunk without a budget.
    - `reason`: why the model cannot take chunks, if it cannot.
    - `solver`: of the recurrences.
    """
    budget, needs = as_bytes(memory, "The model"), {}
    for way in _ways(model, x, chunk, size, truncate, reason):
        needs[way] = training_bytes(model, x, way, solver)
        if needs[way] <= budget:
            return way
    why = "" if reason is None else f", since it {reason} and cannot take chunks"
    words = memory if isinstance(memory, str) else f"{memory:,} bytes"
    remedy = "memory" if chunk == "auto" else 'memory, or chunk="auto"'
    raise ValueError(
        f"The model got a memory of {words} for {x.shape[0]:,} steps of a batch of {math.prod(x.shape[1:-1])}, whose training "
        f"needs about {in_words(min(needs.values()))} at least{why}; give more {remedy}, or a smaller batch, width, state or "
        "depth."
    )


def training_bytes(
    model: Any, x: Float[Array | jax.ShapeDtypeStruct, "time *batch features"], way: Way, solver: Solver = Auto()
) -> int:
    """About how many bytes a step of training takes on each device, with the parameters and the optimiser: the formula above.

    **Arguments:**

    - `model`: a `SequenceModel`.
    - `x`: what its encoder will see.
    - `way`: how the sequence is taken.
    - `solver`: of the recurrences.
    """
    length, batch = x.shape[0], math.prod(x.shape[1:-1])
    length = -(-length // solver.time_shards)
    batch = batch // solver.batch_shards if batch % solver.batch_shards == 0 else batch
    solver = solver.local
    steps, width, config = way.chunk or length, model.config.width, model.config
    states = _states(model.blocks)
    numbers = 16 * _parameters(model) + length * batch * (4 * x.shape[-1] + 4)
    if config.task == "per-step":
        numbers += length * batch * 4 * config.output_dim
    if way.states:
        numbers += length * batch * states
    each = [_inside(block) + 4 * width for block in model.blocks]
    inside = max(each) if way.again else sum(each)
    if way.again:  # what is between the blocks
        numbers += 2 * length * batch * width * len(each)
    if way.chunk is not None:
        known = jax.tree.leaves(jax.eval_shape(lambda: model.unseen(())))
        carry = states + sum(leaf.size for leaf in known) + 3 * len(each)
        numbers += -(-length // steps) * batch * carry
    ends = _features((model.encoder, model.head)) + 4 * width
    numbers += steps * batch * (inside + ends)
    at_once = 1 if way.again else len(each)
    numbers += max(_work(block, steps, batch, at_once, solver) for block in model.blocks)
    return numbers * x.dtype.itemsize


def in_words(count: int) -> str:
    """Bytes as a user would give them, rounded up."""
    unit = next((unit for unit in ("G", "M", "k") if count >= UNITS[unit.lower()]), "")
    return f"{math.ceil(10 * count / UNITS[unit.lower()]) / 10:g}{unit}B"


def _ways(model, x, chunk, size, truncate, reason) -> Iterator[Way]:
    """What may be done, the quickest first."""
    length, each = x.shape[0], math.prod(x.shape[1:-1]) * model.config.width
    cut = truncate if truncate is not None and truncate < length else None
    if size is None or (chunk == "auto" and cut is None):
        yield Way(None, False, False)
    if reason is not None:
        if chunk == "auto" and alike(model.blocks, x.shape[-1] if model.encoder is None else model.config.width):
            yield from (Way(None, True, True), Way(None, True, False))
        return
    if chunk != "auto":
        sizes = [] if size is None else [size]
    elif cut is not None:
        sizes = [size for size in range(min(cut, max(1, CHUNK // each)), 0, -1) if cut % size == 0]
    else:
        halves = (chunk_length(length, each, CHUNK >> i) for i in range(CHUNK.bit_length()))
        sizes = sorted({size for size in halves if size < length}, reverse=True)
    # To compute the states again costs a tenth of the time or so, and very small chunks cost more.
    yield from (Way(size, False, True) for size in sizes if 4 * size >= sizes[0])
    yield from (Way(size, False, False) for size in sizes)


def _states(blocks) -> int:
    return sum(map(_real, states_of(blocks)))


def _parameters(model) -> int:
    return sum(_real(leaf) for leaf in jax.tree.leaves(eqx.filter(model, eqx.is_inexact_array)))


def _features(part) -> int:
    """The numbers that go into and come out of each matrix of some layers, for one step."""
    matrices = [leaf for leaf in jax.tree.leaves(eqx.filter(part, eqx.is_inexact_array)) if leaf.ndim >= 2]
    return sum(_real(leaf) // leaf.shape[-1] + _real(leaf) // leaf.shape[-2] for leaf in matrices)


def _inside(block) -> int:
    """What a step leaves in a block; states that are much larger than what is read from them are not kept there."""
    return _features(block) + min(_states([block]), _features(block))


def _real(leaf) -> int:
    """How many real numbers an array holds."""
    return leaf.size * (2 if jnp.issubdtype(leaf.dtype, jnp.complexfloating) else 1)


def _work(block, steps: int, batch: int, blocks: int, solver: Solver) -> int:
    """What the recurrence of a block computes for the steps that it takes at a time."""
    states = _states([block])
    if not states:  # a convolution, or attention
        return WHOLE * steps * batch * block.layer.size
    piece = min(max(solver.steps_at_once(steps, batch * states), math.isqrt(steps)), steps)
    work = piece * batch * states * (WORK + DERIVATIVES * (blocks if piece == steps else 1))
    dense = getattr(getattr(block.layer, "cell", None), "structure", None) == "dense"
    # The gradient of the matrices inside a recurrence is there for each step of a piece before it is summed.
    return work + (3 * piece * _parameters(block.layer) // 2 if dense else 0)
