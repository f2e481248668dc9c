"""An interrupted run gives the result of an uninterrupted one, bit for bit, even with damaged files."""

import dataclasses
import random

import jax
import numpy as np
import pytest
from test_training import as_a_user_has_it, make, waves as make_waves  # noqa: F401, the first is a fixture

from lrcssm import Auto
from lrcssm.files import read_arrays, write_arrays
from lrcssm.training import CheckpointError, TrainingConfig, checkpoint, fit
from lrcssm.training.checkpoint import Checkpoint, identity
from lrcssm.training.loop import Progress
from lrcssm.training.step import TrainState

CONFIG = TrainingConfig(steps=12, batch=8, check_every=3, learning_rate=1e-2)


def waves(seed=0):
    return make_waves(seed=seed, lengths=[30])


def model():
    return make(dropout=0.2)


def bits(fitted):
    history = [(epoch.step, epoch.loss, epoch.scores, epoch.iterations) for epoch in fitted.history]
    return [np.asarray(leaf).tobytes() for leaf in jax.tree.leaves(fitted.model)], fitted.score, fitted.step, history


def run(path, resume=True, stop_at=None, config=CONFIG):
    """A run that may be interrupted after some evaluation."""

    def report(epoch):
        if epoch.step == stop_at:
            raise KeyboardInterrupt

    return fit(model(), waves(), waves(seed=1), config, report=report, checkpoint=path, resume=resume)


@pytest.fixture(scope="module")
def whole():
    with jax.enable_x64(False), jax.numpy_dtype_promotion("standard"):
        return fit(model(), waves(), waves(seed=1), CONFIG)


@pytest.fixture(autouse=True)
def written_at_each_evaluation(monkeypatch):
    monkeypatch.setattr(checkpoint, "LEAST_SECONDS", 0.0)


def test_resumed_runs_end_the_same(tmp_path, whole):
    path = tmp_path / "checkpoint"
    for stop in (3, 6, 12):
        with pytest.raises(KeyboardInterrupt):
            run(path, stop_at=stop)
    assert bits(run(path)) == bits(whole)
    assert bits(run(path)) == bits(whole)  # nothing is left to do
    assert sorted(one.name for one in tmp_path.iterdir()) == ["checkpoint", "checkpoint.previous"]


@pytest.mark.parametrize("how", ["interrupted", "killed long after the last evaluation"])
def test_between_two_evaluations(tmp_path, whole, monkeypatch, how):
    """Only the steps after the last checkpoint, written on Ctrl-C or by the clock, are repeated."""
    path, steps = tmp_path / "checkpoint", []

    def tick(step):
        steps.append(step)
        if step in (2, 8) and steps.count(step) == 1:
            raise KeyboardInterrupt if how == "interrupted" else MemoryError

    if how != "interrupted":
        monkeypatch.setattr(checkpoint, "MOST_SECONDS", -1.0)
    for _ in range(2):
        with pytest.raises((KeyboardInterrupt, MemoryError)):
            fit(model(), waves(), waves(seed=1), CONFIG, tick=tick, checkpoint=path, resume=True)
    fitted = fit(model(), waves(), waves(seed=1), CONFIG, tick=tick, checkpoint=path, resume=True)
    assert bits(fitted) == bits(whole)
    again = [2, 8] if how != "interrupted" else []
    assert steps == sorted([*range(1, 13), *again])


def test_a_damaged_checkpoint_does_not_push_out_the_good_one(tmp_path, whole):
    path = tmp_path / "checkpoint"
    with pytest.raises(KeyboardInterrupt):
        run(path, stop_at=9)
    path.write_bytes(path.read_bytes()[:-7])
    good = (tmp_path / "checkpoint.previous").read_bytes()
    with pytest.warns(UserWarning, match="The checkpoint before it"), pytest.raises(KeyboardInterrupt):
        run(path, stop_at=9)  # which is written in the place of the damaged one
    assert (tmp_path / "checkpoint.previous").read_bytes() == good
    assert bits(run(path)) == bits(whole)


def test_without_resume_a_run_starts_anew(tmp_path, whole):
    path = tmp_path / "checkpoint"
    with pytest.raises(KeyboardInterrupt):
        run(path, stop_at=6)
    assert bits(run(path, resume=False)) == bits(whole)


