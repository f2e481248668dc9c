"""A study: its plan, and one trial for each point of it, from the beginning to the end.

A trial is never copied and never made twice: a grid's points, or as many empty places as a search has trials, wait in the
study before anyone works on it. So whoever runs a trial, and however often it is interrupted, it is finished once, which is
for the storage to see to.
"""

import time
from typing import Any

import optuna
from optuna.trial import FrozenTrial, TrialState

from ..errors import InvalidValue
from ..locks import alone
from ..training.folder import Folder
from .plan import Plan
from .space import Space
from .storage import Place

PLAN, TRIALS, POINT, ERROR = "plan", "trials", "point", "error"
"""The names of attributes: of a study its plan and how many trials it has, of a trial which of them it is, and why it
failed."""
STARTUP = 10
"""So many trials of a search are random."""


class Study:
    """A study of Optuna with a plan.

    **Attributes:**

    - `name`, `place`, `plan`: what it is called, where it is kept and what it is about.
    - `optuna`: the same for Optuna.
    - `folder`: of its runs.
    """

    def __init__(self, name: str, place: Place, plan: Plan, found: optuna.Study):
        self.name = name
        self.place = place
        self.plan = plan
        self.optuna = found
        self.folder = place.runs / name
        self.number = place.storage.get_study_id_from_name(name)

    @classmethod
    def load(cls, name: str, place: Place) -> "Study":
        """One that is there."""
        try:
            found = optuna.load_study(study_name=name, storage=place.storage)
        except KeyError:
            there = [one.study_name for one in place.storage.get_all_studies()]
            known = f"it has {', '.join(there)}" if there else "it has none"
            raise InvalidValue(f"There is no study {name!r} in this storage; {known}.") from None
        plan = found.user_attrs.get(PLAN)
        if plan is None:
            raise InvalidValue(
                f"The study {name!r} has no plan, because it was not made to its end, or not by lrcssm; give the lrcssm tune "
                "start that makes it."
            )
        return cls(name, place, Plan.from_json(plan), found)

    @classmethod
    def make(cls, name: str, place: Place, plan: Plan, trials: int | None) -> "Study":
        """One that is made, or was made with the same plan before.

        **Arguments:**

        - `trials`: how many trials a search has. More than before lengthens it; `None` leaves it as it is.
        """
        found = optuna.create_study(study_name=name, storage=place.storage, direction="maximize", load_if_exists=True)
        if PLAN not in found.user_attrs:
            if found.get_trials(deepcopy=False):
                raise InvalidValue(f"The study {name!r} was not made by lrcssm; give another --study.")
            found.set_user_attr(PLAN, plan.to_json())
        if (before := found.user_attrs[PLAN]) != plan.to_json():
            raise InvalidValue(
                f"There is a study {name!r} with other options ({_difference(before, plan.to_json())}); give the same, or "
                "another --study."
            )
        if not plan.space.grid:
            planned = found.user_attrs.get(TRIALS)
            found.set_user_attr(TRIALS, max(trials or (50 if planned is None else 0), planned or 0))
        study = cls(name, place, plan, found)
        study.complete()
        return study

    def complete(self) -> None:
        """Lets wait what is not there yet, e.g. because whoever made the study was killed."""
        places = self.points()
        while len(self.trials()) < len(places):
            with alone(self.folder) as mine:
                if not mine:
                    time.sleep(0.1)
                    continue
                there = self.trials()
                for number, settings in enumerate(places):
                    if number not in there:
                        self.optuna.enqueue_trial(settings, user_attrs={POINT: number})

    def points(self) -> list[dict[str, Any]]:
        """The settings of each trial of a grid; of a search nothing, but as often."""
        if self.plan.space.grid:
            return self.plan.space.points()
        return [{}] * self.optuna.user_attrs.get(TRIALS, 0)

    def trials(self) -> dict[int, FrozenTrial]:
        """The trials of the plan, by their number in it. If two machines made the study at the same time, a point may be
        there twice; the first one counts."""
        found: dict[int, FrozenTrial] = {}
        for trial in self.optuna.get_trials(deepcopy=False):
            if POINT in trial.user_attrs:
                found.setdefault(trial.user_attrs[POINT], trial)
        return dict(sorted(found.items()))

    def id_of(self, trial: FrozenTrial) -> int:
        """What the storage knows a trial by."""
        return self.place.storage.get_trial_id_from_study_id_trial_number(self.number, trial.number)

    def folder_of(self, trial: FrozenTrial) -> Folder:
        return Folder(self.folder / f"trial-{trial.number}")

    def settings(self, trial: FrozenTrial) -> dict[str, Any]:
        """What a trial tries, as far as that is decided."""
        return dict(trial.params or trial.system_attrs.get("fixed_params", {}))

    def started(self, trial: FrozenTrial, steps: int) -> tuple[optuna.Trial, dict[str, Any]]:
        """A trial of Optuna's to report to, and its settings. A trial that was begun before has those that it had.

        **Arguments:**

        - `steps`: of training, by which the pruner is set.
        """
        # The sampler of each trial has a seed of its own: workers do not choose the same.
        self.optuna.sampler = _sampler(self.plan.space, trial.number)
        self.optuna.pruner = _pruner(self.plan.pruner, steps)
        running = optuna.Trial(self.optuna, self.id_of(trial))
        return running, self.plan.space.suggested(running)


def unfinished(trials: dict[int, FrozenTrial]) -> list[FrozenTrial]:
    """Those that wait or run."""
    return [trial for trial in trials.values() if not trial.state.is_finished()]


def finished_well(trials: dict[int, FrozenTrial]) -> list[FrozenTrial]:
    """Those that have a value, the best first; of equal ones the earlier."""
    done = [trial for trial in trials.values() if trial.state == TrialState.COMPLETE]
    return sorted(done, key=lambda trial: (-(trial.value or 0.0), trial.number))


def _sampler(space: Space, number: int) -> optuna.samplers.BaseSampler:
    if space.grid:
        return optuna.samplers.RandomSampler()  # has nothing to choose
    return optuna.samplers.TPESampler(seed=number, n_startup_trials=STARTUP, multivariate=True, constant_liar=True)


def _pruner(kind: str, steps: int) -> optuna.pruners.BasePruner:
    if kind == "median":
        return optuna.pruners.MedianPruner(n_startup_trials=5, n_warmup_steps=steps // 5)
    if kind == "halving":
        return optuna.pruners.SuccessiveHalvingPruner(min_resource=max(1, steps // 27), reduction_factor=3)
    return optuna.pruners.NopPruner()


def _difference(theirs: Any, ours: Any, name: str = "") -> str:
    """The first thing that differs, in words."""
    if isinstance(theirs, dict) and isinstance(ours, dict):
        for key in {**theirs, **ours}:
            if theirs.get(key) != ours.get(key):
                return _difference(theirs.get(key), ours.get(key), key)
    return f"its {name} is {theirs!r}, not {ours!r}"
