"""Studies: their trials and results."""

import dataclasses
import itertools
import json
import pathlib
import shlex
import sys

import pytest
from optuna.trial import TrialState
from studies import NINE, SHORT, SMALL, again, made, options, states, wave_file, words

from lrcssm import cli
from lrcssm.cli import train as train_module
from lrcssm.cli.options import ModelOptions, TrainingOptions
from lrcssm.tuning import study as study_module, worker
from lrcssm.tuning.claims import claim
from lrcssm.tuning.plan import Material
from lrcssm.tuning.run import Run
from lrcssm.tuning.space import COMPILED_FOR, Space, make_space, program
from lrcssm.tuning.study import finished_well, unfinished
from lrcssm.tuning.worker import Shift, work

# What is tried


def test_the_paper_s_grid():
    points = make_space("paper", (), ()).points()
    assert len(points) == 81 == len({tuple(sorted(point.items())) for point in points})
    for name, values in {
        "learning_rate": [1e-5, 1e-4, 1e-3], "hidden_dim": [16, 64, 128], "state_dim": [16, 64, 256], "num_blocks": [2, 4, 6],
    }.items():  # fmt: skip
        assert sorted({point[name] for point in points}) == values
    # Equal programs stand together: there are 27, and 26 changes.
    assert sum(program(a) != program(b) for a, b in itertools.pairwise(points)) == 26


def test_options_hold_and_vary():
    space = make_space("paper", ("clip=0.1,1", "state_dim=8,9"), ("hidden_dim", "num_blocks"))
    assert len(space.points()) == 12 and set(space.points()[0]) == {"state_dim", "learning_rate", "clip"}
    assert {point["state_dim"] for point in space.points()} == {8, 9}
    space = make_space("search", ("learning-rate=1e-4..1e-2", "include_time=yes,no"), ())
    assert {axis.name: axis.range for axis in space.axes}["learning_rate"] == (1e-4, 1e-2)
    assert Space.from_json(json.loads(json.dumps(space.to_json()))) == space
    for name in ("weight_decay", "clip", "ema", "learning_rate", "steps"):
        assert name not in COMPILED_FOR


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ("waves.csv", "--study"),
        ("nothing.csv --study s", "nothing.csv does not exist"),
        ("waves.csv --study a/b", "A study cannot be called 'a/b'"),
        ("waves.csv --study s --space grid", "give search or paper"),
        ("waves.csv --study s --seeds", "--seeds got no value"),
        ("waves.csv --study s --seeds 1 1", "give each seed once"),
        ("waves.csv --study s --trials 0", "--trials got 0"),
        ("waves.csv --study s --space paper --trials 9", "a grid with a fixed number of points"),
        ("waves.csv --study s --timeout 0", "--timeout got 0"),
        (
            "waves.csv --study s --vary wdith=3",
            "vary got 'wdith=3', which is not an option; give one of architecture, cell, hidden_dim",
        ),
        ("waves.csv --study s --vary width", "give name=value,value"),
        ("waves.csv --study s --vary hidden_dim=3,x", "vary: hidden_dim got 'x'; give a whole number"),
        ("waves.csv --study s --vary hidden_dim=3,3", "give each value once"),
        ("waves.csv --study s --vary hidden_dim=3..9", "only a search varies ranges, and only of real numbers"),
        ("waves.csv --study s --vary clip=1..0.1", "give a range from a positive number to a larger one"),
        ("waves.csv --study s --space paper --vary clip=0.1..1", "only a search varies ranges"),
        ("waves.csv --study s --vary hidden_dim=3 --hidden-dim 4", "but hidden_dim has a fixed value"),
        ("waves.csv --study s --vary cell=LRC,ABC", "give one of LRC"),
        ("waves.csv --study s --preset best", "The preset 'best' is not known"),
        ("waves.csv --study s --split paper --hidden-dim 16 --steps 0", "give a whole number of at least 1"),
        ("waves.csv --study s --storage sqlite:///s.db", "is SQLite, which fails when several workers write"),
        ("waves.csv --study s --storage .", "The storage . is a folder"),
        ("waves.csv --study s --storage waves.csv", "waves.csv is not a journal of Optuna"),
        ("waves.csv --study s --storage nosuch://me:secret@x/y", "The storage 'nosuch://x/y' cannot be used"),
        ("waves.csv --study s --storage grpc://here", "give grpc://host:port"),
    ],
)
def test_mistakes(arguments, says, capsys):
    assert cli.main(["tune", "start", *arguments.split()]) == 2
    err = capsys.readouterr().err
    assert says in err and err.startswith("lrcssm: ") and err.count("\n") == 1 and "secret" not in err
    assert not pathlib.Path("runs").exists()


