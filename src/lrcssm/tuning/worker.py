"""A worker of a study: runs trials one after the other until none is left.

A worker may be killed at any time: each evaluation writes a checkpoint, each run a result, and the next worker that claims
the trial resumes it and obtains the same value.
"""

import contextlib
import math
import sys
import time
from typing import Any

import jax
import numpy as np
import optuna
from optuna.exceptions import TrialPruned, UpdateFinishedTrialError
from optuna.trial import FrozenTrial, TrialState

from ..compilation import remember_compilations
from ..engine.solvers import SOLVERS
from ..errors import printable
from ..interrupts import heeding_interrupts
from ..memory import keep_memory
from ..training import Evaluation
from ..training.folder import Folder
from .claims import Claim, Leases, Lost, claim
from .plan import Material
from .run import Run
from .space import program
from .study import DEATHS, ERROR, Study, unfinished
from .summary import duration, summary, words

PAUSE = 1.0
"""Seconds to wait before asking again whether the trials of other workers are finished or abandoned."""
LIVES = 3
"""Number of workers in a row that may die at a trial without progress before the trial is abandoned."""
QUIET = 5.0
"""Seconds between two reports of a trial when no pruner needs them."""


def work(study: Study, material: Material, timeout: float | None = None, leases: Leases | None = None) -> None:
    """Run trials until all are finished or the time is over.

    **Arguments:**

    - `study`, `material`: a study and its data.
    - `timeout`: seconds after which no trial is started.
    - `leases`: of this worker, if there are workers on other machines; created with their defaults if not given.
    """
    keep_memory()
    remember_compilations()
    if leases is None and not study.place.local:
        leases = Leases(study)
    end = math.inf if timeout is None else time.monotonic() + timeout
    _say(_greeting(study))
    with heeding_interrupts() as interrupted:
        shift = Shift(study, material, leases, interrupted)
        while time.monotonic() < end and (left := unfinished(study.trials())):
            if not shift.one_of(left):
                time.sleep(PAUSE)
    _say(summary(study))


