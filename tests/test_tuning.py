"""Sweeps: what is tried, that each point is run once whatever happens to the workers, and what comes of it."""

import dataclasses
import itertools
import json
import os
import pathlib
import shlex
import signal
import subprocess
import sys
import threading
import time

import jax
import numpy as np
import optuna
import pytest
from optuna.trial import TrialState
from test_runs import no_cache_of_the_user, wave_file  # noqa: F401, the first is a fixture
from test_training import as_a_user_has_it, make, waves  # noqa: F401, the first is a fixture

from lrcssm import cli
from lrcssm.data import load
from lrcssm.runs import ModelOptions, TrainingOptions, train as train_module
from lrcssm.training import TrainingConfig, fit
from lrcssm.tuning import Start, claims, study as study_module, worker
from lrcssm.tuning.claims import Leases, Lost, claim
from lrcssm.tuning.plan import Material, Plan
from lrcssm.tuning.space import COMPILED_FOR, Space, make_space, program
from lrcssm.tuning.storage import FileLock, Place, open_place
from lrcssm.tuning.study import Study, finished_well, unfinished
from lrcssm.tuning.together import fit_together
from lrcssm.tuning.worker import Shift, work

SMALL = {
    "cell": "MGU",
    "mixer": "none",
    "width": 4,
    "state": 4,
    "depth": 1,
    "pool": "mean",
    "bidirectional": "no",
    "dropout": 0.0,
}
SHORT = {"steps": 60, "check_every": 10, "batch": 4, "monitor": "loss"}
NINE = ("learning_rate=1e-3,3e-3,1e-2", "clip=0.1,1,10")


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    """Studies are kept in a folder of the test."""
    monkeypatch.chdir(tmp_path)
    wave_file(tmp_path)
    return tmp_path


def options(name="s", **changes):
    """A grid over two learning rates of a tiny model."""
    fields = {"source": "waves.csv", "study": name, "space": "paper", "vary": ("learning_rate=1e-3,1e-2",)}
    fields |= {"model": ModelOptions(**SMALL), "training": TrainingOptions(**SHORT)}
    return Start(**(fields | changes))


def words(options):
    """The same as a user types it."""
    found = [options.source, "--study", options.study, "--space", options.space, "--vary", *options.vary]
    for part in (options.model, options.training):
        for name, value in dataclasses.asdict(part).items():
            if value not in (None, ()):
                found += [f"--{name.replace('_', '-')}", str(value)]
    return ["tune", "start", *found]


def made(options, place=None):
    """A study, and what a worker needs for it."""
    data = load(options.source)
    plan = Plan.of(options, data)
    place = open_place(options.study, None, make=True) if place is None else place
    return Study.make(options.study, place, plan, options.trials), Material(plan, data)


def again(name="s"):
    """The same study as another process sees it."""
    return Study.load(name, open_place(name, None, make=False))


@pytest.fixture
def instant(monkeypatch):
    """Training takes no time: the score of a run is its learning rate. Gives the list of what was run."""
    runs = []

    def run_seed(plan, material, config, training, folder, look, tick):
        runs.append((training.learning_rate, training.seed))
        tick(1)
        return training.learning_rate

    monkeypatch.setattr(worker, "run_seed", run_seed)
    monkeypatch.setattr(worker, "PAUSE", 0.01)
    return runs


def states(study):
    return [trial.state.name for trial in study.trials().values()]


# What is tried


def test_the_paper_s_grid():
    points = make_space("paper", (), ()).points()
    assert len(points) == 81 == len({tuple(sorted(point.items())) for point in points})
    for name, values in {
        "learning_rate": [1e-5, 1e-4, 1e-3], "width": [16, 64, 128], "state": [16, 64, 256], "depth": [2, 4, 6],
    }.items():  # fmt: skip
        assert sorted({point[name] for point in points}) == values
    # Equal programs stand together: there are 27, and 26 changes.
    assert sum(program(a) != program(b) for a, b in itertools.pairwise(points)) == 26


