"""`lrcssm tune start` and `lrcssm tune worker`: trials one after the other, until none is left.

What a worker has done is not lost with it: each look at the validation data leaves a checkpoint, each run a result. Whoever
takes up the trial of a worker that died reads what is there and goes on, to the same value.
"""

import contextlib
import dataclasses
import json
import math
import pathlib
import sys
import time
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import optuna
from optuna.exceptions import TrialPruned, UpdateFinishedTrialError
from optuna.trial import FrozenTrial, TrialState

from ..compilation import remember_compilations
from ..data import load
from ..experiments.cost import in_words
from ..memory import keep_memory
from ..models import ModelConfig, SequenceModel
from ..runs.evaluate import SOLVERS
from ..runs.folder import Folder
from ..runs.train import _heeding_interrupts
from ..training import Epoch, TrainingConfig, fit
from ..training.loop import _score
from . import Start, Worker
from .claims import Claim, Leases, Lost, claim
from .plan import Material, Plan
from .show import summary, words
from .space import program
from .storage import open_place
from .study import ERROR, Study, unfinished

PAUSE = 1.0
"""Seconds between two looks at whether the trials of others are done, or left behind."""
LIVES = 3
"""A trial at which so many workers in a row died without getting further is given up: it may be what kills them."""
DEATHS = "deaths"
QUIET = 5.0
"""Seconds between two reports that no pruner needs."""


def start(options: Start) -> None:
    """Makes a study, or finds it, and works on it."""
    data = load(options.source, directory=options.data_dir)
    plan = Plan.of(options, data)
    place = open_place(options.study, options.storage, make=True)
    study = Study.make(options.study, place, plan, options.trials)
    work(study, Material(plan, data), options.timeout)


def help_with(options: Worker) -> None:
    """Works on a study that is there."""
    study = Study.load(options.study, open_place(options.study, options.storage, make=False))
    study.complete()
    work(study, Material.of(study.plan, options.data_dir), options.timeout)


def work(study: Study, material: Material, timeout: float | None = None, leases: Leases | None = None) -> None:
    """Runs trials until all are finished, or the time is over.

    **Arguments:**

    - `study`, `material`: what to work on.
    - `timeout`: seconds after which no trial is begun.
    - `leases`: how to know of workers on other machines, where that is necessary; as usual if not given.
    """
    keep_memory()
    remember_compilations()
    if leases is None and not study.place.local:
        leases = Leases(study)
    end = math.inf if timeout is None else time.monotonic() + timeout
    _say(_greeting(study))
    with _heeding_interrupts() as interrupted:
        shift = Shift(study, material, leases, interrupted)
        while time.monotonic() < end and (left := unfinished(study.trials())):
            if not shift.one_of(left):
                time.sleep(PAUSE)
    _say(summary(study))


class Shift:
    """A worker's time at a study.

    **Arguments:**

    - `study`, `material`, `leases`: see `work`.
    - `interrupted`: is no longer empty after Ctrl-C.
    """

    def __init__(self, study: Study, material: Material, leases: Leases | None, interrupted: list[bool]):
        self.study = study
        self.material = material
        self.leases = leases
        self.interrupted = interrupted
        self.programs: set[Any] = set()
        """What this process has compiled."""

    def one_of(self, trials: list[FrozenTrial]) -> bool:
        """Runs the first trial that can be had; whether there was one."""
        for trial in self.in_turn(trials):
            with claim(self.study, trial, self.leases) as mine:
                if mine is None:
                    continue
                begin = time.perf_counter()
                try:
                    text = self.run(mine)
                except Lost:
                    text = "another worker has taken it up"
                except KeyboardInterrupt:
                    self._note(trial, DEATHS, [])  # this one is none
                    raise KeyboardInterrupt(
                        f"interrupted in trial {trial.number}; lrcssm tune worker {self.study.name} goes on with it."
                    ) from None
                _say(f"trial {trial.number}: {text} ({in_words(time.perf_counter() - begin)})")
                return True
        return False

    def in_turn(self, trials: list[FrozenTrial]) -> list[FrozenTrial]:
        """Which to take first: one whose program this process has, then one whose program no other is at."""
        needs = {trial.number: program(self.study.settings(trial)) for trial in trials}
        busy = {needs[trial.number] for trial in trials if trial.state == TrialState.RUNNING}
        order = lambda number: (needs[number] not in self.programs, needs[number] in busy, number)
        return sorted(trials, key=lambda trial: order(trial.number))

    def run(self, mine: Claim) -> str:
        """Runs a trial, or goes on with it, and says in words what came of it."""
        trial, plan = mine.trial, self.study.plan
        if mine.again and self._deadly(trial):
            return self._failed(trial, f"{LIVES} workers in a row died at it without getting further")
        training = plan.configured(self.material.data, plan.space.samples()[0], plan.seeds[0])[1]
        running, settings = self.study.started(trial, training.steps)
        self.programs.add(program(settings))
        try:
            value = self._value(mine, running, settings)
        except TrialPruned:
            self._told(running, state=TrialState.PRUNED)
            return f"{words(settings)}: given up early"
        except (FloatingPointError, ValueError, MemoryError, jax.errors.JaxRuntimeError) as error:
            if self.interrupted:
                raise KeyboardInterrupt from None
            return f"{words(settings)}: {self._failed(trial, str(error).strip() or type(error).__name__)}"
        if not math.isfinite(value):
            return f"{words(settings)}: {self._failed(trial, f'its validation score is {value}')}"
        self._told(running, values=value)
        return f"{words(settings)}: {value:.4g}"

    def _value(self, mine: Claim, running: optuna.Trial, settings: dict[str, Any]) -> float:
        """The mean over the seeds of the best validation scores."""
        plan, scores = self.study.plan, []
        told = Reports(running, mine.trial, all_of_them=plan.pruner != "none")

        def tick(step: int) -> None:
            mine.check()
            if self.interrupted:
                raise KeyboardInterrupt

        for number, seed in enumerate(plan.seeds):
            model, training = plan.configured(self.material.data, settings, seed)
            folder = Folder(self.study.folder_of(mine.trial).path / plan.identity(model, training))

            def look(epoch: Epoch, before: int = number * training.steps, training: TrainingConfig = training) -> None:
                told(before + epoch.step, float(np.mean([*scores, _score(epoch, training)])))

            scores.append(run_seed(plan, self.material, model, training, folder, look, tick))
            mine.check()
        return float(np.mean(scores))

    def _deadly(self, trial: FrozenTrial) -> bool:
        """Counts the death of a worker at a trial; whether it is the last that it may cost."""
        deaths = [*trial.user_attrs.get(DEATHS, []), len(trial.intermediate_values)]
        self._note(trial, DEATHS, deaths)
        return len(deaths) >= LIVES and len(set(deaths[-LIVES:])) == 1

    def _told(self, running: optuna.Trial, **outcome: Any) -> None:
        """Finishes a trial, unless it was finished while this worker was out of reach."""
        with contextlib.suppress(UpdateFinishedTrialError):
            self.study.optuna.tell(running, **outcome, skip_if_finished=True)

    def _failed(self, trial: FrozenTrial, why: str) -> str:
        with contextlib.suppress(UpdateFinishedTrialError):
            self._note(trial, ERROR, why)
            self.study.place.storage.set_trial_state_values(self.study.id_of(trial), TrialState.FAIL)
        return f"failed: {why}"

    def _note(self, trial: FrozenTrial, name: str, value: Any) -> None:
        self.study.place.storage.set_trial_user_attr(self.study.id_of(trial), name, value)


