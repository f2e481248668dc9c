"""The plan of a run: the size of chunks, the truncation of gradients, and the results that are kept for the backward pass.

A long sequence is processed in chunks of time, each through all blocks before the next one starts: only the states of the
blocks and of the pool go from one chunk to the next, and the backward pass recomputes the rest while it is in the cache. If a
model needs all steps at once, the features between its blocks can be kept and the inside of the blocks recomputed. In both
cases the states may be kept as well, which saves about a tenth of the time. `make_plan` makes all of these choices.
"""

import dataclasses
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from ..engine import Auto, Solver
from ..engine.abstract import STATES
from ..engine.system import chunk_length
from ..errors import InvalidValue
from .budget import as_bytes, in_words, state_numbers, training_bytes

# From LONG numbers between two blocks on, a sequence is taken in chunks of about CHUNK numbers. Training takes some 100 times
# the memory of one such array; both smaller and larger chunks take longer. Measured at batch 1 and 4.
LONG, CHUNK = 2**23, 2**18
# From VERY_LONG numbers between all blocks together on, what is inside them is recomputed if chunks are impossible; at most
# KEPT numbers of states are kept where the rest is recomputed.
VERY_LONG, KEPT = 2**26, 2**26

Inputs = Float[Array | jax.ShapeDtypeStruct, "time *batch features"]