def test_options_hold_and_vary():
    space = make_space("paper", ("clip=0.1,1", "state=8,9"), ("width", "depth"))
    assert len(space.points()) == 12 and set(space.points()[0]) == {"state", "learning_rate", "clip"}
    assert {point["state"] for point in space.points()} == {8, 9}
    space = make_space("search", ("learning-rate=1e-4..1e-2", "include_time=yes,no"), ())
    assert {axis.name: axis.range for axis in space.axes}["learning_rate"] == (1e-4, 1e-2)
    assert Space.from_json(json.loads(json.dumps(space.to_json()))) == space
    for name in ("weight_decay", "clip", "ema", "learning_rate", "steps"):
        assert name not in COMPILED_FOR


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ("waves.csv", "--study"),
        ("nothing.csv --study s", "'nothing.csv': it does not exist"),
        ("waves.csv --study a/b", "A study cannot be called 'a/b'"),
        ("waves.csv --study s --space grid", "'search', 'paper'"),
        ("waves.csv --study s --seeds", "--seeds got no value"),
        ("waves.csv --study s --seeds 1 1", "give each seed once"),
        ("waves.csv --study s --trials 0", "--trials got 0"),
        ("waves.csv --study s --space paper --trials 9", "whose grid has as many points as it has"),
        ("waves.csv --study s --timeout 0", "--timeout got 0"),
        ("waves.csv --study s --vary wdith=3", "--vary got 'wdith=3'; give one of architecture, cell, width"),
        ("waves.csv --study s --vary width", "give name=value,value"),
        ("waves.csv --study s --vary width=3,x", "--vary got 'x' for width"),
        ("waves.csv --study s --vary width=3,3", "give each value once"),
        ("waves.csv --study s --vary width=3..9", "a range is for a search and for numbers with a point"),
        ("waves.csv --study s --vary clip=1..0.1", "a range goes from one positive number to a larger one"),
        ("waves.csv --study s --space paper --vary clip=0.1..1", "a range is for a search"),
        ("waves.csv --study s --vary width=3 --width 4", "but --width holds it"),
        ("waves.csv --study s --vary cell=LRC,ABC", "give one of LRC"),
        ("waves.csv --study s --preset best", "--preset got 'best'"),
        ("waves.csv --study s --split paper --width 16 --steps 0", "give a whole number of at least 1"),
        ("waves.csv --study s --storage sqlite:///s.db", "SQLite fails as soon as several workers write"),
        ("waves.csv --study s --storage .", "which is a folder"),
        ("waves.csv --study s --storage waves.csv", "waves.csv is not a journal of Optuna"),
        ("waves.csv --study s --storage nosuch://me:secret@x/y", "--storage got 'nosuch://x/y', which cannot be used"),
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
        assert "There is no study in runs/tune/none.journal; lrcssm tune start" in capsys.readouterr().err
    assert not pathlib.Path("runs").exists()
    start = options()
    assert cli.main(words(start)) == 0
    assert cli.main(["tune", "show", "other", "--storage", "runs/tune/s.journal"]) == 2
    assert "There is no study 'other' in this storage; it has s." in capsys.readouterr().err
    assert cli.main(words(dataclasses.replace(start, vary=("learning_rate=1e-3,1e-1",)))) == 2
    assert "its learning_rate is [0.001, 0.01], not [0.001, 0.1]" in capsys.readouterr().err
    (pathlib.Path("database")).write_bytes(b"SQLite format 3\0....")
    assert cli.main([*words(start), "--storage", "database"]) == 2
    assert "SQLite fails" in capsys.readouterr().err
    wave_file(pathlib.Path(), channels=2)
    assert cli.main(["tune", "worker", "s"]) == 2
    assert "is not what it was when the study was made" in capsys.readouterr().err
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
    assert found["states"] == {"complete": 2, "given up early": 0, "failed": 0, "running": 0, "waiting": 0}
    values = {trial["settings"]["learning_rate"]: trial["value"] for trial in found["trials"]}
    best = max(values, key=lambda rate: values[rate])
    assert f"--learning-rate {best}" in found["command"]
    assert not list(pathlib.Path().rglob("checkpoint*"))

    # The command gives what the trial promised.
    with pytest.MonkeyPatch.context() as patch:
        trained = []
        patch.setattr(train_module, "_finish", lambda *args: trained.append(args[3]))
        assert cli.main([*shlex.split(found["command"])[1:], "--quiet"]) == 0
    assert trained[0].score == values[best] == max(-look.scores["log_loss"] for look in trained[0].history)

    capsys.readouterr()
    before = pathlib.Path("runs/tune/s.journal").read_bytes()
    assert cli.main(words(start)) == 0
    assert "0 of 2 trials to go" in capsys.readouterr().err
    assert pathlib.Path("runs/tune/s.journal").read_bytes().startswith(before)
    assert cli.main(["tune", "show", "s"]) == 0
    out = capsys.readouterr().out
    assert "the best of 2 trials" in out and "2 complete." in out and found["command"] in out.splitlines()


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
    assert "3 waiting" in out and "given up early" in out