def test_a_damaged_checkpoint_is_replaced_by_the_one_before(tmp_path, whole):
    path = tmp_path / "checkpoint"
    with pytest.raises(KeyboardInterrupt):
        run(path, stop_at=9)
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.warns(UserWarning, match=r"cut off.* is used instead"):
        found = run(path)
    assert bits(found) == bits(whole)


def test_nothing_to_go_on_from(tmp_path):
    path = tmp_path / "checkpoint"
    path.write_bytes(b"not a checkpoint")
    with pytest.raises(CheckpointError, match=r"not a file of lrcssm.* start again without resuming"):
        run(path)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"config": dataclasses.replace(CONFIG, steps=11)}, "training is steps=12, not 11"),
        ({"model": "other"}, "model is hidden_dim=8, not 4"),
        ({"data": "other"}, "training data"),
    ],
)
def test_a_foreign_checkpoint_is_refused(tmp_path, change, says):
    path = tmp_path / "checkpoint"
    with pytest.raises(KeyboardInterrupt):
        run(path, stop_at=6)
    with pytest.raises(CheckpointError, match=says):
        fit(
            make(hidden_dim=4, state_dim=8, dropout=0.2) if "model" in change else model(),
            waves(seed=5) if "data" in change else waves(),
            waves(seed=1),
            change.get("config", CONFIG),
            checkpoint=path,
            resume=True,
        )


def test_a_checkpoint_from_before_an_option_goes_on(tmp_path, whole):
    path = tmp_path / "checkpoint"
    with pytest.raises(KeyboardInterrupt):
        run(path, stop_at=6)
    header, arrays = read_arrays(path, kind="checkpoint")
    del header["run"]["model"]["matmul"]
    for name in ("truncate", "chunk", "memory"):
        del header["run"]["training"][name]
    write_arrays(path, {name: header[name] for name in ("kind", "run", "facts")}, arrays)
    assert bits(run(path)) == bits(whole)


def test_300_damaged_checkpoints(tmp_path):
    """Each is either rejected with a message or read completely."""
    path = tmp_path / "checkpoint"
    start = model()
    empty = Progress(TrainState.start(start, CONFIG.knobs()), start, 0.5)
    store = Checkpoint(path, identity(start, waves(), None, CONFIG, Auto()))
    store.write(empty, final=True)
    good, rng, refused = path.read_bytes(), random.Random(0), 0
    for i in range(300):
        bad = bytearray(good)
        match i % 3:
            case 0:
                bad = bad[: rng.randrange(len(bad))]
            case 1:
                bad[rng.randrange(len(bad))] ^= 1 << rng.randrange(8)
            case 2:
                at = rng.randrange(len(bad))
                bad[at : at + 64] = rng.randbytes(64)
        path.write_bytes(bad)
        try:
            store.read(empty)
        except CheckpointError as error:
            assert "\n" not in str(error) and str(path) in str(error)
            refused += 1
        else:
            assert bytes(bad) == good
    assert refused >= 299


def test_a_run_goes_on_with_more_steps(tmp_path):
    """At a constant learning rate it ends where a run of that many steps ends; fewer steps are refused."""
    path = tmp_path / "checkpoint"
    steady = lambda steps: dataclasses.replace(CONFIG, steps=steps, schedule="constant", warmup=0.0)
    run(path, config=steady(6))
    more = run(path, config=steady(12))
    assert bits(more) == bits(fit(model(), waves(), waves(seed=1), steady(12)))
    assert bits(run(path, config=steady(12))) == bits(more)
    with pytest.raises(CheckpointError, match="steps=12, not 6"):
        run(path, config=steady(6))
    with pytest.raises(CheckpointError, match=r"learning_rate=0\.01, not 1\.0"):
        run(path, config=dataclasses.replace(steady(20), learning_rate=1.0))


def test_more_steps_follow_their_own_schedule(tmp_path):
    path = tmp_path / "checkpoint"
    first = run(path)
    longer = run(path, config=dataclasses.replace(CONFIG, steps=18))
    assert bits(longer)[3][:4] == bits(first)[3] and [one.step for one in longer.history] == [3, 6, 9, 12, 15, 18]


def test_patience_is_over_whatever_the_steps(tmp_path):
    path = tmp_path / "checkpoint"
    stopped = run(path, config=dataclasses.replace(CONFIG, steps=60, patience=1, learning_rate=1e-9))
    assert stopped.history[-1].step < 60
    again = run(path, config=dataclasses.replace(CONFIG, steps=90, patience=1, learning_rate=1e-9))
    assert bits(again) == bits(stopped)