class Reports:
    """What a trial tells of its looks, and whether it is to be given up.

    **Arguments:**

    - `running`, `before`: the trial, and as it was when it was claimed.
    - `all_of_them`: whether a pruner compares them; otherwise a few are enough to follow.
    """

    def __init__(self, running: optuna.Trial, before: FrozenTrial, all_of_them: bool):
        self.running = running
        self.all_of_them = all_of_them
        # A worker that died may have told some already.
        self.last = max(before.intermediate_values, default=0)
        self.when = -math.inf

    def __call__(self, step: int, value: float) -> None:
        now = time.monotonic()
        if step > self.last and (self.all_of_them or now - self.when > QUIET):
            self.running.report(value, step)
            self.last, self.when = step, now
        if self.all_of_them and step >= self.last and self.running.should_prune():
            raise TrialPruned


def run_seed(
    plan: Plan, material: Material, config: ModelConfig, training: TrainingConfig, folder: Folder,
    look: Callable[[Epoch], None], tick: Callable[[int], None],
) -> float:  # fmt: skip
    """Runs one seed of a trial, or goes on with it; gives its best validation score.

    **Arguments:**

    - `plan`, `material`, `config`, `training`: what to run.
    - `folder`: where its result is, or its checkpoint.
    - `look`, `tick`: called after each look at the validation data and after each step.
    """
    if folder.file("result.json").exists():
        return folder.read_json("result.json")["score"]
    folder.path.mkdir(parents=True, exist_ok=True)
    folder.write_json("run.json", {"model": json.loads(config.to_json()), "training": dataclasses.asdict(training)})
    train, validation = material.parts(training.seed)
    model = SequenceModel(config, jax.random.key(training.seed)).with_statistics(*train.statistics())
    fitted = fit(
        model, train, validation, training, solver=SOLVERS[plan.options["solver"]], report=look, tick=tick,
        checkpoint=folder.checkpoint, resume=True,
    )  # fmt: skip
    folder.write_text("history.jsonl", "".join(json.dumps(epoch.to_dict()) + "\n" for epoch in fitted.history))
    folder.write_json(
        "result.json", {"score": fitted.score, "step": fitted.step, "seconds": fitted.history[-1].seconds}
    )
    for name in (folder.checkpoint, pathlib.Path(f"{folder.checkpoint}.previous")):
        name.unlink(missing_ok=True)
    return fitted.score


def _greeting(study: Study) -> str:
    trials, runs = study.trials(), len(study.plan.seeds)
    names = ", ".join(axis.name for axis in study.plan.space.axes)
    return (
        f"{study.name}: {len(unfinished(trials))} of {len(trials)} trials to go, of {runs} run{'s' * (runs > 1)} each; "
        f"varied: {names}. lrcssm tune worker {study.name} helps, in as many processes as you like."
    )


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