def test_mistakes_about_studies(capsys, monkeypatch, instant):
    monkeypatch.setitem(sys.modules, "optuna_dashboard", type(sys)("optuna_dashboard"))
    for command in ("worker", "show", "dashboard"):
        assert cli.main(["tune", command, "none"]) == 2
        assert (
            "There is no study in runs/tune/none.journal; create it with lrcssm tune start" in capsys.readouterr().err
        )
    assert not pathlib.Path("runs").exists()
    start = options()
    assert cli.main(words(start)) == 0
    assert cli.main(["tune", "show", "other", "--storage", "runs/tune/s.journal"]) == 2
    assert "There is no study 'other' in this storage; it has s." in capsys.readouterr().err
    assert cli.main(words(dataclasses.replace(start, vary=("learning_rate=1e-3,1e-1",)))) == 2
    assert "its learning_rate is [0.001, 0.01], not [0.001, 0.1]" in capsys.readouterr().err
    (pathlib.Path("database")).write_bytes(b"SQLite format 3\0....")
    assert cli.main([*words(start), "--storage", "database"]) == 2
    assert "is SQLite, which fails" in capsys.readouterr().err
    wave_file(pathlib.Path(), channels=2)
    assert cli.main(["tune", "worker", "s"]) == 2
    assert "has changed since the study was created" in capsys.readouterr().err
    assert cli.main(["tune", "dashboard", "s", "--port", "0"]) == 2


@pytest.mark.parametrize("command", [["start", "waves.csv", "--study", "s"], ["worker", "s"], ["show", "s"]])
def test_without_optuna(command, capsys, monkeypatch):
    for name in [name for name in sys.modules if name.startswith(("lrcssm.tuning.", "optuna"))]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "optuna", None)
    assert cli.main(["tune", *command]) == 2
    sentence = 'This needs optuna, which is not installed; pip install "lrcssm[tune]" gives it.'
    assert sentence in capsys.readouterr().err


def test_dashboard(capsys, monkeypatch, instant):
    assert cli.main(words(options())) == 0
    monkeypatch.setitem(sys.modules, "optuna_dashboard", None)
    assert cli.main(["tune", "dashboard", "s"]) == 2
    assert 'pip install "lrcssm[tune]"' in capsys.readouterr().err
    served = []
    module = type(sys)("optuna_dashboard")
    module.run_server = lambda storage, host, port: served.append((storage.get_all_studies()[0].study_name, host, port))
    monkeypatch.setitem(sys.modules, "optuna_dashboard", module)
    assert cli.main(["tune", "dashboard", "s", "--port", "8081"]) == 0
    assert served == [("s", "localhost", 8081)]
    assert "http://localhost:8081/dashboard/studies/0" in capsys.readouterr().err


# From start to end


