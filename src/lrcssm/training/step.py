"""One step of training, compiled once for each shape of batch and model."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, PRNGKeyArray

from ..engine import Solver
from ..models import SequenceModel, trainable
from .config import Knobs
from .devices import keep_everywhere
from .metrics import losses


class TrainState(eqx.Module):
    """Everything that a step changes."""

    model: SequenceModel
    average: SequenceModel
    optimiser: Any
    step: Array

    @classmethod
    def start(cls, model: SequenceModel, knobs: Knobs) -> "TrainState":
        learned = eqx.filter(model, trainable(model))
        return cls(model, model, knobs.optimiser().init(learned), jnp.zeros((), jnp.int32))


@eqx.filter_jit
def train_step(
    state: TrainState,
    batch: tuple[Any, ...],
    knobs: Knobs,
    key: PRNGKeyArray,
    solver: Solver,
    truncate: int | None = None,
    chunk: int | None = None,
    memory: int | float | str | None = None,
) -> tuple[TrainState, Array, Array, Array]:
    """A batch's gradient and what Adam makes of it.

    **Arguments:**

    - `state`: before the step.
    - `batch`: inputs, mask, dt, targets and weights.
    - `knobs`, `key`, `solver`, `truncate`, `chunk`, `memory`: see `TrainingConfig` and `fit`; dropout is drawn from the key and the step's number.

    **Returns:**

    The state after the step, the loss, the mean number of the solver's iterations in each layer that has one and the worst
    of their statuses.
    """
    inputs, mask, dt, targets, weights = batch
    chosen = trainable(state.model)
    learned, rest = eqx.partition(state.model, chosen)
    now = jax.random.fold_in(key, state.step)

    def total(learned):
        model = eqx.combine(learned, rest)
        # A solve that fails is found out at the next look: an error inside compiled code would cost every step.
        outputs, _, passed = model.run(
            inputs, mask=mask, dt=dt, key=now, solver=solver, throw=False, truncate=truncate, chunk=chunk or "auto",
            memory=memory,
        )  # fmt: skip
        each = losses(model, outputs, targets, mask, knobs.label_smoothing)
        solutions = [left.solution for left in passed if left.solution is not None]
        counts = jnp.asarray([jnp.mean(one.iterations.astype(each.dtype)) for one in solutions], each.dtype)
        worst = jnp.max(jnp.stack([jnp.zeros((), jnp.int32), *(jnp.max(one.status) for one in solutions)]))
        loss = jnp.sum(weights * each) / jnp.maximum(jnp.sum(weights), 1e-9) + model.penalty().astype(each.dtype)
        return loss, (counts, worst, passed)

    (value, (counts, worst, passed)), gradient = eqx.filter_value_and_grad(total, has_aux=True)(learned)
    gradient = jax.tree.map(jnp.conj, gradient)  # of a complex number JAX gives the conjugate of the ascent
    updates, moments = knobs.optimiser().update(gradient, state.optimiser, learned)
    rate = knobs.rate(state.step)
    learned = jax.tree.map(lambda p, u: p - rate.astype(p.real.dtype) * u, learned, updates)
    # Early on the average forgets faster, so that it does not remember the first weights.
    number = state.step.astype(rate.dtype) + 1
    decay = jnp.minimum(knobs.ema, number / (number + 10))
    mix = lambda a, b: decay.astype(b.real.dtype) * a + (1 - decay).astype(b.real.dtype) * b
    average = jax.tree.map(mix, eqx.filter(state.average, chosen), learned)
    whole = lambda learned: eqx.combine(learned, rest).with_norms(passed)
    new = TrainState(whole(learned), whole(average), moments, state.step + 1)
    return keep_everywhere((new, value, counts, worst), solver)