def test_seeds(instant, monkeypatch):
    study, material = made(options(seeds=(3, 1, 4)))
    seen = []
    monkeypatch.setattr(worker, "run_seed", lambda *args: seen.append(args[3].seed) or float(args[3].seed))
    work(study, material)
    assert seen == [3, 1, 4] * 2
    assert [trial.value for trial in study.trials().values()] == [pytest.approx(8 / 3)] * 2
    split = {seed: material.parts(seed) for seed in (3, 1)}
    assert split[3] is material.parts(3)
    first = [sorted(one.tobytes() for one in split[seed][1].series) for seed in (3, 1)]
    assert first[0] != first[1]


def test_reports_are_means_over_the_seeds(monkeypatch):
    """Of the second seed a look tells the mean of the first seed's result and its own score."""
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
    def run_seed(plan, material, config, training, folder, look, tick):
        if training.learning_rate == 1e-3:
            raise FloatingPointError("Training failed.")
        return float("nan") if training.learning_rate == 1e-2 else 0.5

    monkeypatch.setattr(worker, "run_seed", run_seed)
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
    study, material = made(options(model=ModelOptions(**SMALL | {"width": None}), vary=("width=4,8", *NINE[:1])))
    shift, order = Shift(study, material, None, []), study.trials()
    assert [study.settings(one)["width"] for one in shift.in_turn(list(order.values()))] == [4, 4, 4, 8, 8, 8]
    with claim(study, order[0], None):  # another has begun with the first
        first = shift.in_turn(unfinished(study.trials()))[0]
        assert study.settings(first)["width"] == 8
        shift.one_of(unfinished(study.trials()))
    with claim(study, order[5], None):  # also if another is at the same
        widths = [study.settings(one)["width"] for one in shift.in_turn(unfinished(study.trials()))]
    assert widths == [8, 8, 4, 4, 4]


# Races, and workers that die


def test_a_trial_is_one_worker_s(instant):
    study, _ = made(options())
    trial = study.trials()[0]
    with claim(study, trial, None) as first, claim(again(), trial, None) as second:
        assert first is not None and not first.again and second is None
        assert states(again()) == ["RUNNING", "WAITING"]


def test_a_list_of_trials_may_be_old(instant):
    """Between the list and the claim another may have begun a trial, or finished it."""
    study, material = made(options())
    old = list(study.trials().values())
    work(again(), material)
    for trial in old:
        with claim(study, trial, None) as mine:
            assert mine is None
    assert not Shift(study, material, None, []).one_of(old)
    assert instant == [(1e-3, 0), (1e-2, 0)]


def test_a_worker_dies_after_its_claim(instant):
    """Before it has done anything, or after: another goes on, as soon as the lock is free."""
    study, material = made(options())
    with claim(study, study.trials()[0], None):
        pass  # and it is gone, without a word
    assert states(study) == ["RUNNING", "WAITING"]
    with claim(again(), study.trials()[0], None) as mine:
        assert mine is not None and mine.again
    work(study, material)
    assert states(study) == ["COMPLETE", "COMPLETE"]


