"""Every architecture learns which of two channels leads, which is impossible for a model of single steps."""

import functools
from typing import Any

import equinox as eqx
import jax
import numpy as np
import pytest

from lrcssm import SequenceModel
from lrcssm.data import Cases
from lrcssm.models import ARCHITECTURES
from lrcssm.models.time import Outcome, TimeLayer, options_of
from lrcssm.training import TrainingConfig, evaluate, fit
from lrcssm.training.recipe import Facts, recipe

STEPS = 64
SMALL = {"input_dim": 2, "output_dim": 2, "hidden_dim": 16, "state_dim": 16, "num_blocks": 1}
# What an architecture may set itself. A mean alone is a slow start: what tells the classes apart is of second order.
DEFAULTS = {"cell": "LRC", "pool": "mean-max-std"}
FEWER = {"solver_steps": 32}  # options that make a layer cheaper, where it has them


@pytest.fixture(autouse=True)
def as_a_user_has_it():
    with jax.enable_x64(False), jax.numpy_dtype_promotion("standard"):
        yield


class Nothing(TimeLayer):
    """Replacement of a layer along time that treats each step separately."""

    size: int = eqx.field(static=True)

    def __call__(self, inputs, state, context):
        del state, context
        return Outcome(inputs, (), None)

    def initial_state(self, batch):
        return ()


@functools.cache
def pulses(count: int, seed: int) -> Cases:
    """Pairs of pulses in the noise, one in each of two channels, a few steps apart; the class is whose comes first."""
    rng = np.random.default_rng(seed)
    targets = rng.integers(0, 2, count)
    series = 0.1 * rng.normal(size=(count, STEPS, 2))
    for case, first in zip(series, targets, strict=True):
        for start in np.cumsum(rng.integers(10, 14, 4)) - rng.integers(4, 10):
            later = start + rng.integers(1, 5)
            case[start : start + 3, first] += 1
            case[later : later + 3, 1 - first] += 1
    return Cases.of(series, targets)


def accuracy(model: SequenceModel, steps: int) -> float:
    """On new cases, after training until it is high or the steps are used up."""
    train, validation, test = pulses(512, 0), pulses(128, 1), pulses(512, 2)
    config = TrainingConfig(
        steps=steps, batch=32, learning_rate=1e-2, schedule="constant", weight_decay=0.0, ema=0.0, check_every=25
    )
    model = model.with_statistics(*train.statistics())
    fitted = fit(model, train, validation, config, report=lambda epoch: epoch.scores["accuracy"] > 0.98)
    return evaluate(fitted.model, test)["accuracy"]


def make(**given: Any) -> SequenceModel:
    fields: dict[str, Any] = DEFAULTS | given | SMALL
    fewer = {name: value for name, value in FEWER.items() if name in options_of(fields["cell"])}
    fields["cell_options"] = fewer | dict(fields.get("cell_options", ()))
    facts = Facts(channels=2, length=STEPS, irregular=False, task="classify", outputs=2)
    sizes = ("input_dim", "output_dim")
    changes = {name: value for name, value in fields.items() if name not in sizes}
    config, _ = recipe(facts, {"patch": 1, "bidirectional": False} | changes)
    return SequenceModel(config, jax.random.key(0))


@pytest.mark.slow
@pytest.mark.parametrize("name", ARCHITECTURES)
def test_learns_an_order(name):
    assert accuracy(make(**ARCHITECTURES[name]), 600) >= 0.95


@pytest.mark.parametrize("pool", ["mean", pytest.param("mean-max-std", marks=pytest.mark.slow)])
def test_without_a_layer_along_time_there_is_nothing_to_learn(pool):
    model = make(pool=pool)
    model = eqx.tree_at(lambda model: model.blocks[0].layer, model, Nothing(16))
    assert 0.35 <= accuracy(model, 300) <= 0.65
