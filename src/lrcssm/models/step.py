"""A model one sample at a time: what it has to remember, and how it goes on."""

from typing import TYPE_CHECKING, Any

import equinox as eqx
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float, Int

from ..engine import Sequential
from .plain import plain

if TYPE_CHECKING:
    from .sequence import SequenceModel


class Waiting(eqx.Module):
    """What waits for a full patch: the last samples, how many of them are new, the time that these took, and the output
    after the last full patch."""

    samples: Float[Array, "*batch patch channels"]
    count: Int[Array, ""]
    passed: Float[Array, "*batch"]
    output: Float[Array, "*batch outputs"]


class StepState(eqx.Module):
    """What a model remembers of a stream: the state of each block, what the pool knows, the last sample (and whether there
    was one) if the model takes differences, and what waits for a full patch if it takes patches."""

    blocks: tuple[Any, ...]
    known: dict[str, Any] | None
    last: Float[Array, "*batch channels"] | None
    begun: Bool[Array, ""] | None
    waiting: Waiting | None


def start(model: "SequenceModel", batch: tuple[int, ...] = ()) -> StepState:
    """What a model remembers before the first sample."""
    config, dtype = model.config, model.target_mean.dtype
    waiting = None
    if config.patch > 1:
        waiting = Waiting(
            jnp.zeros((*batch, config.patch, config.input_dim), dtype),
            jnp.zeros((), jnp.int32),
            jnp.zeros(batch, dtype),
            jnp.full((*batch, config.output_dim), jnp.nan, dtype),
        )
    return StepState(
        tuple(block.layer.initial_state(batch) for block in model.blocks),
        model.unseen(batch),
        jnp.zeros((*batch, config.input_dim), dtype) if config.differences else None,
        jnp.zeros((), bool) if config.differences else None,
        waiting,
    )


def step(
    model: "SequenceModel", sample: Float[Array, "*batch channels"], state: StepState, dt: Any
) -> tuple[Float[Array, "*batch outputs"], StepState]:
    """The output after one more sample, not yet in the units of the targets, and the state after it."""
    sample = jnp.asarray(sample, model.target_mean.dtype)
    if dt is not None:
        dt = jnp.broadcast_to(jnp.asarray(dt, sample.dtype), sample.shape[:-1])
    if state.waiting is None:
        return _advance(model, sample[None], None if dt is None else dt[None], state)
    waiting, patch = state.waiting, model.config.patch
    samples = jnp.concatenate([waiting.samples[..., 1:, :], sample[..., None, :]], -2)
    count, passed = waiting.count + 1, waiting.passed + (1 if dt is None else dt)
    full = count == patch

    def advance(state):
        # In the unit of one step's time, as for a whole sequence.
        time = jnp.where(passed > 0, passed / patch, 1)
        return _advance(model, jnp.moveaxis(samples, -2, 0), time[None], state)

    output, after = lax.cond(full, advance, lambda state: (waiting.output, state), state)
    waiting = Waiting(samples, jnp.where(full, 0, count), jnp.where(full, 0, passed), output)
    return output, StepState(after.blocks, after.known, after.last, after.begun, waiting)


def _advance(model, samples, dt, state: StepState):
    """Takes the samples of one step of the blocks through the model; `dt` is that of this step."""
    before = None
    if state.begun is not None and state.last is not None:
        before = state.last, jnp.broadcast_to(state.begun, state.last.shape[:-1])
    x, _, _ = model.features(samples, None, None, before)
    keys = (None,) * len(model.blocks)
    h, passed = plain(model).stack(x, state.blocks, dt, None, keys=keys, solver=Sequential(), throw=False)
    blocks = tuple(left.state for left in passed)
    if state.known is None:
        known, outputs = None, model.head(h)[0]
    else:
        known = model.look(state.known, h, None)
        outputs = model.conclude(known)
    last, begun = (None, None) if state.begun is None else (samples[-1], jnp.ones_like(state.begun))
    return outputs, StepState(blocks, known, last, begun, state.waiting)