def test_two_find_the_same_dead_trial(instant):
    study, _ = made(options())
    with claim(study, study.trials()[0], None):
        pass
    found = [threading.Event(), threading.Event()]
    taken = []

    def take(own):
        other = again()
        trial = other.trials()[0]
        found[own].set()
        found[1 - own].wait()
        with claim(other, trial, None) as mine:
            taken.append(mine is not None)
            found[own].clear()
            while found[1 - own].is_set():  # nobody lets go before both have tried
                time.sleep(0.001)

    threads = [threading.Thread(target=take, args=(own,)) for own in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(taken) == [False, True]


def test_a_worker_dies_with_half_of_the_settings(instant):
    """What a sampler has chosen stays."""
    start = options(space="search", trials=1, vary=("learning_rate=1e-4..1e-1", "weight_decay=1e-3..1e-1"))
    study, material = made(start)
    with claim(study, study.trials()[0], None):
        study.optuna.sampler = optuna.samplers.RandomSampler(seed=7)
        rate = optuna.Trial(study.optuna, study.id_of(study.trials()[0])).suggest_float(
            "learning_rate", 1e-4, 1e-1, log=True
        )
    work(again(), material)
    (trial,) = study.trials().values()
    assert trial.params["learning_rate"] == rate and 1e-3 <= trial.params["weight_decay"] <= 1e-1
    assert instant == [(rate, 0)]


@pytest.mark.slow
def test_a_worker_dies_before_it_tells_its_result(monkeypatch):
    study, material = made(options(vary=("learning_rate=1e-2",)))
    with pytest.MonkeyPatch.context() as patch, pytest.raises(SystemExit):
        patch.setattr(Shift, "_told", lambda self, running, **outcome: sys.exit())
        work(study, material)
    assert states(study) == ["RUNNING"]
    (result,) = study.folder.glob("*/*/result.json")
    monkeypatch.setattr(worker, "fit", lambda *args, **more: pytest.fail("a finished run was run again"))
    work(again(), material)
    (trial,) = study.trials().values()
    assert trial.value == json.loads(result.read_text())["score"]


def test_an_interrupted_trial_goes_on_from_its_checkpoint(monkeypatch):
    """And ends as one that was not; what it had told of its looks is not told again."""
    start = options("whole", vary=("learning_rate=1e-2",), pruner="median")
    whole, material = made(start)
    work(whole, material)
    cut, _ = made(dataclasses.replace(start, study="cut"))

    def stop(step):
        if step == 35:
            raise SystemExit

    with pytest.MonkeyPatch.context() as patch, pytest.raises(SystemExit):
        patch.setattr(worker, "fit", lambda *args, tick, **more: fit(*args, tick=stop, **more))
        work(cut, material)
    assert list(cut.folder.rglob("checkpoint*")) and sorted(cut.trials()[0].intermediate_values) == [10, 20, 30]
    steps = []
    monkeypatch.setattr(worker, "fit", lambda *args, tick, **more: fit(*args, tick=steps.append, **more))
    work(again("cut"), material)
    assert steps[0] in (11, 21, 31) and steps[-1] == SHORT["steps"]
    assert cut.trials()[0].value == whole.trials()[0].value
    assert cut.trials()[0].intermediate_values == whole.trials()[0].intermediate_values


def test_ctrl_c(instant, monkeypatch):
    study, material = made(options())

    def run_seed(plan, material, config, training, folder, look, tick):
        shift.interrupted.append(True)
        tick(1)

    monkeypatch.setattr(worker, "run_seed", run_seed)
    shift = Shift(study, material, None, [])
    with pytest.raises(KeyboardInterrupt, match="interrupted in trial 0; lrcssm tune worker s goes on with it"):
        shift.one_of(unfinished(study.trials()))
    assert study.trials()[0].user_attrs["deaths"] == []


def test_a_trial_that_kills_its_workers_is_given_up(instant):
    study, material = made(options())
    for deaths in range(worker.LIVES):
        assert states(study)[0] == ("RUNNING" if deaths else "WAITING")
        with claim(study, study.trials()[0], None) as mine:
            assert mine is not None
            if mine.again:
                assert not Shift(study, material, None, [])._deadly(mine.trial)
    work(study, material)
    assert states(study) == ["FAIL", "COMPLETE"] and "workers in a row died" in study.trials()[0].user_attrs["error"]


def test_one_that_gets_further_is_not(instant):
    study, material = made(options())
    for deaths in range(2 * worker.LIVES):
        with claim(study, study.trials()[0], None) as mine:
            assert mine is not None
            if mine.again:
                assert not Shift(study, material, None, [])._deadly(mine.trial)
            study.place.storage.set_trial_intermediate_value(study.id_of(mine.trial), deaths + 1, 0.5)
    work(study, material)
    assert states(study) == ["COMPLETE", "COMPLETE"]


def test_show_knows_who_died(instant, capsys):
    study, _ = made(options())
    with claim(study, study.trials()[0], None):
        assert cli.main(["tune", "show", "s", "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["left behind"] == 0
    assert cli.main(["tune", "show", "s"]) == 0
    assert "1 of those that run lost their worker" in capsys.readouterr().out


def test_whoever_makes_a_study_dies(instant):
    """After the name, before the plan: only the same command can go on. After some of its points: anyone can."""
    place = open_place("s", None, make=True)
    optuna.create_study(study_name="s", storage=place.storage, direction="maximize")
    with pytest.raises(ValueError, match="has no plan"):
        again()
    start = options(vary=NINE)
    study, material = made(start)
    points = study.plan.space.points()

    other = open_place("t", None, make=True)
    found = optuna.create_study(study_name="t", storage=other.storage, direction="maximize")
    found.set_user_attr("plan", study.plan.to_json())
    for number in (0, 1, 5):
        found.enqueue_trial(points[number], user_attrs={"point": number})
    half = Study.load("t", other)
    half.complete()
    half.complete()
    assert sorted(half.trials()) == list(range(9)) and len(found.get_trials()) == 9
    assert [half.settings(half.trials()[number]) for number in range(9)] == points
    work(half, material)
    assert states(half) == ["COMPLETE"] * 9 and len(instant) == 9


def test_two_make_a_study_at_the_same_time(instant):
    """On two machines: neither sees the other's lock, and each point is there twice. One of each is run."""
    study, material = made(options(vary=NINE))
    for number, settings in enumerate(study.points()):
        study.optuna.enqueue_trial(settings, user_attrs={"point": number})
    assert len(study.optuna.get_trials()) == 18 and len(study.trials()) == 9
    work(study, material)
    assert states(study) == ["COMPLETE"] * 9 and len(instant) == 9
    assert [trial.number for trial in study.trials().values()] == list(range(9))


def test_on_one_machine_only_one_completes_a_study(instant):
    study, _ = made(options(vary=NINE))
    study.place.storage.delete_study(study.number)
    found = optuna.create_study(study_name="s", storage=study.place.storage, direction="maximize")
    found.set_user_attr("plan", study.plan.to_json())
    threads = [threading.Thread(target=lambda: again().complete()) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found.get_trials()) == 9


def test_a_study_of_someone_else(instant):
    place = open_place("s", None, make=True)
    optuna.create_study(study_name="s", storage=place.storage, direction="maximize").enqueue_trial({"x": 1})
    with pytest.raises(ValueError, match="was not made by lrcssm"):
        made(options(), place)


# The journal


def test_a_writer_that_is_killed_leaves_no_lock_and_no_half_line(instant):
    study, material = made(options(vary=NINE))
    path = pathlib.Path("runs/tune/s.journal")
    before = path.read_bytes()
    code = f"""
import os, pathlib, sys
sys.path[:0] = {sys.path!r}
from lrcssm.tuning.storage import FileLock
path = pathlib.Path({str(path)!r})
FileLock(path).acquire()
with path.open("ab") as file:
    file.write(b'{{"op_code":6,"worker_id":"x","trial_id":3,"sta')
print("locked", flush=True)
os.kill(os.getpid(), 9)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == -signal.SIGKILL and done.stdout == "locked\n", done.stderr
    assert not path.read_bytes().endswith(b"\n")
    begin = time.perf_counter()
    work(again(), material)
    assert time.perf_counter() - begin < 10
    assert states(study) == ["COMPLETE"] * 9
    assert path.read_bytes().startswith(before) and b'"worker_id":"x"' not in path.read_bytes()
    for line in path.read_text().splitlines():
        json.loads(line)


@pytest.mark.parametrize("text", [b"", b"{", b"{}\n", b"{}\n{", b"{}\n" + b"x" * 10_000, b"x" * 10_000])
def test_mending(text, here):
    path = here / "journal"
    path.write_bytes(text)
    lock = FileLock(path)
    lock.acquire()
    lock.release()
    assert path.read_bytes() == (b"{}\n" if b"\n" in text else b"")


def test_a_journal_is_written_by_one_at_a_time(here):
    path = here / "journal"
    path.touch()
    lock, other = FileLock(path), FileLock(path)
    lock.acquire()
    taken = threading.Event()
    thread = threading.Thread(target=lambda: (other.acquire(), taken.set()))
    thread.start()
    assert not taken.wait(0.1)
    lock.release()
    thread.join(10)
    assert taken.is_set()
    other.release()


# Leases


@pytest.fixture
def shared(here):
    """A function that opens one storage anew, for a study that workers on several machines share."""
    numbers = itertools.count()

    def place():
        storage = open_place("shared", "shared.journal", make=True).storage
        # Each has its own runs, as if it were on another machine, and sees no lock of the other.
        return Place(storage, here / f"machine-{next(numbers)}", local=False)

    return place


def pair(shared, interval=0.02, grace=60.0, settle=0.0, **changes):
    """A study as two machines see it, and the leases of a worker on each."""
    study, material = made(options(**changes), shared())
    other = Study.load("s", shared())
    leases = [Leases(one, interval=interval, grace=grace, settle=settle) for one in (study, other)]
    return study, other, *leases, material


def until(condition, seconds=10.0):
    end = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < end
        time.sleep(0.01)
    return found


def dead(study, number=0):
    """Lets a trial look as if a worker had died right after its claim; gives what the storage knows it by."""
    trial_id = study.id_of(study.trials()[number])
    study.place.storage.set_trial_state_values(trial_id, TrialState.RUNNING)
    return trial_id


def test_a_lease_is_over_when_it_has_stood_still(shared, instant, monkeypatch):
    """By the clock of whoever watches, however long that was away."""
    study, _, ours, theirs, _ = pair(shared)
    trial_id, now = dead(study), 0.0
    monkeypatch.setattr(claims.time, "monotonic", lambda: now)
    assert not theirs.over(trial_id)
    for beat in range(3):
        ours.write(trial_id, beat)
        now += 1000
        assert not theirs.over(trial_id)
    now += 59
    assert not theirs.over(trial_id)
    now += 2
    assert theirs.over(trial_id)


def test_a_worker_keeps_its_lease(shared, instant):
    study, other, ours, theirs, _ = pair(shared)
    with claim(study, study.trials()[0], ours) as mine:
        assert mine is not None
        until(lambda: theirs.read(study.id_of(mine.trial))["beat"] > 2)
        assert theirs.read(study.id_of(mine.trial))["owner"] == ours.me
        with claim(other, other.trials()[0], theirs) as second:
            assert second is None
        mine.check()


def test_a_lease_that_stands_still_is_taken(shared, instant):
    """Also that of a worker that died between its claim and its first sign of life."""
    study, other, ours, theirs, material = pair(shared, grace=0.3, vary=("learning_rate=1e-3,1e-2,1e-1",))
    ours.write(dead(study, 0), 5)
    dead(study, 1)
    for trial in list(other.trials().values())[:2]:
        with claim(other, trial, theirs) as mine:
            assert mine is None  # it has only just been seen
    work(other, material, leases=theirs)
    assert states(study) == ["COMPLETE"] * 3 and len(instant) == 3


def test_of_two_that_take_a_lease_the_last_has_it(shared, instant, monkeypatch):
    """Both saw that it was over. While the one waits for others, the other puts its name there."""
    study, _, ours, theirs, _ = pair(shared, grace=-1.0)
    trial_id = dead(study)
    assert ours.over(trial_id) and theirs.over(trial_id)
    monkeypatch.setattr(claims.time, "sleep", lambda seconds: theirs.write(trial_id, 0))
    assert not ours.taken(trial_id)
    assert ours.read(trial_id)["owner"] == theirs.me


def test_one_that_comes_too_late_does_not_take_it(shared, instant):
    """It saw a lease that was over, and was slow; by now another has it."""
    study, _, ours, theirs, _ = pair(shared, grace=-1.0)
    trial_id = dead(study)
    assert ours.over(trial_id) and theirs.over(trial_id)
    assert ours.taken(trial_id) and not theirs.taken(trial_id)
    assert ours.read(trial_id)["owner"] == ours.me


def test_a_worker_that_was_out_of_reach_stops(shared, instant):
    study, _, ours, theirs, _ = pair(shared)
    with claim(study, study.trials()[0], ours) as mine:
        assert mine is not None
        theirs.write(study.id_of(mine.trial), 0)  # another has taken it meanwhile

        def stopped():
            try:
                mine.check()
            except Lost:
                return True
            return False

        until(stopped)


def test_a_worker_that_lost_its_trial_leaves_it(shared, instant, monkeypatch):
    """At its next step, and without a word to the study."""
    study, _, ours, theirs, material = pair(shared)

    def run_seed(plan, material, config, training, folder, look, tick):
        theirs.write(study.id_of(study.trials()[0]), 0)
        until(lambda: tick(1))

    monkeypatch.setattr(worker, "run_seed", run_seed)
    said = []
    monkeypatch.setattr(worker, "_say", said.append)
    assert Shift(study, material, ours, []).one_of(unfinished(study.trials()))
    assert "another worker has taken it up" in said[0]
    assert states(study)[0] == "RUNNING" and not theirs.over(study.id_of(study.trials()[0]))


def test_a_storage_that_is_out_of_reach_for_long(shared, instant, monkeypatch):
    study, _, ours, _, _ = pair(shared, grace=1.0)
    calls = []
    with claim(study, study.trials()[0], ours) as mine:
        assert mine is not None

        def fail(trial_id):
            calls.append(trial_id)
            raise OSError("no route to host")

        monkeypatch.setattr(study.place.storage, "get_trial", fail)
        until(lambda: mine._lost.is_set())
    assert len(calls) > 1


def test_two_finish_the_same_trial(shared, instant):
    """The first counts, and the second does not mind."""
    study, other, _, _, material = pair(shared)
    trial = study.trials()[0]
    study.place.storage.set_trial_state_values(study.id_of(trial), TrialState.RUNNING)
    first, second = (optuna.Trial(one.optuna, one.id_of(trial)) for one in (study, other))
    Shift(study, material, None, [])._told(first, values=0.5)
    Shift(other, material, None, [])._told(second, values=0.7)
    assert Shift(other, material, None, [])._failed(trial, "late") == "failed: late"
    assert study.trials()[0].value == 0.5 and states(study) == ["COMPLETE", "WAITING"]


def test_a_database(here, instant):
    """SQLite, which is good enough for one worker."""
    storage = optuna.storages.RDBStorage(f"sqlite:///{here}/study.db")
    try:
        study, material = made(options(vary=NINE), Place(storage, here, local=False))
        leases = Leases(study, grace=0.3, settle=0.0)
        dead(study)
        work(study, material, leases=leases)
        assert states(study) == ["COMPLETE"] * 9 and len(instant) == 9
    finally:
        storage.remove_session()
        storage.engine.dispose()


def test_machines_share_a_study(shared, instant):
    """Two workers at once, through a database, and no lock between them."""
    study, other, ours, theirs, material = pair(shared, vary=NINE)
    threads = [
        threading.Thread(target=work, args=(one, material), kwargs={"leases": leases})
        for one, leases in ((study, ours), (other, theirs))
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert states(study) == ["COMPLETE"] * 9 and len(instant) == 9


# Processes


def spawn(start, *, worker=False):
    """A worker in a process of its own."""
    command = ["tune", "worker", start.study] if worker else words(start)
    return subprocess.Popen(
        [sys.executable, "-m", "lrcssm", *command], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
        start_new_session=True,
    )  # fmt: skip


def test_nine_points_two_workers_one_killed(monkeypatch):
    """A process stops in the middle of a trial, and nobody takes that from it; it is killed, and the other goes on."""
    monkeypatch.setattr(worker, "PAUSE", 0.05)
    start = options(vary=NINE)
    process = spawn(start)
    until(lambda: list(pathlib.Path("runs").rglob("checkpoint.lrcssm")), 120)
    process.send_signal(signal.SIGSTOP)
    study = again()
    (held,) = [trial.number for trial in study.trials().values() if trial.state == TrialState.RUNNING]
    done = sum(trial.state == TrialState.COMPLETE for trial in study.trials().values())
    said = []

    def say(text):
        said.append(text)
        if len([one for one in said if one.startswith("trial")]) == 8 - done:
            assert states(study).count("COMPLETE") == 8 and states(study)[held] == "RUNNING"
            process.kill()
            process.wait()

    monkeypatch.setattr(worker, "_say", say)
    work(study, Material.of(study.plan, None))
    process.communicate()
    assert states(study) == ["COMPLETE"] * 9 and len(study.optuna.get_trials()) == 9
    assert study.trials()[held].user_attrs["deaths"]
    # The value of the interrupted trial is that of one that was not.
    alike, material = made(dataclasses.replace(start, study="alike"))
    shift = Shift(alike, material, None, [])
    shift.one_of([alike.trials()[held]])
    assert alike.trials()[held].value == study.trials()[held].value


@pytest.fixture(scope="module")
def values():
    """Of the 81 points, by whoever ran them first."""
    return {}


EIGHTY_ONE = (*NINE, "ema=0,0.9,0.99", "weight_decay=0,0.01,0.1")


@pytest.mark.slow
@pytest.mark.parametrize("kill", [None, 0, 1, 2, 3, 4])
def test_eighty_one_points_three_workers(kill, values):
    """All are finished, none twice, with the same values, whether one of the workers is killed on the way or not."""
    start = options(vary=EIGHTY_ONE, training=TrainingOptions(**SHORT | {"steps": 200}))
    processes = [spawn(start)]
    until(lambda: pathlib.Path("runs/tune/s.journal").exists(), 120)
    until(lambda: _planned("s"), 120)
    study = again()
    until(lambda: len(study.trials()) == 81, 120)
    processes += [spawn(start, worker=True) for _ in range(2)]
    if kill is not None:
        rng = np.random.default_rng(kill)
        victim, when = processes[rng.integers(3)], rng.integers(5, 60)
        until(lambda: states(study).count("COMPLETE") >= when, 600)
        until(lambda: _killed_at_work(victim, processes, study), 60)
    for process in processes:
        err = process.communicate(timeout=600)[1]
        assert process.returncode == (-signal.SIGKILL if kill is not None and process is victim else 0), err
    assert states(study) == ["COMPLETE"] * 81 and len(study.optuna.get_trials()) == 81
    settings = [study.settings(trial) for trial in study.trials().values()]
    assert settings == make_space("paper", EIGHTY_ONE, tuple(SMALL)).points()
    assert len(list(study.folder.rglob("result.json"))) == 81
    assert sum("deaths" in trial.user_attrs for trial in study.trials().values()) == (kill is not None)
    found = {number: trial.value for number, trial in study.trials().items()}
    assert values.setdefault("first", found) == found


def _killed_at_work(victim, processes, study):
    """Kills one of some processes if all of them have a trial."""
    for process in processes:
        process.send_signal(signal.SIGSTOP)
    if found := states(study).count("RUNNING") == len(processes):
        victim.kill()
    for process in processes:
        process.send_signal(signal.SIGCONT)
    return found


def _planned(name):
    try:
        return again(name)
    except ValueError:
        return None


# Side by side


SIMPLE = {"cell": "MGU", "cell_options": {}, "encoder": "linear", "mixer": "none", "dropout": 0.2, "pool": "mean"}
SHARED = {"steps": 12, "batch": 8, "check_every": 4}


@pytest.fixture
def parts():
    """Cases for training and validation, and all numbers in double precision."""
    with jax.enable_x64(True):
        yield [
            dataclasses.replace(part, series=tuple(one.astype(np.float64) for one in part.series))
            for part in (waves(24, lengths=(20,)), waves(12, 1, lengths=(20,)))
        ]


@pytest.mark.slow
def test_together_is_as_alone(parts):
    trainings = [
        TrainingConfig(**SHARED, learning_rate=rate, seed=seed, ema=ema, class_weights=kind)
        for rate, seed, ema, kind in ((1e-3, 0, 0.9, None), (1e-2, 0, 0.0, None), (1e-2, 5, 0.9, "balanced"))
    ]
    model = make(**SIMPLE)
    found = fit_together([model] * 3, *parts, trainings)
    for training, together in zip(trainings, found, strict=True):
        lone = fit(model, *parts, training)
        assert not isinstance(together, FloatingPointError)
        assert (together.step, together.score) == (lone.step, lone.score)
        for a, b in zip(together.history, lone.history, strict=True):
            assert a.loss == pytest.approx(b.loss, rel=1e-9) and a.scores == pytest.approx(b.scores, rel=1e-9)
        for a, b in zip(jax.tree.leaves(together.model), jax.tree.leaves(lone.model), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-8, atol=1e-10)
    assert len({one.history[-1].loss for one in found}) == 3


def test_together_one_fails_and_one_stops(parts):
    trainings = [
        TrainingConfig(**SHARED, learning_rate=1e300),
        TrainingConfig(**SHARED, learning_rate=1e-9, patience=1),
        TrainingConfig(**SHARED, learning_rate=1e-2),
    ]
    failed, stopped, last = fit_together([make(**SIMPLE)] * 3, *parts, trainings)
    assert isinstance(failed, FloatingPointError)
    assert not isinstance(stopped, FloatingPointError) and len(stopped.history) == 2
    assert not isinstance(last, FloatingPointError) and len(last.history) == 3


def test_together_mistakes(parts):
    model, train, training = make(**SIMPLE), parts[0], TrainingConfig(steps=2)
    with pytest.raises(ValueError, match="2 models and 1 configs"):
        fit_together([model] * 2, train, None, [training])
    with pytest.raises(ValueError, match="different configurations"):
        fit_together([model, make(**SIMPLE | {"dropout": 0.1})], train, None, [training] * 2)
    with pytest.raises(ValueError, match="steps=\\[2, 3\\]"):
        fit_together([model] * 2, train, None, [training, TrainingConfig(steps=3)])
    with pytest.raises(ValueError, match="different lengths"):
        fit_together([model], waves(20, lengths=(10, 48)), None, [training])


@pytest.mark.slow
def test_together_is_faster_for_a_small_model():
    plain = {
        name: value for name, value in os.environ.items() if name != "XLA_FLAGS"
    }  # those of tests optimise nothing
    command = [sys.executable, "-m", "lrcssm", "benchmark", "together"]
    words = [*command, "--sizes", "digits-small", "--rounds", "5", "--json", "-"]
    found = json.loads(subprocess.run(words, env=plain, capture_output=True, text=True, check=True).stdout)
    assert found["rows"][0]["ratio"] < 0.8
