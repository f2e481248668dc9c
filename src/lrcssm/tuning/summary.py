"""The state of a study in words and numbers."""

import warnings
from typing import Any

import optuna
from optuna.trial import FrozenTrial, TrialState

from ..locks import alone
from .study import ERROR, Study, finished_well

STATES = {
    TrialState.COMPLETE: "complete",
    TrialState.PRUNED: "given up early",
    TrialState.FAIL: "failed",
    TrialState.RUNNING: "running",
    TrialState.WAITING: "waiting",
}


def facts(study: Study) -> dict[str, Any]:
    """All facts about a study, as JSON holds them."""
    trials = study.trials()
    states = {word: sum(trial.state == state for trial in trials.values()) for state, word in STATES.items()}
    return {
        "study": study.name,
        "states": states,
        "left behind": _left_behind(study, list(trials.values())),
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
    states = {word: sum(trial.state == state for trial in trials.values()) for state, word in STATES.items()}
    best = finished_well(trials)
    text = f"{study.name}: {counts(states)}"
    if not best:
        return f"{text}."
    if len(best) > 1 and best[0].value == best[-1].value:
        return f"{text}; all of them score {best[0].value:.4g}, so none is better than the others."
    return f"{text}; the best is trial {best[0].number} with {best[0].value:.4g}: {words(study.settings(best[0]))}."


def importance(study: Study) -> dict[str, float]:
    """How much each setting tells the best quarter of the trials from all of them (Watanabe et al. 2023), in shares of one;
    nothing if there are too few to tell."""
    done = finished_well(study.trials())
    if len(done) < 8 or len({trial.value for trial in done}) < 2:
        return {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of settings that occur seldom
        evaluator = optuna.importance.PedAnovaImportanceEvaluator(target_quantile=0.25)
        return optuna.importance.get_param_importances(study.optuna, evaluator=evaluator)


def words(settings: dict[str, Any]) -> str:
    """Some settings in a line."""
    return ", ".join(f"{name} {short(value)}" for name, value in settings.items())


def _left_behind(study: Study, trials: list[FrozenTrial]) -> int:
    """Number of trials that run in the eyes of the storage only, as far as that can be seen from here."""
    count = 0
    for trial in trials:
        if study.place.local and trial.state == TrialState.RUNNING:
            with alone(study.folder_of(trial).path) as free:
                count += free
    return count


def counts(states: dict[str, int]) -> str:
    return ", ".join(f"{count} {word}" for word, count in states.items() if count)


def short(value: Any) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def duration(seconds: float) -> str:
    """A time in the largest unit that fits."""
    for size, unit in ((3600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds:.1f} s"
