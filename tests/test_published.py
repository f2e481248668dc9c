"""The configurations of the paper's tables, and the presets that take them."""

import dataclasses
import json

import numpy as np
import pytest
from wing import ROOT, entries

from lrcssm import ModelConfig
from lrcssm.data import Dataset
from lrcssm.models import ARCHITECTURES
from lrcssm.training import TrainingConfig
from lrcssm_paper.presets import preset
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
    assert model["cell_options"] == {"blocks": 2} and model["include_time"] and model["dropout"] == 0.05
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
    assert model["cell_options"] == {"vf_depth": 3, "vf_width": 64, "depth": 2, "step": 12, "lip2": 1e-3}
    assert (model["state_dim"], model["include_time"], training["check_every"]) == (128, False, 100)
    model, training = published("rformer", "SCP1")
    assert training["steps"] == 20 * 20 and model["signature"]["windows"] == 100
    assert len(configured("lrcssm")) == 6 and configured("linoss-imex") == ("SCP2",)


@pytest.mark.parametrize("line", (ROOT / "tests" / "published.jsonl").read_text().splitlines())
def test_no_default_of_the_library_changes_them(line):
    """Every field, as in the runs that are recorded."""
    wanted = json.loads(line)
    fields, training = published(wanted["architecture"], wanted["dataset"])
    config = ModelConfig(input_dim=3, output_dim=2, **fields)
    assert json.loads(config.to_json()) == wanted["model"] and training == wanted["training"]


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
    model, training = preset("paper:s5:EthanolConcentration", worms)
    assert (model["cell"], model["hidden_dim"], training["learning_rate"]) == ("S5", 16, 1e-3)
    model, _ = preset("paper:s5", worms)
    assert (model["hidden_dim"], model["state_dim"], model["cell_options"]) == (128, 256, {"blocks": 8})
    model, training = preset("released", worms)
    assert (model["layout"], model["hidden_dim"], training["learning_rate"]) == ("released", 64, 1e-4)
    model, training = preset("released", dataclasses.replace(worms, name="mine"))
    assert (model["num_blocks"], training["learning_rate"]) == (6, 1e-4)
    for name in ("s5", "paper", "paper:s5:Worms:2"):
        with pytest.raises(ValueError, match=f"There is no preset '{name}'; give released, "):
            preset(name, worms)


def test_entry_points():
    assert entries("presets")["released"].load() is entries("presets")["paper"].load() is preset
    values = np.random.default_rng(0).normal(size=(20, 5, 2)).astype(np.float32)
    split = entries("splits")["paper"].load()(Dataset("twenty", tuple(values)), 2345)
    assert [len(part) for part in split] == [14, 3, 3]
    assert {"reproduce", "benchmark"} == set(entries("commands"))