class Shift:
    """One worker's work on a study.

    **Arguments:**

    - `study`, `material`, `leases`: as for `work`.
    - `interrupted`: a list that is no longer empty after Ctrl-C.
    """

    def __init__(self, study: Study, material: Material, leases: Leases | None, interrupted: list[bool]):
        self.study = study
        self.material = material
        self.leases = leases
        self.interrupted = interrupted
        self.programs: set[Any] = set()
        """Keys of the programs that this process has compiled."""

    def one_of(self, trials: list[FrozenTrial]) -> bool:
        """Run the first trial that can be claimed; false if there is none."""
        for trial in self.in_turn(trials):
            with claim(self.study, trial, self.leases) as mine:
                if mine is None:
                    continue
                begin = time.perf_counter()
                try:
                    text = self.run(mine)
                except Lost:
                    text = "taken over by another worker"
                except KeyboardInterrupt:
                    self._note(trial, DEATHS, [])  # an interruption is not a death
                    raise KeyboardInterrupt(
                        f"interrupted in trial {trial.number}; lrcssm tune worker {self.study.name} resumes it."
                    ) from None
                _say(f"trial {trial.number}: {text} ({duration(time.perf_counter() - begin)})")
                return True
        return False

    def _runs(self, mine: Claim, settings: dict[str, Any]) -> list["Run"]:
        """Runs of a trial, one for each seed."""
        plan, found = self.study.plan, []
        for seed in plan.seeds:
            model, training = plan.configured(self.material, settings, seed)
            folder = Folder(self.study.folder_of(mine.trial).path / plan.identity(model, training))
            found.append(Run(model, training, folder))
        return found

    def in_turn(self, trials: list[FrozenTrial]) -> list[FrozenTrial]:
        """Trials in the order in which to try them: first those whose program this process has compiled, then those whose
        program no other worker uses."""
        needs = {trial.number: program(self.study.settings(trial)) for trial in trials}
        busy = {needs[trial.number] for trial in trials if trial.state == TrialState.RUNNING}
        order = lambda number: (needs[number] not in self.programs, needs[number] in busy, number)
        return sorted(trials, key=lambda trial: order(trial.number))

    def run(self, mine: Claim) -> str:
        """Run or resume a trial; returns its outcome in words."""
        trial, plan = mine.trial, self.study.plan
        if mine.again and self._deadly(trial):
            return self._failed(trial, f"{LIVES} workers in a row died at it without progress")
        training = plan.configured(self.material, plan.space.samples()[0], plan.seeds[0])[1]
        running, settings = self.study.started(trial, training.steps)
        self.programs.add(program(settings))
        try:
            value = self._value(mine, running, settings)
        except TrialPruned:
            self._told(running, state=TrialState.PRUNED)
            return f"{words(settings)}: stopped early"
        except (FloatingPointError, ValueError, MemoryError, jax.errors.JaxRuntimeError) as error:
            if self.interrupted:
                raise KeyboardInterrupt from None
            return f"{words(settings)}: {self._failed(trial, str(error).strip() or type(error).__name__)}"
        if not math.isfinite(value):
            return f"{words(settings)}: {self._failed(trial, f'its validation score is {value}')}"
        self._told(running, values=value)
        return f"{words(settings)}: {value:.4g}"

    def _value(self, mine: Claim, running: optuna.Trial, settings: dict[str, Any]) -> float:
        """The best validation score, averaged over the seeds."""
        plan, scores = self.study.plan, []
        told = Reports(running, mine.trial, every=plan.pruner != "none")

        def tick(step: int) -> None:
            mine.check()
            if self.interrupted:
                raise KeyboardInterrupt

        for number, run in enumerate(self._runs(mine, settings)):

            def report(evaluation: Evaluation, before: int = number * run.training.steps, run: Run = run) -> None:
                told(before + evaluation.step, float(np.mean([*scores, evaluation.score(run.training)])))

            scores.append(run.score(self.material, SOLVERS[plan.settings["solver"]], report, tick))
            mine.check()
        return float(np.mean(scores))

    def _deadly(self, trial: FrozenTrial) -> bool:
        """Record the death of a worker at a trial; returns true if the trial is to be abandoned."""
        deaths = [*trial.user_attrs.get(DEATHS, []), len(trial.intermediate_values)]
        self._note(trial, DEATHS, deaths)
        return len(deaths) >= LIVES and len(set(deaths[-LIVES:])) == 1

    def _told(self, running: optuna.Trial, **outcome: Any) -> None:
        """Finish a trial, unless another worker has finished it."""
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
    """Reports of a trial's evaluations to Optuna; raises `TrialPruned` if the trial is to be stopped.

    **Arguments:**

    - `running`, `before`: the trial, and its state at the time of the claim.
    - `every`: report every evaluation, for a pruner; otherwise only some, to follow the trial.
    """

    def __init__(self, running: optuna.Trial, before: FrozenTrial, every: bool):
        self.running = running
        self.every = every
        # A worker that died may have reported some already.
        self.last = max(before.intermediate_values, default=0)
        self.when = -math.inf

    def __call__(self, step: int, value: float) -> None:
        now = time.monotonic()
        if step > self.last and (self.every or now - self.when > QUIET):
            self.running.report(value, step)
            self.last, self.when = step, now
        if self.every and step >= self.last and self.running.should_prune():
            raise TrialPruned


def _greeting(study: Study) -> str:
    trials, runs = study.trials(), len(study.plan.seeds)
    names = ", ".join(axis.name for axis in study.plan.space.axes)
    return (
        f"{study.name}: {len(unfinished(trials))} of {len(trials)} trials to go, {runs} run{'s' * (runs > 1)} each; "
        f"varied: {names}. Start further workers with lrcssm tune worker {study.name}."
    )


def _say(text: str) -> None:
    print(printable(text), file=sys.stderr, flush=True)
