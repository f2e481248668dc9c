"""One training step, compiled once for each shape of batch and model, and the loop of checked steps."""

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PRNGKeyArray

from ..compilation import bound_programs
from ..data import Batch
from ..engine import Solver, Status
from ..errors import TrainingError
from ..models import SequenceModel, trainable
from .config import Knobs, TrainingConfig
from .devices import keep_everywhere, on_all, spread
from .metrics import losses, worst_status


class TrainState(eqx.Module):
    """Everything that a step changes."""

    model: SequenceModel
    average: SequenceModel
    optimiser: Any
    step: Array

    @classmethod
    def start(cls, model: SequenceModel, knobs: Knobs) -> "TrainState":
        """The state before the first step."""
        learned = eqx.filter(model, trainable(model))
        return cls(model, model, knobs.optimiser().init(learned), jnp.zeros((), jnp.int32))

    def chosen(self, config: TrainingConfig) -> SequenceModel:
        """The model to evaluate: with averaged weights, if they are averaged."""
        return self.average if config.ema else self.model


class Step(NamedTuple):
    """The outcome of a checked step: its number, the state after it, its loss and the solver's iterations in each layer."""

    number: int
    state: TrainState
    loss: float
    iterations: tuple[float, ...]


def checked_steps(
    state: TrainState, batches: Iterable[Batch], config: TrainingConfig, solver: Solver
) -> Iterator[Step]:
    """Train on one batch after the other, and check every step.

    **Arguments:**

    - `state`: where to start. Dropout is drawn from the seed and the number of the step.
    - `batches`: at least one.
    - `config`: settings.
    - `solver`: of the recurrences; `lrcssm.Sharded` for many devices.

    **Returns:**

    An iterator of `Step`. A solve that failed, or a loss that is not finite, raises `TrainingError`.
    """
    bound_programs(train_step)
    knobs, key = on_all((config.knobs(), jax.random.key(config.seed)), solver)
    number = int(state.step)
    for batch in batches:
        state, loss, iterations, worst = train_step(
            state, spread(batch, solver), knobs, key, solver, config.truncate, config.chunk, config.memory
        )
        number += 1
        status = Status(int(worst))
        if not status.ok or not np.isfinite(loss):
            raise TrainingError(
                f"Training failed at step {number}, with a loss of {float(loss):.4g}: {_remedy(batch, status, config)}"
            )
        yield Step(number, state, float(loss), tuple(np.asarray(iterations).tolist()))


def _remedy(batch: Batch, status: Status, config: TrainingConfig) -> str:
    """The likely cause of a failed step. Weights that became NaN in training look like invalid arguments to a solver."""
    seen = np.asarray(batch.inputs) if batch.mask is None else np.asarray(batch.inputs)[np.asarray(batch.mask)]
    if not np.isfinite(seen).all():
        return 'the training series hold NaN or infinity; clean them, or give Cases.of(..., missing="mask").'
    advice = "make learning_rate smaller, or give the cell rho=0.99."
    if status.ok or status == Status.NONFINITE_ARGUMENT:
        return f"most likely learning_rate={config.learning_rate:.4g} is too large for the weights; {advice}"
    return f"{advice} ({status.message})"


@eqx.filter_jit
def train_step(
    state: TrainState,
    batch: Batch,
    knobs: Knobs,
    key: PRNGKeyArray,
    solver: Solver,
    truncate: int | None = None,
    chunk: int | None = None,
    memory: int | float | str | None = None,
) -> tuple[TrainState, Array, Array, Array]:
    """One step of Adam on the gradient of a batch. `checked_steps` checks what it returns.

    **Arguments:**

    - `state`: before the step.
    - `batch`: cases with targets.
    - `knobs`, `key`, `solver`, `truncate`, `chunk`, `memory`: see `TrainingConfig`; dropout is drawn from the key and the
        number of the step.

    **Returns:**

    The state after the step, the loss, the mean number of the solver's iterations in each layer that has one, and the worst
    of their statuses.
    """
    chosen = trainable(state.model)
    learned, rest = eqx.partition(state.model, chosen)
    now = jax.random.fold_in(key, state.step)

    def total(learned):
        model = eqx.combine(learned, rest)
        # The status is returned: an error inside compiled code would cost every step.
        outputs, _, passed = model.run(
            batch.inputs, mask=batch.mask, dt=batch.dt, key=now, solver=solver, throw=False, truncate=truncate,
            chunk=chunk or "auto", memory=memory,
        )  # fmt: skip
        each = losses(model, outputs, batch.targets, batch.mask, knobs.label_smoothing)
        solutions = [left.solution for left in passed if left.solution is not None]
        counts = jnp.asarray([jnp.mean(one.iterations.astype(each.dtype)) for one in solutions], each.dtype)
        worst = worst_status(passed)
        weights = batch.weights.astype(each.dtype)
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