def test_a_grid_from_start_to_end(capsys):
    start = options()
    assert cli.main(words(start)) == 0
    assert "2 of 2 trials to go" in capsys.readouterr().err
    assert cli.main(["tune", "show", "s", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["states"] == {"complete": 2, "stopped early": 0, "failed": 0, "running": 0, "waiting": 0}
    values = {trial["settings"]["learning_rate"]: trial["value"] for trial in found["trials"]}
    best = max(values, key=lambda rate: values[rate])
    assert f"--learning-rate {best}" in found["command"]
    assert not list(pathlib.Path().rglob("checkpoint*"))

    # The command gives what the trial promised.
    with pytest.MonkeyPatch.context() as patch:
        trained = []
        patch.setattr(train_module, "_finish", lambda *args: trained.append(args[4]))
        assert cli.main([*shlex.split(found["command"])[1:], "--quiet"]) == 0
    assert trained[0].score == values[best] == max(-one.scores["log_loss"] for one in trained[0].history)

    capsys.readouterr()
    before = pathlib.Path("runs/tune/s.journal").read_bytes()
    assert cli.main(words(start)) == 0
    assert "0 of 2 trials to go" in capsys.readouterr().err
    assert pathlib.Path("runs/tune/s.journal").read_bytes().startswith(before)
    assert cli.main(["tune", "show", "s"]) == 0
    out = capsys.readouterr().out
    assert (
        "s: 2 trials on" in out
        and "To train the best trial:" in out
        and "2 complete." in out
        and found["command"] in out.splitlines()
    )


def test_a_search_has_its_trials_and_gives_bad_ones_up(capsys, monkeypatch):
    monkeypatch.setattr(study_module, "STARTUP", 2)
    start = options(
        space="search", vary=("learning_rate=1e-4..1e-1",), trials=9, pruner="halving",
        training=TrainingOptions(**SHORT, weight_decay=0.01),
    )  # fmt: skip
    study, material = made(start)
    work(study, material)
    found = states(study)
    assert len(found) == 9 and set(found) == {"COMPLETE", "PRUNED"} and found.count("COMPLETE") >= 2
    rates = [trial.params["learning_rate"] for trial in study.trials().values()]
    assert len(set(rates)) == 9 and min(rates) >= 1e-4 and max(rates) <= 1e-1
    best = finished_well(study.trials())[0]
    assert best.value == max(trial.value for trial in study.trials().values() if trial.state == TrialState.COMPLETE)
    assert max(best.intermediate_values) == SHORT["steps"] and max(best.intermediate_values.values()) == best.value
    longer, _ = made(dataclasses.replace(start, trials=12))
    assert states(longer) == [*found, "WAITING", "WAITING", "WAITING"]
    shorter, _ = made(dataclasses.replace(start, trials=None))
    assert len(shorter.trials()) == 12
    capsys.readouterr()
    assert cli.main(["tune", "show", "s"]) == 0
    out = capsys.readouterr().out
    assert "3 waiting" in out and "stopped early" in out


@pytest.mark.parametrize(
    ("values", "sentence", "which", "best"),
    [
        (
            (0.5, 0.5, 0.5),
            "all complete trials score 0.5, so none is better",
            "first of 3 trials with equal scores",
            [0, 1, 2],
        ),
        ((0.2, 0.5, 0.5), "the best are trials 1, 2 with 0.5", "first of 2 trials with equal scores", [1, 2]),
        ((0.2, 0.5, 0.1), "the best is trial 1 with 0.5", "best trial", [1]),
    ],
)
def test_equal_trials_are_not_called_best(values, sentence, which, best, instant, monkeypatch, capsys):
    rates = (1e-3, 1e-2, 1e-1)
    monkeypatch.setattr(Run, "score", lambda run, *_: dict(zip(rates, values, strict=True))[run.training.learning_rate])
    assert cli.main(words(options(vary=("learning_rate=1e-3,1e-2,1e-1",)))) == 0
    out, err = capsys.readouterr()
    assert sentence in err
    assert f"To train the {which}:" in out and f"--learning-rate {rates[best[0]]}" in out
    assert cli.main(["tune", "show", "s", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["best"] == best


def test_columns(here, instant, capsys):
    """Columns are named as for `lrcssm train`, are kept in the study, and are part of the command that trains the best."""
    wave_file(here, channels=2, names=("who", "when", "kind"))
    columns = ["--case", "who", "--time", "when", "--target", "kind", "--ignore", "c1"]
    assert cli.main([*words(options()), *columns]) == 0
    assert " ".join(columns) in capsys.readouterr().out
    study = again()
    assert study.plan.columns == {"case": "who", "time": "when", "target": "kind", "ignore": ["c1"]}
    data = Material.of(study.plan, None).data
    assert data.channel_names == ("c0",) and data.classes == ("fast", "slow") and len(data) == 12
    assert cli.main([*words(options()), *columns[:-1], "c0"]) == 2
    assert "There is a study 's' with other options" in capsys.readouterr().err


def test_seeds(instant, monkeypatch):
    study, material = made(options(seeds=(3, 1, 4)))
    seen = []
    monkeypatch.setattr(Run, "score", lambda run, *_: seen.append(run.training.seed) or float(run.training.seed))
    work(study, material)
    assert seen == [3, 1, 4] * 2
    assert [trial.value for trial in study.trials().values()] == [pytest.approx(8 / 3)] * 2
    split = {seed: material.parts(seed) for seed in (3, 1)}
    assert split[3] is material.parts(3)
    first = [sorted(one.tobytes() for one in split[seed][1].series) for seed in (3, 1)]
    assert first[0] != first[1]


def test_reports_are_means_over_the_seeds(monkeypatch):
    """An evaluation of the second seed reports the mean of the first seed's result and its own score."""
    start = options(space="search", vary=("learning_rate=1e-3..1e-2",), trials=1, seeds=(0, 1),
                    training=TrainingOptions(**SHORT, weight_decay=0.01))  # fmt: skip
    study, material = made(start)
    work(study, material)
    (trial,) = study.trials().values()
    folders = sorted(study.folder_of(trial).path.glob("*/history.jsonl"), key=lambda path: path.stat().st_mtime_ns)
    first, second = (
        [json.loads(line)["scores"]["log_loss"] for line in path.read_text().splitlines()] for path in folders
    )
    wanted = {10 * (i + 1): -one for i, one in enumerate(first)}
    wanted |= {60 + 10 * (i + 1): (-min(first) - one) / 2 for i, one in enumerate(second)}
    assert trial.intermediate_values == pytest.approx(wanted)
    assert trial.value == pytest.approx(-(min(first) + min(second)) / 2)


def test_what_fails_is_told_and_does_not_stop_the_rest(instant, monkeypatch, capsys):
    def score(run, material, solver, report, tick):
        if run.training.learning_rate == 1e-3:
            raise FloatingPointError("Training failed.")
        return float("nan") if run.training.learning_rate == 1e-2 else 0.5

    monkeypatch.setattr(Run, "score", score)
    study, material = made(options(vary=("learning_rate=1e-3,1e-2,1e-1",)))
    work(study, material)
    assert states(study) == ["FAIL", "FAIL", "COMPLETE"]
    capsys.readouterr()
    assert cli.main(["tune", "show", "s"]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "Trial 0 failed: Training failed." in out and "Trial 1 failed: its validation score is nan" in out


def test_timeout_begins_no_other(instant, monkeypatch):
    study, material = made(options(vary=NINE))
    clock = iter(range(100))
    monkeypatch.setattr(worker.time, "monotonic", lambda: float(next(clock)))
    work(study, material, timeout=2.5)
    assert states(study).count("WAITING") in (7, 8) and len(instant) == 9 - states(study).count("WAITING")


def test_a_worker_stays_with_a_program(instant):
    study, material = made(
        options(model=ModelOptions(**SMALL | {"hidden_dim": None}), vary=("hidden_dim=4,8", *NINE[:1]))
    )
    shift, order = Shift(study, material, None, []), study.trials()
    assert [study.settings(one)["hidden_dim"] for one in shift.in_turn(list(order.values()))] == [4, 4, 4, 8, 8, 8]
    with claim(study, order[0], None):  # another has begun with the first
        first = shift.in_turn(unfinished(study.trials()))[0]
        assert study.settings(first)["hidden_dim"] == 8
        shift.one_of(unfinished(study.trials()))
    with claim(study, order[5], None):  # also if another is at the same
        widths = [study.settings(one)["hidden_dim"] for one in shift.in_turn(unfinished(study.trials()))]
    assert widths == [8, 8, 4, 4, 4]
