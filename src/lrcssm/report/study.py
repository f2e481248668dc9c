"""`lrcssm tune show` and `lrcssm tune dashboard`: what came of a study so far."""

import json
import sys
import warnings
from typing import Any

import optuna
from optuna.trial import FrozenTrial, TrialState

from ..experiments.jobs import alone
from ..runs.progress import finite
from ..runs.train import command
from . import Dashboard, Show
from .storage import open_place
from .study import ERROR, Study, finished_well

STATES = {
    TrialState.COMPLETE: "complete",
    TrialState.PRUNED: "given up early",
    TrialState.FAIL: "failed",
    TrialState.RUNNING: "running",
    TrialState.WAITING: "waiting",
}


def show(options: Show) -> None:
    """Prints a table, or JSON."""
    study = Study.load(options.study, open_place(options.study, options.storage, make=False))
    found = facts(study)
    if options.json:
        print(json.dumps(finite(found)))
        return
    from ..benchmark.table import print_table

    names = [axis.name for axis in study.plan.space.axes]
    best = [trial for trial in found["trials"] if trial["state"] == "complete"]
    best.sort(key=lambda trial: (-trial["value"], trial["number"]))
    rows = [
        [str(trial["number"]), f"{trial['value']:.4f}", *(_short(trial["settings"].get(name)) for name in names)]
        for trial in best[: options.top]
    ]
    failures = [f"Trial {trial['number']} failed: {trial['error']}" for trial in found["trials"] if trial["error"]]
    importance = ", ".join(f"{name} {share:.0%}" for name, share in found["importance"].items())
    print_table(
        ["trial", "score", *names],
        rows,
        title=f"{study.name}: the best of {len(found['trials'])} trials on {study.plan.options['source']}",
        notes=[
            f"{_counts(found['states'])}.",
            *([f"{found['left behind']} of those that run lost their worker; lrcssm tune worker {study.name} goes on."]
              if found["left behind"] else []),
            *([f"What mattered, by PED-ANOVA: {importance}."] if importance else []),
            *failures[:5],
        ],
    )  # fmt: skip
    if found["command"]:
        print(f"To train the best:\n{found['command']}")  # in one line, to be copied


def facts(study: Study) -> dict[str, Any]:
    """Everything that is known of a study, as JSON can hold it."""
    trials = study.trials()
    states = {word: sum(trial.state == state for trial in trials.values()) for state, word in STATES.items()}
    return {
        "study": study.name,
        "states": states,
        "left behind": _left_behind(study, list(trials.values())),
        "importance": importance(study),
        "command": best_command(study),
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


def best_command(study: Study) -> str | None:
    """What to type to train the best setting, with the first seed."""
    best = finished_well(study.trials())
    if not best:
        return None
    return command(study.plan.train(study.settings(best[0]), study.plan.seeds[0]))


def summary(study: Study) -> str:
    """One line, and the command for the best."""
    trials = study.trials()
    states = {word: sum(trial.state == state for trial in trials.values()) for state, word in STATES.items()}
    best = finished_well(trials)
    text = f"{study.name}: {_counts(states)}"
    if not best:
        return f"{text}."
    return (
        f"{text}; the best is trial {best[0].number} with {best[0].value:.4g}: {words(study.settings(best[0]))}.\n"
        f"{best_command(study)}"
    )


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


def serve(options: Dashboard) -> None:
    """Starts optuna-dashboard and waits until it is interrupted."""
    import optuna_dashboard  # pyright: ignore[reportMissingImports]

    place = open_place(options.study, options.storage, make=False)
    study = Study.load(options.study, place)
    print(f"http://{options.host}:{options.port}/dashboard/studies/{study.number}", file=sys.stderr, flush=True)
    optuna_dashboard.run_server(place.storage, host=options.host, port=options.port)


def words(settings: dict[str, Any]) -> str:
    """Some settings in a line."""
    return ", ".join(f"{name} {_short(value)}" for name, value in settings.items())


def _left_behind(study: Study, trials: list[FrozenTrial]) -> int:
    """How many trials run in the eyes of the storage only, as far as that can be seen from here."""
    count = 0
    for trial in trials:
        if study.place.local and trial.state == TrialState.RUNNING:
            with alone(study.folder_of(trial)) as free:
                count += free
    return count


def _counts(states: dict[str, int]) -> str:
    return ", ".join(f"{count} {word}" for word, count in states.items() if count)


def _short(value: Any) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)
