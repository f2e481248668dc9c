"""Workers in separate processes, some of which are killed."""

import dataclasses
import pathlib
import signal
import subprocess
import sys

import numpy as np
import pytest
from optuna.trial import TrialState
from studies import NINE, SHORT, SMALL, again, made, options, states, until, words

from lrcssm.cli.options import TrainingOptions
from lrcssm.tuning import worker
from lrcssm.tuning.plan import Material
from lrcssm.tuning.space import make_space
from lrcssm.tuning.worker import Shift, work


def spawn(start, *, worker=False):
    """A worker in a separate process."""
    command = ["tune", "worker", start.study] if worker else words(start)
    return subprocess.Popen(
        [sys.executable, "-m", "lrcssm", *command], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
        start_new_session=True,
    )  # fmt: skip


def test_nine_points_two_workers_one_killed(monkeypatch):
    """A suspended process keeps its trial; after it is killed, the other worker continues."""
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
    """Values of the 81 points."""
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
