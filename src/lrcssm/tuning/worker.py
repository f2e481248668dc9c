"""`lrcssm tune start` and `lrcssm tune worker`: trials one after the other, until none is left.

What a worker has done is not lost with it: each look at the validation data leaves a checkpoint, each run a result. Whoever
takes up the trial of a worker that died reads what is there and goes on, to the same value.
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
from ..data import load
from ..engine.solvers import SOLVERS
from ..experiments.cost import in_words
from ..memory import keep_memory
from ..runs.folder import Folder
from ..runs.train import _heeding_interrupts
from ..training import Epoch, Fitted
from ..training.loop import _score
from . import Start, Worker
from .claims import Claim, Leases, Lost, claim
from .plan import Material, Plan
from .run import Run
from .show import summary, words
from .space import program
from .storage import open_place
from .study import ERROR, Study, unfinished
from .together import fit_together, pays

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
    work(study, Material(plan, data), options.timeout, together=options.together)


def help_with(options: Worker) -> None:
    """Works on a study that is there."""
    study = Study.load(options.study, open_place(options.study, options.storage, make=False))
    study.complete()
    work(study, Material.of(study.plan, options.data_dir), options.timeout, together=options.together)


def work(
    study: Study,
    material: Material,
    timeout: float | None = None,
    leases: Leases | None = None,
    together: int = 1,
) -> None:
    """Runs trials until all are finished, or the time is over.

    **Arguments:**

    - `study`, `material`: what to work on.
    - `timeout`: seconds after which no trial is begun.
    - `leases`: how to know of workers on other machines, where that is necessary; as usual if not given.
    - `together`: how many runs may be trained in one program.
    """
    keep_memory()
    remember_compilations()
    if leases is None and not study.place.local:
        leases = Leases(study)
    end = math.inf if timeout is None else time.monotonic() + timeout
    _say(_greeting(study))
    with _heeding_interrupts() as interrupted:
        shift = Shift(study, material, leases, interrupted, together)
        while time.monotonic() < end and (left := unfinished(study.trials())):
            if not shift.one_of(left):
                time.sleep(PAUSE)
    _say(summary(study))


class Shift:
    """A worker's time at a study.

    **Arguments:**

    - `study`, `material`, `leases`, `together`: see `work`.
    - `interrupted`: is no longer empty after Ctrl-C.
    """

    def __init__(
        self, study: Study, material: Material, leases: Leases | None, interrupted: list[bool], together: int = 1
    ):
        self.together = together
        self.study = study
        self.material = material
        self.leases = leases
        self.interrupted = interrupted
        self.programs: set[Any] = set()
        """What this process has compiled."""

    def one_of(self, trials: list[FrozenTrial]) -> bool:
        """Runs the first trial that can be had, and others with it if they are to be trained together; whether there was
        one."""
        for trial in self.in_turn(trials):
            with contextlib.ExitStack() as claims:
                mine = claims.enter_context(claim(self.study, trial, self.leases))
                if mine is None:
                    continue
                group = [mine, *self._companions(mine, trials, claims)]
                now = trial
                try:
                    self._side_by_side(group)
                    for one in group:
                        now, begin = one.trial, time.perf_counter()
                        try:
                            text = self.run(one)
                        except Lost:
                            text = "another worker has taken it up"
                        _say(f"trial {now.number}: {text} ({in_words(time.perf_counter() - begin)})")
                except KeyboardInterrupt:
                    for one in group:
                        self._note(one.trial, DEATHS, [])  # this one is none
                    raise KeyboardInterrupt(
                        f"interrupted in trial {now.number}; lrcssm tune worker {self.study.name} goes on with it."
                    ) from None
                return True
        return False

    def _companions(self, mine: Claim, trials: list[FrozenTrial], claims: contextlib.ExitStack) -> list[Claim]:
        """Other trials with the program of this one, claimed, as many as may be trained with it."""
        if not self._joins(mine.trial):
            return []
        wanted, found = self.study.settings(mine.trial), []
        for trial in trials:
            if (len(found) + 2) * len(self.study.plan.seeds) > self.together:
                break
            settings = self.study.settings(trial)
            if trial.number != mine.trial.number and settings and program(settings) == program(wanted):
                other = claims.enter_context(claim(self.study, trial, self.leases))
                found += [] if other is None else [other]
        return found

    def _joins(self, trial: FrozenTrial) -> bool:
        """Whether the runs of a trial, whose settings are known, are better trained with others in one program."""
        plan, settings = self.study.plan, self.study.settings(trial)
        if self.together == 1 or plan.pruner != "none" or not settings:
            return False
        config, training = plan.configured(self.material.data, settings, plan.seeds[0])
        return pays(config, training, self.material.parts(training.seed)[0])

    def _side_by_side(self, group: list[Claim]) -> None:
        """Trains the runs of some trials in one program, as far as they have not begun, and leaves their results."""
        if not self._joins(group[0].trial):
            return
        waiting = [run for one in group for run in self._runs(one, self.study.settings(one.trial)) if run.fresh]
        if len(waiting) < 2:
            return

        def tick(step: int) -> None:
            for one in group:
                one.check()
            if self.interrupted:
                raise KeyboardInterrupt

        begin = time.perf_counter()
        for first in range(0, len(waiting), self.together):
            runs = waiting[first : first + self.together]
            parts = [self.material.parts(run.training.seed) for run in runs]
            models = [run.model(train) for run, (train, _) in zip(runs, parts, strict=True)]
            try:
                ends = fit_together(
                    models, [train for train, _ in parts], [seen for _, seen in parts], [run.training for run in runs],
                    solver=SOLVERS[self.study.plan.options["solver"]], tick=tick,
                )  # fmt: skip
            except (Lost, ValueError, MemoryError, jax.errors.JaxRuntimeError):
                return  # each alone will say what is wrong with it
            for run, end in zip(runs, ends, strict=True):
                if isinstance(end, Fitted):
                    run.finish(end)
        names = ", ".join(str(one.trial.number) for one in group)
        _say(f"trials {names}: {len(waiting)} runs together ({in_words(time.perf_counter() - begin)})")

    def _runs(self, mine: Claim, settings: dict[str, Any]) -> list["Run"]:
        """The runs of a trial, one for each seed."""
        plan, found = self.study.plan, []
        for seed in plan.seeds:
            model, training = plan.configured(self.material.data, settings, seed)
            folder = Folder(self.study.folder_of(mine.trial).path / plan.identity(model, training))
            found.append(Run(model, training, folder))
        return found

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

        for number, run in enumerate(self._runs(mine, settings)):

            def look(epoch: Epoch, before: int = number * run.training.steps, run: Run = run) -> None:
                told(before + epoch.step, float(np.mean([*scores, _score(epoch, run.training)])))

            scores.append(run.score(self.material, SOLVERS[plan.options["solver"]], look, tick))
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


def _greeting(study: Study) -> str:
    trials, runs = study.trials(), len(study.plan.seeds)
    names = ", ".join(axis.name for axis in study.plan.space.axes)
    return (
        f"{study.name}: {len(unfinished(trials))} of {len(trials)} trials to go, of {runs} run{'s' * (runs > 1)} each; "
        f"varied: {names}. lrcssm tune worker {study.name} helps, in as many processes as you like."
    )


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
