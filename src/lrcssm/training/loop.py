"""The training loop: batches, evaluations on the validation cases, the best weights, checkpoints.

Everything here depends on the state and the configuration alone: the order of the data of an epoch comes from the seed and the
epoch, the dropout of a step from the seed and the step. A run that resumes from a checkpoint therefore gives the result of an
uninterrupted one, bit for bit.
"""

import dataclasses
import itertools
import math
import os
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import equinox as eqx
import jax
import numpy as np
from jax.sharding import Mesh

from ..data import Batch, Cases, padded_lengths
from ..data.batching import arrange, full_size, make_batch
from ..engine import Auto, Sharded, Solver
from ..errors import InvalidValue, TrainingError
from ..models import ModelConfig, SequenceModel
from .checkpoint import Checkpoint, identity
from .config import TrainingConfig
from .devices import everywhere, local
from .evaluation import Evaluation, Past
from .metrics import class_weights_of, evaluate
from .step import Step, TrainState, checked_steps


@dataclasses.dataclass(frozen=True)
class Fitted:
    """The best model, its score on the validation cases (larger is better), its step, all evaluations, and the time of
    training."""

    model: Any
    score: float
    step: int
    history: tuple[Evaluation, ...]
    seconds: float = 0.0


class Progress(eqx.Module):
    """Everything that a run changes and a checkpoint stores. `since` is of the steps after the last evaluation, `seconds` the
    time of all steps."""

    state: TrainState
    best: SequenceModel
    score: float = eqx.field(static=True, default=-math.inf)
    best_step: int = eqx.field(static=True, default=0)
    stale: int = eqx.field(static=True, default=0)
    over: bool = eqx.field(static=True, default=False)
    history: tuple[Evaluation, ...] = eqx.field(static=True, default=())
    since: tuple[Past, ...] = eqx.field(static=True, default=())
    seconds: float = eqx.field(static=True, default=0.0)


def first_model(config: ModelConfig, train: Cases, seed: int) -> SequenceModel:
    """The model before training: drawn from a seed, scaled by the statistics of the training cases."""
    if not 0 <= seed < 2**32:  # in single precision keys ignore what is above
        raise InvalidValue(f"A model got seed={seed}; give a whole number from 0 to {2**32 - 1}.")
    return SequenceModel(config, jax.random.key(seed)).with_statistics(*train.statistics())


def fit(
    model: SequenceModel,
    train: Cases,
    validation: Cases | None = None,
    config: TrainingConfig = TrainingConfig(),
    *,
    solver: Solver = Auto(),
    report: Callable[[Evaluation], bool | None] = lambda evaluation: None,
    tick: Callable[[int], None] = lambda step: None,
    checkpoint: str | os.PathLike[str] | None = None,
    resume: bool = False,
    mesh: Mesh | None = None,
) -> Fitted:
    """Train a model.

    ```python
    import lrcssm
    from lrcssm.training import TrainingConfig, evaluate, first_model, fit

    train, validation, test = lrcssm.data.load("digits").parts()
    config = lrcssm.ModelConfig(input_dim=1, output_dim=10, hidden_dim=16, state_dim=16, num_blocks=1, patch=8)
    fitted = fit(first_model(config, train, seed=0), train, validation, TrainingConfig(steps=20, check_every=10))
    print(evaluate(fitted.model, test)["accuracy"])
    ```

    **Arguments:**

    - `model`: the model to start from.
    - `train`, `validation`: cases with targets. Without validation cases the last weights are the best.
    - `config`: settings.
    - `solver`: of the recurrences.
    - `report`: called after each evaluation; training ends if it returns true.
    - `tick`: called with the number of each step.
    - `checkpoint`: file for everything needed to resume after an interruption, written at each evaluation (but at most once a
        second) and at the end. The previous one is kept next to it, with the suffix `.previous`.
    - `resume`: continue from the checkpoint if there is one. The result is that of an uninterrupted run, bit for bit. A run can
        also be resumed with more `config.steps`; from there on its learning rate follows the schedule of the new number of
        steps, so the result differs from that of a run that was started with them.
    - `mesh`: devices to train on (see `make_mesh`), of one process or of several, each of which then calls `fit` with the
        same arguments; the first of them writes the checkpoint. The result is that of one device to rounding, and a
        checkpoint can be resumed on any other number of devices.

    **Returns:**

    A `Fitted` with the model of the best validation score (see `TrainingConfig.monitor`).
    """
    check_cases(model, train, validation)
    for name in ("truncate", "chunk"):
        value = getattr(config, name)
        if value is not None and (reason := model.whole(between_calls=False, training=True)) is not None:
            raise InvalidValue(f"fit got {name}={value}, but the model {reason}; leave {name} out.")
    if solver.devices is not None:
        raise InvalidValue(
            "fit got solver=Sharded(...); give its mesh as mesh=, and the solver of each device as solver=."
        )
    progress = Progress(TrainState.start(model, config.knobs()), model)
    store = None
    if checkpoint is not None:
        store = Checkpoint(checkpoint, identity(model, train, validation, config, solver))
        progress = store.read(progress) if resume else progress
    if mesh is not None:
        solver = Sharded(mesh, solver)
        progress = everywhere(progress, solver.mesh)
    start = time.perf_counter() - progress.seconds

    def keep(final: bool) -> None:
        if store is not None and jax.process_index() == 0:
            store.write(dataclasses.replace(progress, seconds=time.perf_counter() - start), final=final)

    first, lengths = int(progress.state.step), padded_lengths(train, patch=model.config.patch)
    batches = itertools.islice(
        _endless(train, lengths, config, solver, first), 0 if progress.over else config.steps - first
    )
    for step in checked_steps(progress.state, batches, config, solver):
        progress = dataclasses.replace(
            progress, state=step.state, since=(*progress.since, (step.loss, step.iterations))
        )
        try:
            tick(step.number)
        except KeyboardInterrupt:
            keep(final=True)
            raise
        if step.number % config.check_every and step.number != config.steps:
            if store is not None and store.overdue():
                keep(final=True)
            continue
        scores = {}
        if validation is not None:
            scores = evaluate(step.state.chosen(config), validation, solver=solver, known=lengths)
        evaluation = Evaluation.of(step.number, progress.since, scores, time.perf_counter() - start)
        progress = _judged(progress, step, evaluation, config)
        over = bool(report(evaluation)) or progress.over or step.number == config.steps
        progress = dataclasses.replace(progress, over=over)
        keep(final=over)
        if over:
            break
    best = progress.best if mesh is None else local(progress.best)
    seconds = progress.history[-1].seconds if progress.history else progress.seconds
    return Fitted(best, progress.score, progress.best_step, progress.history, seconds)