@dataclasses.dataclass(frozen=True)
class Plan:
    """Chunks, truncation and recomputation of a run.

    **Arguments:**

    - `chunk`: steps at a time; `None` for all at once.
    - `cut`: number of chunks after which gradients stop at the state; `None` for never.
    - `kept`: results that the backward pass does not recompute: `"all"`, `"states"` of the recurrences, or `"nothing"`. With
        chunks, which are always recomputed, one of the last two.
    """

    chunk: int | None = None
    cut: int | None = None
    kept: Literal["all", "states", "nothing"] = "all"

    @property
    def recomputes_blocks(self) -> bool:
        """True if all steps are taken at once and the inside of each block is recomputed."""
        return self.chunk is None and self.kept != "all"

    def checkpoint(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Wrap the body of a loop such that its results are kept or recomputed as planned."""
        policies = jax.checkpoint_policies
        policy = policies.save_only_these_names(STATES) if self.kept == "states" else policies.nothing_saveable
        return jax.checkpoint(function, prevent_cse=False, policy=policy)


def make_plan(
    model: Any,
    x: Inputs,
    *,
    chunk: int | Literal["auto"] | None = "auto",
    truncate: int | None = None,
    memory: int | float | str | None = None,
    training: bool = False,
    solver: Solver = Auto(),
) -> Plan:
    """Choose chunks and recomputation for a sequence.

    ```python
    import jax, jax.numpy as jnp, lrcssm
    from lrcssm.models import make_plan

    config = lrcssm.ModelConfig(input_dim=6, output_dim=2, hidden_dim=16, state_dim=16, num_blocks=2)
    model = lrcssm.SequenceModel(config, jax.random.key(0))
    x = jax.ShapeDtypeStruct((100_000, 4, 6), jnp.float32)
    print(make_plan(model, x, memory="100MB", training=True))
    ```

    **Arguments:**

    - `model`: a `SequenceModel`.
    - `x`: inputs of its encoder, or their shape.
    - `chunk`, `truncate`, `memory`, `solver`: as for `SequenceModel`.
    - `training`: whether the model is trained.

    **Returns:**

    A `Plan`. With `memory` it is the fastest one that is estimated to fit: keep everything, then the states, then nothing,
    each in the largest chunks that fit.
    """
    if chunk is None and truncate is None and memory is None:  # the length may be symbolic
        return Plan()
    length, each = x.shape[0], math.prod(x.shape[1:-1]) * model.config.hidden_dim
    whole = why_whole(model, between_calls=False, training=training, solver=solver)
    size = None if chunk == "auto" else _checked(chunk, "chunk", whole, '"auto" or None')
    truncate = _checked(truncate, "truncate", whole, "or None")
    if truncate is not None and truncate >= length:
        truncate = None
    if chunk == "auto" and whole is None and length * each >= LONG:
        size = chunk_length(length, each, CHUNK)
    size = None if size is not None and size >= length else size
    if truncate is not None:
        size = truncate if size is None else max(divisor for divisor in range(1, size + 1) if truncate % divisor == 0)
    if memory is not None:
        plans = _candidates(model, x, chunk == "auto", size, truncate, whole)
        return _first_that_fits(model, x, plans, memory, chunk, whole, solver)
    few = math.prod(x.shape[:-1]) * state_numbers(model.blocks) <= KEPT
    kept = "states" if few else "nothing"
    if size is not None:
        return _in_chunks(size, truncate, kept)
    recompute = chunk == "auto" and length * each * len(model.blocks) >= VERY_LONG and _loop_over_blocks(model, x)
    return Plan(kept=kept if recompute else "all")


def why_whole(model: Any, *, between_calls: bool = True, training: bool = False, solver: Solver = Auto()) -> str | None:
    """Reason why a sequence cannot be processed in pieces, as the end of a sentence that starts with "it"; `None` if it can.

    **Arguments:**

    - `model`: a `SequenceModel`.
    - `between_calls`: pieces that are given call by call, with a state. Without it, chunks inside one call, which come after
        features that need the whole sequence.
    - `training`: whether the model is trained.
    - `solver`: of the recurrences.
    """
    config = model.config
    reasons = {
        "is to be solved over many devices, each of which has its own part of time": (
            not between_calls and solver.time_shards > 1
        ),
        "is bidirectional": config.bidirectional,
        "normalises over all steps of a batch while it is trained": training and config.norm == "batch",
        "sees the share of time that has passed": between_calls and config.include_time,
        "scales each sequence as a whole": between_calls and config.standardise == "case",
        "cuts each sequence as a whole into windows": between_calls and bool(config.signature),
    } | {block.layer.whole: True for block in model.blocks if block.layer.whole is not None}
    return next((reason for reason, holds in reasons.items() if holds), None)


def alike(blocks: Sequence[Any], features: int) -> bool:
    """Return whether a loop can run over the blocks: after `features` features, each could take the place of any other."""
    shapes = [jax.tree.map(jnp.shape, eqx.filter(block, eqx.is_array)) for block in blocks]
    return blocks[0].size == features and all(shape == shapes[0] for shape in shapes)


def _loop_over_blocks(model, x) -> bool:
    return alike(model.blocks, x.shape[-1] if model.encoder is None else model.config.hidden_dim)


def _checked(value, name, whole, others) -> int | None:
    """The value, if it is `None`, or a whole number of at least 1 for a model that can take chunks."""
    if value is None:
        return None
    if whole is not None:
        raise InvalidValue(f"The model got {name}={value}, but it {whole}; give {name}=None.")
    if not isinstance(value, int) or value < 1:
        raise InvalidValue(f"The model got {name}={value!r}; give a whole number of at least 1, {others}.")
    return value


def _in_chunks(size, truncate, kept) -> Plan:
    return Plan(size, None if truncate is None else truncate // size, kept)


def _candidates(model, x, automatic, size, truncate, whole) -> Iterator[Plan]:
    """All plans that respect the given arguments, the fastest first."""
    length, each = x.shape[0], math.prod(x.shape[1:-1]) * model.config.hidden_dim
    if size is None or (automatic and truncate is None):
        yield Plan()
    if whole is not None:
        if automatic and _loop_over_blocks(model, x):
            yield from (Plan(kept="states"), Plan(kept="nothing"))
        return
    if not automatic:
        sizes = [] if size is None else [size]
    elif truncate is not None:
        sizes = [size for size in range(min(truncate, max(1, CHUNK // each)), 0, -1) if truncate % size == 0]
    else:
        halves = (chunk_length(length, each, CHUNK >> i) for i in range(CHUNK.bit_length()))
        sizes = sorted({size for size in halves if size < length}, reverse=True)
    # To recompute the states costs a tenth of the time or so, and very small chunks cost more.
    yield from (_in_chunks(size, truncate, "states") for size in sizes if 4 * size >= sizes[0])
    yield from (_in_chunks(size, truncate, "nothing") for size in sizes)


def _first_that_fits(model, x, plans, memory, chunk, whole, solver) -> Plan:
    budget, needs = as_bytes(memory, "The model"), []
    for plan in plans:
        needs.append(training_bytes(model, x, chunk=plan.chunk, kept=plan.kept, solver=solver))
        if needs[-1] <= budget:
            return plan
    why = "" if whole is None else f", since it {whole} and cannot take chunks"
    words = memory if isinstance(memory, str) else f"{memory:,} bytes"
    remedy = "memory" if chunk == "auto" else 'memory, or chunk="auto"'
    raise InvalidValue(
        f"The model got a memory of {words} for {x.shape[0]:,} steps of a batch of {math.prod(x.shape[1:-1])}, whose training "
        f"needs about {in_words(min(needs))} at least{why}; give more {remedy}, or a smaller batch, hidden_dim, state_dim or "
        "num_blocks."
    )
