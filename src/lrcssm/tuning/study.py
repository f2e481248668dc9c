"""A study: its plan, and one trial for each point of it.

All trials are queued when the study is created: the points of a grid, or as many empty trials as a search has. No worker adds
or copies one, so a trial keeps its number and is finished once, however often it is interrupted.
"""

import contextlib
import time
from collections.abc import Iterator
from typing import Any

import optuna
from optuna.trial import FrozenTrial, TrialState

from ..errors import InvalidValue, printable
from ..locks import alone
from ..training.folder import Folder
from .plan import Plan
from .space import Space
from .storage import Place

PLAN, TRIALS, POINT, ERROR, DEATHS = "plan", "trials", "point", "error", "deaths"
"""Names of attributes: plan and number of trials of a study; position in the plan, reason of failure and lost workers of a
trial."""
MOST_TRIALS = 10**6
STARTUP = 10
"""Number of trials of a search that are random."""


class Study:
    """A study of Optuna with a plan.

    **Attributes:**

    - `name`, `place`, `plan`: its name, storage and plan.
    - `optuna`: the study as an object of Optuna.
    - `folder`: parent of the folders of its trials.
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
        """Open an existing study."""
        try:
            found = optuna.load_study(study_name=name, storage=place.storage)
        except KeyError:
            there = [printable(str(one.study_name)) for one in place.storage.get_all_studies()]
            known = f"it has {', '.join(there)}" if there else "it has none"
            raise InvalidValue(f"There is no study {name!r} in this storage; {known}.") from None
        with _undamaged(name):
            plan = found.user_attrs.get(PLAN)
        if plan is None:
            raise InvalidValue(
                f"The study {name!r} has no plan: its start was interrupted, or it was not made by lrcssm; start it again."
            )
        with _undamaged(name):
            study = cls(name, place, Plan.from_json(plan), found)
            study.check()
            return study

    def check(self) -> None:
        """Raise `InvalidValue` for trials that no study of lrcssm can have."""
        planned = self.optuna.user_attrs.get(TRIALS, 0)
        if type(planned) is not int or not 0 <= planned <= MOST_TRIALS:
            raise InvalidValue("its number of trials is not a number")
        names = {axis.name for axis in self.plan.space.axes}
        for trial in self.optuna.get_trials(deepcopy=False):
            point, deaths = trial.user_attrs.get(POINT, 0), trial.user_attrs.get(DEATHS, [])
            fixed = trial.system_attrs.get("fixed_params", {})
            known = set(trial.params) | set(fixed) <= names and type(fixed) is dict
            if type(point) is not int or type(deaths) is not list or not known:
                raise InvalidValue("a trial is not one of the plan")
            if trial.state == TrialState.COMPLETE and trial.value is None:
                raise InvalidValue("a trial has no value")

    @classmethod
    def make(cls, name: str, place: Place, plan: Plan, trials: int | None) -> "Study":
        """Create a study, or open the one with the same name and plan.

        **Arguments:**

        - `name`, `place`, `plan`: of the study.
        - `trials`: number of trials of a search; 50 for a new study if not given. A larger number extends a study.
        """
        found = optuna.create_study(study_name=name, storage=place.storage, direction="maximize", load_if_exists=True)
        if PLAN not in found.user_attrs:
            if found.get_trials(deepcopy=False):
                raise InvalidValue(f"The study {name!r} was not made by lrcssm; give another name.")
            found.set_user_attr(PLAN, plan.to_json())
        if (before := found.user_attrs[PLAN]) != plan.to_json():
            raise InvalidValue(
                f"There is a study {name!r} with other options ({_difference(before, plan.to_json())}); give the same options, "
                "or another name."
            )
        if not plan.space.grid:
            planned = found.user_attrs.get(TRIALS)
            found.set_user_attr(TRIALS, max(trials or (50 if planned is None else 0), planned or 0))
        study = cls(name, place, plan, found)
        study.complete()
        return study

    def complete(self) -> None:
        """Queue the trials that are missing, e.g. because the process that made the study was killed."""
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
        """Settings of each trial of a grid; empty ones for the trials of a search."""
        if self.plan.space.grid:
            return self.plan.space.points()
        return [{}] * self.optuna.user_attrs.get(TRIALS, 0)

    def trials(self) -> dict[int, FrozenTrial]:
        """Trials by their position in the plan. If two machines made the study at the same time, a point may have two trials;
        the first one counts."""
        found: dict[int, FrozenTrial] = {}
        for trial in self.optuna.get_trials(deepcopy=False):
            if POINT in trial.user_attrs:
                found.setdefault(trial.user_attrs[POINT], trial)
        return dict(sorted(found.items()))

    def id_of(self, trial: FrozenTrial) -> int:
        """The identifier of a trial in the storage."""
        return self.place.storage.get_trial_id_from_study_id_trial_number(self.number, trial.number)

    def folder_of(self, trial: FrozenTrial) -> Folder:
        """The folder of a trial, with one folder for each of its runs."""
        return Folder(self.folder / f"trial-{trial.number}")

    def settings(self, trial: FrozenTrial) -> dict[str, Any]:
        """Settings of a trial, as far as they are known."""
        return dict(trial.params or trial.system_attrs.get("fixed_params", {}))

    def started(self, trial: FrozenTrial, steps: int) -> tuple[optuna.Trial, dict[str, Any]]:
        """The trial as an object of Optuna, and its settings; those of a trial that is resumed do not change.

        **Arguments:**

        - `trial`: a trial that this worker has claimed.
        - `steps`: of training, from which the pruner's settings follow.
        """
        # The sampler of each trial has its own seed, so that workers do not choose the same settings.
        self.optuna.sampler = _sampler(self.plan.space, trial.number)
        self.optuna.pruner = _pruner(self.plan.pruner, steps)
        running = optuna.Trial(self.optuna, self.id_of(trial))
        return running, self.plan.space.suggested(running)


@contextlib.contextmanager
def _undamaged(name: str) -> Iterator[None]:
    """Convert errors in the attributes of a study to a message that it is damaged."""
    try:
        yield
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError) as error:
        raise InvalidValue(
            f"The study {name!r} is damaged: its plan or its trials are not those of a study; start another one."
        ) from error


def unfinished(trials: dict[int, FrozenTrial]) -> list[FrozenTrial]:
    """Trials that are waiting or running."""
    return [trial for trial in trials.values() if not trial.state.is_finished()]


def finished_well(trials: dict[int, FrozenTrial]) -> list[FrozenTrial]:
    """Complete trials, the best first; of equal ones the earlier."""
    done = [trial for trial in trials.values() if trial.state == TrialState.COMPLETE]
    return sorted(done, key=lambda trial: (-(trial.value or 0.0), trial.number))


def _sampler(space: Space, number: int) -> optuna.samplers.BaseSampler:
    if space.grid:
        return optuna.samplers.RandomSampler()  # all settings are fixed
    return optuna.samplers.TPESampler(seed=number, n_startup_trials=STARTUP, multivariate=True, constant_liar=True)


def _pruner(kind: str, steps: int) -> optuna.pruners.BasePruner:
    if kind == "median":
        return optuna.pruners.MedianPruner(n_startup_trials=5, n_warmup_steps=steps // 5)
    if kind == "halving":
        return optuna.pruners.SuccessiveHalvingPruner(min_resource=max(1, steps // 27), reduction_factor=3)
    return optuna.pruners.NopPruner()


def _difference(theirs: Any, ours: Any, name: str = "") -> str:
    """The first difference between two plans, in words."""
    if isinstance(theirs, dict) and isinstance(ours, dict):
        for key in {**theirs, **ours}:
            if theirs.get(key) != ours.get(key):
                return _difference(theirs.get(key), ours.get(key), key)
    return f"its {name} is {theirs!r}, not {ours!r}"