def one_pass(
    state: TrainState,
    cases: Cases,
    config: TrainingConfig,
    solver: Solver,
    seconds: float = 0.0,
    known: Sequence[int] = (),
) -> tuple[TrainState, Evaluation]:
    """Train on each case once, in random order.

    **Arguments:**

    - `state`: where to start; the order is drawn from the seed and the number of steps made so far.
    - `cases`: with targets.
    - `config`, `solver`: as for `fit`.
    - `seconds`: of training so far.
    - `known`: lengths for which programs are compiled already, as for `lrcssm.data.padded_lengths`.

    **Returns:**

    The state after the pass, and an `Evaluation` without scores.
    """
    check_cases(state.model, cases, None)
    start, since = time.perf_counter() - seconds, []
    rng = np.random.default_rng((config.seed, int(state.step)))
    lengths = padded_lengths(cases, known, patch=state.model.config.patch)
    groups = arrange(cases, config.batch, rng, lengths=lengths)
    for step in checked_steps(state, _batches(cases, groups, config, solver), config, solver):
        state = step.state
        since.append((step.loss, step.iterations))
    return state, Evaluation.of(int(state.step), tuple(since), {}, time.perf_counter() - start)


def _judged(progress: Progress, step: Step, evaluation: Evaluation, config: TrainingConfig) -> Progress:
    """The progress after an evaluation: the best model so far, and whether to stop."""
    score = evaluation.score(config)
    if math.isnan(score):
        raise TrainingError(f"By step {evaluation.step} the outputs for the validation cases are not numbers.")
    reached = max((one.score(config) for one in progress.history), default=-math.inf)
    stale = 0 if score > reached else progress.stale + 1
    over = config.patience is not None and stale >= config.patience
    changes: dict[str, Any] = {}
    # Of equal scores the later one: it has seen more.
    if score >= progress.score or config.monitor == "last":
        changes = {"best": step.state.chosen(config), "score": score, "best_step": evaluation.step}
    return dataclasses.replace(
        progress, state=step.state, stale=stale, over=over, history=(*progress.history, evaluation), since=(), **changes
    )


def check_cases(model: SequenceModel, train: Cases, validation: Cases | None) -> None:
    """Raise an error for cases that the model cannot be trained on."""
    for name, cases in {"training": train, "validation": validation}.items():
        if cases is None:
            continue
        if cases.targets is None:
            raise InvalidValue(f"fit got {name} cases without targets; give Cases with targets.")
        if cases.channels != model.config.input_dim:
            raise InvalidValue(
                f"fit got cases with {cases.channels} channels for a model of {model.config.input_dim}; give the same."
            )
        if model.config.task == "classify":
            odd = [int(one) for one in (np.min(cases.targets), np.max(cases.targets))]
            if odd[0] < 0 or odd[1] >= model.config.output_dim:
                raise InvalidValue(
                    f"fit got class {odd[0] if odd[0] < 0 else odd[1]} for a model of {model.config.output_dim} classes, "
                    "which are counted from 0."
                )
        elif isinstance(cases.targets, np.ndarray) and not np.isfinite(cases.targets).all():
            raise InvalidValue(f"fit got {name} targets that are not finite; leave these cases out.")


def _endless(
    train: Cases, lengths: tuple[int, ...], config: TrainingConfig, solver: Solver, skip: int
) -> Iterator[Batch]:
    """Endless batches, without the first `skip`; an epoch has the same number of them each time."""
    each = len(arrange(train, config.batch, lengths=lengths))
    for epoch in itertools.count(skip // each):
        groups = arrange(train, config.batch, np.random.default_rng((config.seed, epoch)), lengths=lengths)
        yield from _batches(train, groups[skip % each if epoch == skip // each else 0 :], config, solver)


def _batches(
    cases: Cases, groups: list[tuple[int, np.ndarray]], config: TrainingConfig, solver: Solver
) -> Iterator[Batch]:
    """Batches of some groups of cases, each filled up to a size that the devices share evenly."""
    weights = class_weights_of(cases, config.class_weights)
    size = full_size(len(cases), config.batch, solver.batch_shards)
    for length, which in groups:
        yield make_batch(cases, length, which, size).weighted(weights)
