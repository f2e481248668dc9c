"""kill -9 at a random moment of `lrcssm train`: the resumed run ends bit-identical to one that was never killed."""

import random
import subprocess
import sys
import time

import pytest

COMMAND = [
    sys.executable, "-m", "lrcssm", "train", "digits", "--method", "gradient", "--steps", "300", "--hidden-dim", "8", "--state-dim", "8",
    "--num-blocks", "1", "--patch", "8", "--check-every", "10", "--quiet",
]  # fmt: skip
SAME = ("model.lrcssm", "predictions.csv", "scores.json")


def train(out, *more):
    subprocess.run([*COMMAND, "--out", out, *more], check=True, stdout=subprocess.DEVNULL)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The folder of a run that nothing happened to, and the seconds that it took with all programs compiled."""
    folder = tmp_path_factory.mktemp("kills")
    train(folder / "first")
    began = time.perf_counter()
    train(folder / "whole")
    return folder / "whole", time.perf_counter() - began


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20))
def test_a_killed_run_ends_the_same(seed, whole, tmp_path):
    good, seconds = whole
    rng, out, kills = random.Random(seed), tmp_path / "run", 0
    while kills < 1 + seed % 3:  # one to three kills of the same run
        process = subprocess.Popen([*COMMAND, "--out", out, "--resume"], stdout=subprocess.DEVNULL)
        try:
            assert process.wait(rng.uniform(0.02, 0.95) * seconds) == 0
            break  # resumed runs are shorter
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            kills += 1
    train(out, "--resume")
    assert kills
    for name in SAME:
        assert (out / name).read_bytes() == (good / name).read_bytes(), name
    assert {one.name for one in out.iterdir()} <= {one.name for one in good.iterdir()}
