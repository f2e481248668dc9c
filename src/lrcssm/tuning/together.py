"""Runs of one shape side by side: one program makes a step of all of them.

A small model leaves much of a machine idle, because what it computes takes less time than starting to compute it. Runs that
differ in numbers only (learning rate, seed, weight decay, ...) can share that time. A large model keeps the machine busy
alone; the documentation has measurements. Workers of a study do so if they are asked to (`--together`); otherwise they train
one run at a time, whose result is then that of `lrcssm train` to the last bit.
"""

import math
import time
from collections.abc import Callable, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from ..data import Cases
from ..data.cases import arrange
from ..engine import Auto, Solver, Status
from ..errors import InvalidValue
from ..models import ModelConfig, SequenceModel
from ..models.budget import as_bytes
from ..training import Epoch, Fitted, TrainingConfig, evaluate
from ..training.loop import Progress, _check, _endless, _judged, mean_iterations
from ..training.metrics import arrays_of, weights_of
from ..training.step import TrainState, train_step

_steps = eqx.filter_jit(eqx.filter_vmap(train_step))
ALIKE = ("steps", "batch", "check_every", "chunk", "memory", "truncate")


PAYS = 2**17
"""Up to so many numbers between two layers (batch × steps × width) runs are faster together, by measurement."""


def pays(config: ModelConfig, training: TrainingConfig, train: Cases) -> bool:
    """Whether such runs can be trained together, and gain by it."""
    lengths = {len(one) for one in train.series}
    return len(lengths) == 1 and training.batch * -(-max(lengths) // config.patch) * config.hidden_dim <= PAYS


def fit_together(
    models: Sequence[SequenceModel],
    train: Cases | Sequence[Cases],
    validation: Cases | Sequence[Cases] | None,
    configs: Sequence[TrainingConfig],
    *,
    solver: Solver = Auto(),
    tick: Callable[[int], None] = lambda step: None,
) -> list[Fitted | FloatingPointError]:
    """Trains several models of one configuration at once, each to the same result as `fit`, up to rounding.

    ```python
    import jax, lrcssm
    from lrcssm.data import digits
    from lrcssm.training import TrainingConfig
    from lrcssm.tuning.together import fit_together

    cases, split = digits()
    train, validation, test = (cases.take(part) for part in split)
    config = lrcssm.ModelConfig(input_dim=1, output_dim=10, hidden_dim=8, state_dim=8, num_blocks=1, patch=8)
    model = lrcssm.SequenceModel(config, jax.random.key(0)).with_statistics(*train.statistics())
    trainings = [TrainingConfig(steps=10, learning_rate=rate) for rate in (1e-4, 1e-3, 1e-2)]
    print([fitted.score for fitted in fit_together([model] * 3, train, validation, trainings)])
    ```

    **Arguments:**

    - `models`: where each begins.
    - `train`, `validation`: cases with targets, for all alike or for each; the training cases have one length.
    - `configs`: how each is trained; their steps, batch, looks, chunks, memory and truncation are the same.
    - `solver`: of the recurrences.
    - `tick`: called with the number of each step.

    **Returns:**

    For each what `fit` returns, or the error that it would raise: one that fails does not stop the others.
    """
    trains = [train] * len(models) if isinstance(train, Cases) else train
    looks = [validation] * len(models) if validation is None or isinstance(validation, Cases) else validation
    _check_alike(models, trains, configs)
    for model, own, seen in zip(models, trains, looks, strict=True):
        _check(model, own, seen)
    first = configs[0]
    knobs, keys = [config.knobs() for config in configs], [jax.random.key(config.seed) for config in configs]
    states = _stacked([TrainState.start(model, own) for model, own in zip(models, knobs, strict=True)])
    memory = None if first.memory is None else as_bytes(first.memory, "fit_together") // len(models)
    together = _stacked(knobs), jnp.stack(keys), solver, first.truncate, first.chunk, memory
    size = min(first.batch, len(trains[0]))
    weights, orders = [], []
    for own, config in zip(trains, configs, strict=True):
        weights.append(weights_of(own, config.class_weights, models[0].config.output_dim))
        orders.append(_endless(own, size, size, config.seed, 0))
    ends: list[Progress | FloatingPointError] = [
        Progress(TrainState.start(model, own), model, -math.inf, 0, 0, False, ())
        for model, own in zip(models, knobs, strict=True)
    ]
    start, since = time.perf_counter(), []
    for now in range(1, first.steps + 1):
        batch = [arrays_of(next(order), own) for order, own in zip(orders, weights, strict=True)]
        states, *told = _steps(states, _stacked(batch), *together)
        since.append(told)
        tick(now)
        if now % first.check_every and now != first.steps:
            continue
        losses, counts, statuses = (np.stack([np.asarray(told[i]) for told in since]) for i in range(3))
        since, seconds = [], time.perf_counter() - start
        for i, (config, end) in enumerate(zip(configs, ends, strict=True)):
            if isinstance(end, FloatingPointError) or end.over:
                continue
            loss, worst = float(losses[:, i].mean()), Status(int(statuses[:, i].max()))
            if not worst.ok or not np.isfinite(loss):
                ends[i] = FloatingPointError(f"Training failed by step {now}, with a loss of {loss:.4g}.")
                continue
            state = _taken(states, i)
            chosen = state.average if config.ema else state.model
            seen = looks[i]
            scores = {} if seen is None else evaluate(chosen, seen, solver=solver)
            epoch = Epoch(now, loss, scores, seconds, *mean_iterations(counts[:, i]))
            ends[i] = _judged(end, state, chosen, epoch, config)
        if all(isinstance(end, FloatingPointError) or end.over for end in ends):
            break
    return [
        end if isinstance(end, FloatingPointError) else Fitted(end.best, end.score, end.best_step, end.history)
        for end in ends
    ]


def _check_alike(models: Sequence[SequenceModel], trains: Sequence[Cases], configs: Sequence[TrainingConfig]) -> None:
    if not models or len(models) != len(configs):
        raise InvalidValue(
            f"fit_together got {len(models)} models and {len(configs)} configs; give one for each, at least 1."
        )
    if any(model.config != models[0].config for model in models):
        raise InvalidValue(
            "fit_together got models of different configurations; only those of one can share a program."
        )
    for name in ALIKE:
        if len(found := {getattr(config, name) for config in configs}) > 1:
            raise InvalidValue(f"fit_together got {name}={sorted(found, key=str)}; give all the same.")
    if len({min(configs[0].batch, len(train)) for train in trains}) > 1:
        raise InvalidValue("fit_together got training cases for batches of different sizes; train each alone.")
    if len({length for train in trains for length, _ in arrange(train, configs[0].batch)}) > 1:
        raise InvalidValue(
            "fit_together got series of different lengths, whose batches cannot be stacked; train each alone."
        )


def _stacked(trees: Sequence[Any]) -> Any:
    """Trees of equal shape as one, whose arrays have one more axis."""
    return jax.tree.map(lambda *leaves: np.stack(leaves), *trees)  # by numpy, which need not be compiled for it


def _taken(tree: Any, i: int) -> Any:
    """The i-th of the trees that were stacked."""
    return jax.tree.map(lambda leaf: jnp.asarray(np.asarray(leaf)[i]), tree)
