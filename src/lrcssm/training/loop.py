"""The loop: batches, gradients, averaged weights, a look at the validation data now and then, the best weights.

Nothing here depends on anything but the state and the configuration: the order of the data of an epoch comes from the
seed and the epoch, the dropout of a step from the seed and the step.
"""

import dataclasses
import time
from collections.abc import Callable, Iterator
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from ..data import Cases, batches
from ..engine import Auto, Solver, Status
from ..models import SequenceModel, trainable
from .config import TrainingConfig
from .metrics import arrays_of, evaluate, losses, weights_of


class TrainState(eqx.Module):
    """Everything that training changes."""

    model: SequenceModel
    average: SequenceModel
    optimiser: Any
    step: jax.Array


@dataclasses.dataclass(frozen=True)
class Epoch:
    """One look at the validation data: the step, the mean training loss since the last one, the scores, seconds since
    the start, and the solver's mean number of iterations."""

    step: int
    loss: float
    scores: dict[str, float]
    seconds: float
    iterations: float


@dataclasses.dataclass(frozen=True)
class Fitted:
    """The best model, what it scored on the validation data, at which step, and the history."""

    model: SequenceModel
    score: float
    step: int
    history: tuple[Epoch, ...]


def fit(
    model: SequenceModel,
    train: Cases,
    validation: Cases | None = None,
    config: TrainingConfig = TrainingConfig(),
    *,
    solver: Solver = Auto(),
    report: Callable[[Epoch], None] = lambda epoch: None,
) -> Fitted:
    """Trains a model.

    ```python
    import jax, lrcssm
    from lrcssm.data import digits
    from lrcssm.training import TrainingConfig, evaluate, fit

    cases, split = digits()
    train, validation, test = (cases.take(part) for part in split)
    config = lrcssm.ModelConfig(input_dim=1, output_dim=10, width=16, state=16, depth=1, patch=8)
    model = lrcssm.SequenceModel(config, jax.random.key(0)).with_statistics(*train.statistics())
    fitted = fit(model, train, validation, TrainingConfig(steps=20, check_every=10))
    print(evaluate(fitted.model, test)["accuracy"])
    ```

    **Arguments:**

    - `model`: where to start.
    - `train`, `validation`: cases with targets. Without validation data the last weights are the best.
    - `config`: how.
    - `solver`: of the recurrences.
    - `report`: called after each look at the validation data.

    **Returns:**

    A `Fitted`: the model with the best validation score (accuracy; the mean squared error, negative, for numbers).
    """
    if train.targets is None:
        raise ValueError("fit got training cases without targets.")
    if train.channels != model.config.input_dim:
        raise ValueError(f"fit got cases with {train.channels} channels for a model of {model.config.input_dim}.")
    optimiser = config.optimiser()
    learned = trainable(model)
    state = TrainState(model, model, optimiser.init(eqx.filter(model, learned)), jnp.zeros((), jnp.int32))
    class_weights = weights_of(train, config.class_weights, model.config.output_dim)
    step = _make_step(optimiser, config, solver)
    size = min(config.batch, len(train))
    best = Fitted(model, -np.inf, 0, ())
    history: list[Epoch] = []
    running, iterations, statuses = [], [], []
    start, stale = time.perf_counter(), 0
    for now, part in zip(range(1, config.steps + 1), _endless(train, size, config.seed), strict=False):
        state, value, count, status = step(state, *arrays_of(part, class_weights))
        running.append(value)
        iterations.append(count)
        statuses.append(status)
        if now % config.check_every and now != config.steps:
            continue
        loss, worst = float(jnp.mean(jnp.stack(running))), Status(int(jnp.max(jnp.stack(statuses))))
        if not worst.ok or not np.isfinite(loss):
            raise FloatingPointError(
                f"Training failed by step {now}, with a loss of {loss:.4g}: make learning_rate smaller, or give the cell "
                f"rho=0.99." + ("" if worst.ok else f" ({worst.message})")
            )
        chosen = state.average if config.ema else state.model
        scores = {} if validation is None else evaluate(chosen, validation)
        seconds = time.perf_counter() - start
        history.append(Epoch(now, loss, scores, seconds, float(jnp.mean(jnp.stack(iterations)))))
        running, iterations, statuses = [], [], []
        report(history[-1])
        score = scores.get("accuracy", -scores["mse"] if "mse" in scores else float(now))
        stale = 0 if score > best.score else stale + 1
        # Of equal scores the later one: it has seen more.
        if score >= best.score:
            best = Fitted(chosen, score, now, ())
        if config.patience is not None and stale >= config.patience:
            break
    return dataclasses.replace(best, history=tuple(history))


def _endless(train: Cases, size: int, seed: int) -> Iterator[Any]:
    epoch = 0
    while True:
        yield from batches(train, size, np.random.default_rng((seed, epoch)))
        epoch += 1


def _make_step(optimiser, config: TrainingConfig, solver: Solver):
    @eqx.filter_jit
    def step(state: TrainState, inputs, mask, targets, weights):
        key = jax.random.fold_in(jax.random.key(config.seed), state.step)
        learned, fixed = eqx.partition(state.model, trainable(state.model))

        def total(learned):
            model = eqx.combine(learned, fixed)
            # A solve that fails is found out at the next look: an error inside compiled code would cost every step.
            outputs, _, solutions = model.run(inputs, mask=mask, key=key, solver=solver, throw=False)
            each = losses(model, outputs, targets, config.label_smoothing)
            count = jnp.mean(jnp.stack([jnp.mean(one.iterations.astype(each.dtype)) for one in solutions]))
            worst = jnp.max(jnp.stack([jnp.max(one.status) for one in solutions]))
            return jnp.sum(weights * each) / jnp.maximum(jnp.sum(weights), 1e-9), (count, worst)

        (value, (count, worst)), gradient = eqx.filter_value_and_grad(total, has_aux=True)(learned)
        updates, memory = optimiser.update(gradient, state.optimiser, learned)
        learned = eqx.apply_updates(learned, updates)
        # Early on the average forgets faster, so that it does not remember the first weights.
        number = state.step.astype(value.dtype) + 1
        decay = jnp.minimum(config.ema, number / (number + 10))
        old = eqx.filter(state.average, trainable(state.average))
        average = jax.tree.map(
            lambda a, b: decay.astype(b.real.dtype) * a + (1 - decay).astype(b.real.dtype) * b, old, learned
        )
        new = TrainState(eqx.combine(learned, fixed), eqx.combine(average, fixed), memory, state.step + 1)
        return new, value, count, worst

    return step
