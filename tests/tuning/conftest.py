"""Fixtures of the tuning tests: a folder for each test, and single precision."""

import itertools

import pytest
from studies import wave_file

from lrcssm.tuning import worker
from lrcssm.tuning.run import Run
from lrcssm.tuning.storage import Place, open_place


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch, defaults):
    """A folder of the test, with data, in which studies are kept."""
    monkeypatch.chdir(tmp_path)
    wave_file(tmp_path)
    return tmp_path


@pytest.fixture
def instant(monkeypatch):
    """Training takes no time: the score of a run is its learning rate. Gives the list of runs."""
    runs = []

    def score(run, material, solver, report, tick):
        runs.append((run.training.learning_rate, run.training.seed))
        tick(1)
        return run.training.learning_rate

    monkeypatch.setattr(Run, "score", score)
    monkeypatch.setattr(worker, "PAUSE", 0.01)
    return runs


@pytest.fixture
def shared(here):
    """A function that opens a storage again, for a study that workers on several machines share."""
    numbers = itertools.count()

    def place():
        storage = open_place("shared", "shared.journal", make=True).storage
        # Each has its own runs, as if it were on another machine, and sees no lock of the other.
        return Place(storage, here / f"machine-{next(numbers)}", local=False)

    return place
