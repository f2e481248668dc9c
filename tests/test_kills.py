"""kill -9 at a random moment of `lrcssm train`: the resumed run ends bit-identical to one that was never killed."""

import random
import subprocess
import sys
import time

import pytest

COMMAND = [
    sys.executable, "-m", "lrcssm", "train", "digits", "--method", "gradient", "--steps", "300", "--hidden-dim", "8", "--state-dim", "8",
    "--num-blocks", "1", "--patch", "8", "--check-every", "10", "--quiet", "--out", "run",
]  # fmt: skip
SAME = ("model.lrcssm", "predictions.csv", "scores.json")


def train(folder, *more):
    """A run in the folder `run` of some folder: a model file holds the command, and thereby the name."""
    subprocess.run([*COMMAND, *more], check=True, stdout=subprocess.DEVNULL, cwd=folder)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The folder of an uninterrupted run, and its duration with all programs compiled."""
    first, folder = tmp_path_factory.mktemp("first"), tmp_path_factory.mktemp("whole")
    train(first)
    began = time.perf_counter()
    train(folder)
    return folder / "run", time.perf_counter() - began


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20))
def test_a_killed_run_ends_the_same(seed, whole, tmp_path):
    good, seconds = whole
    rng, out, kills = random.Random(seed), tmp_path / "run", 0
    while kills < 1 + seed % 3:  # one to three kills of the same run
        process = subprocess.Popen([*COMMAND, "--resume"], stdout=subprocess.DEVNULL, cwd=tmp_path)
        try:
            assert process.wait(rng.uniform(0.02, 0.95) * seconds) == 0
            break  # resumed runs are shorter
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            kills += 1
    train(tmp_path, "--resume")
    assert kills
    for name in SAME:
        assert (out / name).read_bytes() == (good / name).read_bytes(), name
    assert {one.name for one in out.iterdir()} <= {one.name for one in good.iterdir()}
