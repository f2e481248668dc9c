"""The configurations of the paper's tables, and the presets that take them."""

import dataclasses

import numpy as np
import pytest
from lrcssm.runs.presets import configure

from lrcssm import ModelConfig
from lrcssm.cli.options import ModelOptions, TrainingOptions
from lrcssm.data import Dataset
from lrcssm.models import ARCHITECTURES
from lrcssm.training import TrainingConfig
from lrcssm_paper.published import DATASETS, configured, published


@pytest.mark.parametrize("architecture", [name for name in ARCHITECTURES if configured(name)])
def test_every_published_configuration_is_valid(architecture):
    for name in configured(architecture):
        model, training = published(architecture, name)
        assert published(architecture, DATASETS[name]) == (model, training)
        config = ModelConfig(input_dim=3, output_dim=2, **model)
        assert ModelConfig.from_json(config.to_json()) == config
        chosen = TrainingConfig(**training)
        assert (chosen.schedule, chosen.warmup, chosen.ema) == ("constant", 0.0, 0.0)


def test_some_of_them():
    """As they are printed in the works that published them."""
    model, training = published("s5", "EthanolConcentration")
    assert (training["learning_rate"], model["hidden_dim"], model["state_dim"], model["num_blocks"]) == (
        1e-3,
        16,
        16,
        6,
    )
    assert model["cell_options"] == {"blocks": 2} and model["time"] and model["dropout"] == 0.05
    model, training = published("mamba", "EigenWorms")
    assert (training["learning_rate"], model["hidden_dim"], model["state_dim"], model["num_blocks"]) == (
        1e-3,
        16,
        64,
        6,
    )
    assert model["cell_options"] == {"conv": 2, "expand": 1} and training["batch"] == 32
    assert published("linoss-im", "Worms").training["batch"] == 4
    model, training = published("log-ncde", "SCP1")
    assert model["cell_options"] == {"vf_depth": 3, "vf_width": 64, "num_blocks": 2, "step": 12, "lip2": 1e-3}
    assert (model["state"], model["time"], training["check_every"]) == (128, False, 100)
    model, training = published("rformer", "SCP1")
    assert training["steps"] == 20 * 20 and model["signature"]["windows"] == 100
    assert len(configured("lrcssm")) == 6 and configured("linoss-imex") == ("SCP2",)


def test_what_was_not_published():
    with pytest.raises(ValueError, match="no configuration of linoss-im for 'SCP2'; they have those for Heartbeat, "):
        published("linoss-im", "SCP2")
    with pytest.raises(ValueError, match="no configuration of transformer for 'Worms'; they have none at all"):
        published("transformer", "Worms")
    with pytest.raises(ValueError, match="There is no architecture 'S5'; give one of lrcssm, "):
        published("S5", "Worms")


@pytest.fixture
def worms():
    """Data of the shape of EigenWorms, but short."""
    series = tuple(np.zeros((30, 6), np.float32) for _ in range(4))
    return Dataset("EigenWorms", series, targets=np.arange(4) % 2, classes=("a", "b"))


def test_presets(worms):
    def made(preset, **options):
        return configure(preset, worms, ModelOptions(**options), TrainingOptions(), seed=1)

    model, training = made("paper:s5:EthanolConcentration")
    assert (model.cell, model.width, model.input_dim, training.learning_rate) == ("S5", 16, 6, 1e-3)
    model, training = made("paper:s5")
    assert (model.width, model.state, dict(model.cell_options)) == (128, 256, {"blocks": 8})
    model, training = made("released")
    assert (model.layout, model.width, training.learning_rate, training.seed) == ("released", 64, 1e-4, 1)
    model, _ = made("released", cell="GRU")
    assert model.cell_options == () and model.layout == "released"
    model, training = made("default", architecture="linoss-imex", num_blocks=3, pool="last")
    assert (model.cell, dict(model.cell_options)) == ("LinOSS", {"discretisation": "imex"})
    assert (model.norm, model.depth, model.pool, training.steps) == ("batch", 3, "last", 1000)
    other = dataclasses.replace(worms, name="mine")
    assert configure("released", other, ModelOptions(), TrainingOptions(), seed=0)[0].depth == 6


@pytest.mark.parametrize(
    ("preset", "options", "sentence"),
    [
        ("s5", {}, "--preset got 's5'; give default, released, or paper:ARCHITECTURE:DATASET"),
        ("paper", {}, "--preset got 'paper'; give"),
        ("paper:s5", {"architecture": "lru"}, "--architecture lru was given with --preset paper:s5"),
        ("default", {"architecture": "LRU"}, "--architecture got 'LRU'; give one of lrcssm, "),
    ],
)
def test_mistakes(worms, preset, options, sentence):
    with pytest.raises(ValueError, match=sentence):
        configure(preset, worms, ModelOptions(**options), TrainingOptions(), seed=0)
