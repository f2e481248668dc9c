"""What every test of sweeps runs in: a folder of its own, and numbers as a user has them."""

import itertools

import pytest
from test_runs import no_cache_of_the_user, wave_file  # noqa: F401, the first is a fixture
from test_training import as_a_user_has_it  # noqa: F401, a fixture

from lrcssm.tuning import worker
from lrcssm.tuning.run import Run
from lrcssm.tuning.storage import Place, open_place


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    """Studies are kept in a folder of the test."""
    monkeypatch.chdir(tmp_path)
    wave_file(tmp_path)
    return tmp_path


@pytest.fixture
def instant(monkeypatch):
    """Training takes no time: the score of a run is its learning rate. Gives the list of what was run."""
    runs = []

    def score(run, material, solver, look, tick):
        runs.append((run.training.learning_rate, run.training.seed))
        tick(1)
        return run.training.learning_rate

    monkeypatch.setattr(Run, "score", score)
    monkeypatch.setattr(worker, "PAUSE", 0.01)
    return runs


@pytest.fixture
def shared(here):
    """A function that opens one storage anew, for a study that workers on several machines share."""
    numbers = itertools.count()

    def place():
        storage = open_place("shared", "shared.journal", make=True).storage
        # Each has its own runs, as if it were on another machine, and sees no lock of the other.
        return Place(storage, here / f"machine-{next(numbers)}", local=False)

    return place
