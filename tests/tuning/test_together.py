"""Runs of one shape side by side end as each does alone."""

import dataclasses
import json
import os
import subprocess
import sys

import jax
import numpy as np
import pytest
from lrcssm.tuning.together import fit_together
from studies import NINE, made, options, states
from test_training import make, waves

from lrcssm.training import TrainingConfig, fit
from lrcssm.tuning import run as run_module, together as together_module, worker
from lrcssm.tuning.worker import work

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
@pytest.mark.parametrize("truncate", [None, 6])
def test_together_is_as_alone(parts, truncate):
    trainings = [
        TrainingConfig(**SHARED, truncate=truncate, learning_rate=rate, seed=seed, ema=ema, class_weights=kind)
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
    with pytest.raises(ValueError, match="truncate=\\[5, None\\]; give all the same"):
        fit_together([model] * 2, train, None, [training, TrainingConfig(steps=2, truncate=5)])
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


def test_workers_train_small_trials_together(here, monkeypatch):
    """Each trial has the value that it has alone, up to rounding, and files as if it had been run alone."""
    alone, together = (made(options(name, vary=NINE[:1], seeds=(0, 1))) for name in ("alone", "together"))
    work(*alone)
    said, counts = [], []
    monkeypatch.setattr(worker, "_say", said.append)
    monkeypatch.setattr(
        worker,
        "fit_together",
        lambda models, *args, **more: counts.append(len(models)) or fit_together(models, *args, **more),
    )
    monkeypatch.setattr(run_module, "fit", lambda *args, **more: pytest.fail("a run was trained alone"))
    work(*together, together=4)
    assert counts == [4, 2] and "trials 0, 1: 4 runs together" in said[1]
    assert states(together[0]) == ["COMPLETE"] * 3
    for one, other in zip(*(study.trials().values() for study, _ in (alone, together)), strict=True):
        assert one.value == pytest.approx(other.value, rel=1e-4)
    names = [
        sorted(path.name for path in study.folder_of(study.trials()[2]).path.glob("*/*"))
        for study, _ in (alone, together)
    ]
    assert names[0] == names[1] and names[0].count("result.json") == 2


def test_what_does_not_gain_is_trained_alone(here, instant, monkeypatch):
    monkeypatch.setattr(worker, "fit_together", lambda *args, **more: pytest.fail("it was trained together"))
    monkeypatch.setattr(together_module, "PAYS", 10)
    work(*made(options()), together=4)
    monkeypatch.setattr(together_module, "PAYS", 2**17)
    work(*made(options("halving", pruner="halving")), together=4)
    assert len(instant) == 4
    with pytest.raises(ValueError, match="--together got 0; give a whole number of at least 1"):
        options(together=0)
