"""Summary of a study in words and numbers."""

import warnings
from typing import Any

import optuna
from optuna.trial import FrozenTrial, TrialState

from ..locks import alone
from .study import ERROR, Study, finished_well

STATES = {
    TrialState.COMPLETE: "complete",
    TrialState.PRUNED: "stopped early",
    TrialState.FAIL: "failed",
    TrialState.RUNNING: "running",
    TrialState.WAITING: "waiting",
}


def facts(study: Study) -> dict[str, Any]:
    """All facts about a study, as JSON values."""
    trials = study.trials()
    return {
        "study": study.name,
        "states": _states(trials),
        "abandoned": _abandoned(study, list(trials.values())),
        "best": [trial.number for trial in leaders(trials)],
        "importance": importance(study),
        "plan": study.plan.to_json(),
        "trials": [
            {
                "number": trial.number, "state": STATES[trial.state], "value": trial.value,
                "settings": study.settings(trial), "error": trial.user_attrs.get(ERROR),
                "seconds": trial.duration.total_seconds() if trial.duration else None,
            }
            for trial in trials.values()
        ],
    }  # fmt: skip


def summary(study: Study) -> str:
    """The state of a study in one line."""
    trials = study.trials()
    text = f"{study.name}: {counts(_states(trials))}"
    best = leaders(trials)
    if not best:
        return f"{text}."
    value, numbers = f"{best[0].value:.4g}", ", ".join(str(trial.number) for trial in best)
    if len(best) == 1:
        return f"{text}; the best is trial {numbers} with {value}: {words(study.settings(best[0]))}."
    if len(best) == len(finished_well(trials)):
        return f"{text}; all complete trials score {value}, so none is better than the others."
    return f"{text}; the best are trials {numbers} with {value}; the first of them: {words(study.settings(best[0]))}."


def leaders(trials: dict[int, FrozenTrial]) -> list[FrozenTrial]:
    """Trials with the best value, in order; several if they are equal."""
    done = finished_well(trials)
    return [trial for trial in done if trial.value == done[0].value]


def _states(trials: dict[int, FrozenTrial]) -> dict[str, int]:
    return {word: sum(trial.state == state for trial in trials.values()) for state, word in STATES.items()}


def importance(study: Study) -> dict[str, float]:
    """Importance of each setting for a trial to be in the best quarter (PED-ANOVA, Watanabe et al. 2023); the values sum to 1.
    Empty for fewer than 8 complete trials, and if all of them are equal."""
    done = finished_well(study.trials())
    if len(done) < 8 or len({trial.value for trial in done}) < 2:
        return {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about settings that occur seldom
        evaluator = optuna.importance.PedAnovaImportanceEvaluator(target_quantile=0.25)
        return optuna.importance.get_param_importances(study.optuna, evaluator=evaluator)


def words(settings: dict[str, Any]) -> str:
    """Settings in one line."""
    return ", ".join(f"{name} {short(value)}" for name, value in settings.items())


def _abandoned(study: Study, trials: list[FrozenTrial]) -> int:
    """Number of trials that are running in the storage, but have no worker on this machine; 0 for shared storages."""
    count = 0
    for trial in trials:
        if study.place.local and trial.state == TrialState.RUNNING:
            with alone(study.folder_of(trial).path) as free:
                count += free
    return count


def counts(states: dict[str, int]) -> str:
    """Numbers of trials in each state, in words."""
    return ", ".join(f"{count} {word}" for word, count in states.items() if count)


def short(value: Any) -> str:
    """A value with three digits."""
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def duration(seconds: float) -> str:
    """A time in seconds, minutes or hours."""
    for size, unit in ((3600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds:.1f} s"
