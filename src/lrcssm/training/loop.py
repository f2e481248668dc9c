"""The loop: batches, a look at the validation data now and then, the best weights, checkpoints.

Nothing here depends on anything but the state and the configuration: the order of the data of an epoch comes from the
seed and the epoch, the dropout of a step from the seed and the step. So a run that goes on from a checkpoint ends where
an uninterrupted one does, bit for bit.
"""

import dataclasses
import itertools
import math
import os
import time
from collections.abc import Callable, Iterator
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh

from ..data.cases import Cases, arrange
from ..engine import Auto, Sharded, Solver, Status
from ..models import SequenceModel
from ..models.chunks import needs_all_steps
from .checkpoint import Checkpoint, identity
from .config import TrainingConfig
from .devices import divisible, everywhere, local, spread
from .metrics import arrays_of, evaluate, weights_of
from .step import TrainState, train_step


@dataclasses.dataclass(frozen=True)
class Epoch:
    """One look at the validation data: the step, the mean training loss since the last one, the scores, seconds since
    the start, and the solver's mean number of iterations, over all layers and of each one."""

    step: int
    loss: float
    scores: dict[str, float]
    seconds: float
    iterations: float
    iterations_by_layer: tuple[float, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """As JSON can hold it, which has no NaN."""
        scores = {name: value if math.isfinite(value) else None for name, value in self.scores.items()}
        return dataclasses.asdict(self) | {"scores": scores, "iterations_by_layer": list(self.iterations_by_layer)}

    @classmethod
    def from_dict(cls, fields: dict[str, Any]) -> "Epoch":
        """The inverse of `to_dict`."""
        scores = {name: math.nan if value is None else value for name, value in fields["scores"].items()}
        layers = tuple(fields.get("iterations_by_layer", ()))
        changed: dict[str, Any] = fields | {"scores": scores, "iterations_by_layer": layers}
        return cls(**changed)


@dataclasses.dataclass(frozen=True)
class Fitted:
    """The best model, what it scored on the validation data (larger is better), at which step, and the history."""

    model: SequenceModel
    score: float
    step: int
    history: tuple[Epoch, ...]


class Progress(eqx.Module):
    """Everything that a run changes: what a checkpoint holds. `since` is what the steps after the last look told: loss,
    iterations of each layer and status; `seconds` how long all of them took."""

    state: TrainState
    best: SequenceModel
    score: float = eqx.field(static=True)
    best_step: int = eqx.field(static=True)
    stale: int = eqx.field(static=True)
    over: bool = eqx.field(static=True)
    history: tuple[Epoch, ...] = eqx.field(static=True)
    since: tuple[Any, ...] = eqx.field(static=True, default=())
    seconds: float = eqx.field(static=True, default=0.0)


def fit(
    model: SequenceModel,
    train: Cases,
    validation: Cases | None = None,
    config: TrainingConfig = TrainingConfig(),
    *,
    solver: Solver = Auto(),
    report: Callable[[Epoch], bool | None] = lambda epoch: None,
    tick: Callable[[int], None] = lambda step: None,
    checkpoint: str | os.PathLike[str] | None = None,
    resume: bool = False,
    mesh: Mesh | None = None,
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
    - `report`: called after each look at the validation data; training ends if it returns true.
    - `tick`: called after each step.
    - `checkpoint`: a file for everything that is needed to go on after an interruption, written at each look (but at most
        once a second) and at the end. The one before it is kept beside it, with `.previous` at its end.
    - `resume`: go on from the checkpoint if there is one. The result is that of an uninterrupted run, bit for bit.
    - `mesh`: devices to train on (see `make_mesh`), of one process or of several, each of which then calls `fit` with the
        same arguments; the first of them writes the checkpoint. The result is that of one device to rounding, and a
        checkpoint may be gone on with on any other number of devices.

    **Returns:**

    A `Fitted`: the model with the best validation score (see `TrainingConfig`).
    """
    _check(model, train, validation)
    for name in ("truncate", "chunk"):
        value = getattr(config, name)
        if value is not None and (reason := needs_all_steps(model, training=True)) is not None:
            raise ValueError(f"fit got {name}={value}, but the model {reason}; leave {name} out.")
    if solver.devices is not None:
        raise ValueError(
            "fit got a solver for many devices; give their mesh as mesh=, and how each of them solves its part."
        )
    knobs, key = config.knobs(), jax.random.key(config.seed)
    class_weights = weights_of(train, config.class_weights, model.config.output_dim)
    progress = Progress(TrainState.start(model, knobs), model, -math.inf, 0, 0, False, ())
    store = None
    if checkpoint is not None:
        store = Checkpoint(checkpoint, identity(model, train, validation, config, solver))
        if resume:
            progress = _restored(store, progress)
    if mesh is not None:
        solver = Sharded(mesh, solver)
        progress, knobs, key = everywhere((progress, knobs, key), solver.mesh)
    state, start = progress.state, time.perf_counter() - progress.seconds
    number = model.target_mean.dtype
    since = [
        [jnp.asarray(loss, number), jnp.asarray(counts, number), jnp.asarray(status, jnp.int32)]
        for loss, counts, status in progress.since
    ]
    first = int(state.step) + 1

    def keep() -> None:
        """Writes what there is between two looks; not if an interrupt came in the middle of a step."""
        begun = progress.history[-1].step if progress.history else 0
        if store is not None and jax.process_index() == 0 and int(state.step) == begun + len(since):
            told = tuple((float(loss), tuple(counts.tolist()), int(status)) for loss, counts, status in since)
            seconds = time.perf_counter() - start
            store.write(dataclasses.replace(progress, state=state, since=told, seconds=seconds), final=True)

    size = min(config.batch, len(train))
    order = _endless(train, size, divisible(size, solver), config.seed, first - 1)
    for now in range(first, config.steps + 1):
        if progress.over:
            break
        batch = spread(arrays_of(next(order), class_weights), solver)
        state, *told = train_step(state, batch, knobs, key, solver, config.truncate, config.chunk, config.memory)
        since.append(told)
        try:
            tick(now)
        except KeyboardInterrupt:
            keep()
            raise
        if now % config.check_every and now != config.steps:
            if store is not None and store.overdue():
                keep()
            continue
        running, iterations, statuses = zip(*since, strict=True)
        loss, worst = float(jnp.mean(jnp.stack(running))), Status(int(jnp.max(jnp.stack(statuses))))
        if not worst.ok or not np.isfinite(loss):
            raise FloatingPointError(
                f"Training failed by step {now}, with a loss of {loss:.4g}: {_cause(train, worst, config)}"
            )
        chosen = state.average if config.ema else state.model
        scores = {} if validation is None else evaluate(chosen, validation, solver=solver)
        seconds = time.perf_counter() - start
        epoch = Epoch(now, loss, scores, seconds, *mean_iterations(np.stack(iterations)))
        since = []
        progress = _judged(progress, state, chosen, epoch, config)
        stop = bool(report(epoch)) or progress.over or now == config.steps
        progress = dataclasses.replace(progress, over=stop, seconds=seconds)
        if store is not None and jax.process_index() == 0:
            store.write(progress, final=stop)
    best = progress.best if mesh is None else local(progress.best)
    return Fitted(best, progress.score, progress.best_step, progress.history)


def _cause(train: Cases, worst: Status, config: TrainingConfig) -> str:
    """Why training failed, most likely. Weights that it made NaN look like any other argument to a solver."""
    valid = train.valid or [slice(None)] * len(train)
    if not all(np.isfinite(one[steps]).all() for one, steps in zip(train.series, valid, strict=True)):
        return 'the training series hold NaN or infinity; clean them, or give Cases.of(..., missing="mask").'
    advice = "make learning_rate smaller, or give the cell rho=0.99."
    if worst.ok or worst == Status.NONFINITE_ARGUMENT:
        return f"most likely learning_rate={config.learning_rate:.4g} is too large for the weights; {advice}"
    return f"{advice} ({worst.message})"


def mean_iterations(counts: np.ndarray) -> tuple[float, tuple[float, ...]]:
    """The mean over steps and layers of `counts`, (steps, layers), and that of each layer; 0 where no layer has a solver."""
    layers = tuple(float(count) for count in counts.mean(0))
    return float(np.mean(layers)) if layers else 0.0, layers


def _judged(progress: Progress, state, chosen, epoch: Epoch, config: TrainingConfig) -> Progress:
    """The progress after a look: is this model the best one, and is it time to stop?"""
    score = _score(epoch, config)
    if math.isnan(score):
        raise FloatingPointError(f"By step {epoch.step} the outputs for the validation cases are not numbers.")
    reached = max((_score(one, config) for one in progress.history), default=-math.inf)
    stale = 0 if score > reached else progress.stale + 1
    history = (*progress.history, epoch)
    over = config.patience is not None and stale >= config.patience
    # Of equal scores the later one: it has seen more.
    if score >= progress.score or config.monitor == "last":
        return Progress(state, chosen, score, epoch.step, stale, over, history)
    return dataclasses.replace(progress, state=state, stale=stale, over=over, history=history, since=())


def _score(epoch: Epoch, config: TrainingConfig) -> float:
    scores = epoch.scores
    if not scores:
        return float(epoch.step)
    if "mse" in scores:
        return -scores["mse"]
    return -scores["log_loss"] if config.monitor == "loss" else scores["accuracy"]


def _restored(store: Checkpoint, empty: Progress) -> Progress:
    found = store.read(empty)
    if found is None:
        return empty
    arrays, facts = found
    history = tuple(Epoch.from_dict(epoch) for epoch in facts["history"])
    since = tuple((loss, tuple(counts), status) for loss, counts, status in facts.get("since", ()))
    return dataclasses.replace(
        arrays, score=-math.inf if facts["score"] is None else facts["score"], best_step=facts["best_step"], stale=facts["stale"], over=facts["over"],
        history=history, since=since, seconds=facts.get("seconds", history[-1].seconds if history else 0.0),
    )  # fmt: skip


def _check(model, train, validation):
    for name, cases in {"training": train, "validation": validation}.items():
        if cases is None:
            continue
        if cases.targets is None:
            raise ValueError(f"fit got {name} cases without targets.")
        if cases.channels != model.config.input_dim:
            raise ValueError(f"fit got cases with {cases.channels} channels for a model of {model.config.input_dim}.")
        if model.config.task == "classify":
            odd = [int(one) for one in (np.min(cases.targets), np.max(cases.targets))]
            if odd[0] < 0 or odd[1] >= model.config.output_dim:
                raise ValueError(
                    f"fit got class {odd[0] if odd[0] < 0 else odd[1]} for a model of {model.config.output_dim} classes, "
                    "which are counted from 0."
                )
        elif isinstance(cases.targets, np.ndarray) and not np.isfinite(cases.targets).all():
            raise ValueError(f"fit got {name} targets that are not finite; leave these cases out.")


def _endless(train: Cases, size: int, filled: int, seed: int, skip: int) -> Iterator[Any]:
    """Batches of `size` cases for ever, filled up to as many as `filled`, without the first `skip`; an epoch has the same
    number of them each time."""
    each = len(arrange(train, size))
    for epoch in itertools.count(skip // each):
        groups = arrange(train, size, np.random.default_rng((seed, epoch)))
        for group in groups[skip % each if epoch == skip // each else 0 :]:
            yield train.batch(*group, filled)
