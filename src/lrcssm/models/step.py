"""One sample at a time: the state of a model between samples, and its update."""

from typing import TYPE_CHECKING, Any

import equinox as eqx
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float, Int

from ..engine import Sequential
from .context import Context
from .plain import plain

if TYPE_CHECKING:
    from .sequence import SequenceModel


class Waiting(eqx.Module):
    """An incomplete patch: the last samples, how many of them are new, the time that these took, and the output after the
    last full patch."""

    samples: Float[Array, "*batch patch channels"]
    count: Int[Array, ""]
    passed: Float[Array, "*batch"]
    output: Float[Array, "*batch outputs"]


class StepState(eqx.Module):
    """State of a model between samples: the states of its blocks, the sums of its pool, the last sample (and whether there
    was one) if it takes differences, and the incomplete patch if it takes patches."""

    blocks: tuple[Any, ...]
    pooled: dict[str, Any] | None
    last: Float[Array, "*batch channels"] | None
    begun: Bool[Array, ""] | None
    waiting: Waiting | None


def start(model: "SequenceModel", batch: tuple[int, ...] = ()) -> StepState:
    """Return the state of a model before the first sample."""
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
        model.start_pool(batch),
        jnp.zeros((*batch, config.input_dim), dtype) if config.differences else None,
        jnp.zeros((), bool) if config.differences else None,
        waiting,
    )


def step(
    model: "SequenceModel", sample: Float[Array, "*batch channels"], state: StepState, dt: Any
) -> tuple[Float[Array, "*batch outputs"], StepState]:
    """Compute the output after one more sample, not yet in the units of the targets, and the state after it."""
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
    return output, StepState(after.blocks, after.pooled, after.last, after.begun, waiting)


def _advance(model, samples, dt, state: StepState):
    """Take the samples of one step of the blocks through the model; `dt` is that of this step."""
    before = None
    if state.begun is not None and state.last is not None:
        before = state.last, jnp.broadcast_to(state.begun, state.last.shape[:-1])
    x, _, _ = model.features(samples, None, None, before)
    h, results = plain(model).stack(x, state.blocks, Context(dt, solver=Sequential(), throw=False))
    blocks = tuple(result.state for result in results)
    pooled, outputs = model.read(state.pooled, h, None)
    outputs = model.finish(pooled, None if outputs is None else outputs[0])
    last, begun = (None, None) if state.begun is None else (samples[-1], jnp.ones_like(state.begun))
    return outputs, StepState(blocks, pooled, last, begun, state.waiting)
