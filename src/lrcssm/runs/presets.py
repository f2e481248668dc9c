"""Where a run starts: a model and a training that suit the data, or the paper's."""

import json
from typing import Any

from ..data import Dataset
from ..models import ModelConfig, released
from ..models.automatic import automatic_cell_options, automatic_patch
from ..training import TrainingConfig
from . import ModelOptions, TrainingOptions, given

PAPER = {
    "Heartbeat": (1e-3, 64, 64, 4),
    "SelfRegulationSCP1": (1e-3, 64, 16, 2),
    "SelfRegulationSCP2": (1e-3, 128, 64, 2),
    "EthanolConcentration": (1e-4, 128, 16, 2),
    "MotorImagery": (1e-4, 16, 16, 4),
    "EigenWorms": (1e-4, 64, 16, 4),
}
"""The paper's learning rate, width, state and depth for its data sets; for others those of its ablations are taken."""


def configure(
    preset: str, data: Dataset, model: ModelOptions, training: TrainingOptions, seed: int
) -> tuple[ModelConfig, TrainingConfig]:
    """The preset with what the user gave in place of its own."""
    sizes: dict[str, Any] = {"input_dim": data.series[0].shape[1], "output_dim": outputs(data), "task": data.task}
    steps = max(len(one) for one in data.series)
    mine = given(model)
    if "include_time" in mine:
        mine["time"] = mine.pop("include_time")
    options = parse_options(mine.pop("cell_options", ()))
    if preset == "released":
        rate, width, state, depth = PAPER.get(data.name, (1e-4, 64, 64, 6))
        base = released(**sizes, width=width, state=state, depth=depth)
        each: dict[str, Any] = {
            "steps": 15_000, "batch": 4, "learning_rate": rate, "schedule": "constant", "warmup": 0.0,
            "weight_decay": 0.0, "clip": 1.0, "ema": 0.0, "check_every": 100,
        }  # fmt: skip
        own = dict(base.cell_options)
        if mine.get("cell", "LRC") != "LRC":
            own = {}
    else:
        patch = mine.get("patch", automatic_patch(steps))
        base = ModelConfig(
            **sizes,
            width=64,
            state=64,
            depth=2,
            patch=patch,
            layout="plain",
            dropout=0.1,
            pool="mean-max-std",
            bidirectional=True,
        )
        own = automatic_cell_options(mine.get("cell", "LRC"), -(-steps // patch), data.times is not None)
        each = {
            "steps": 1000, "batch": 16, "learning_rate": 3e-3, "label_smoothing": 0.1 if data.classes else 0.0,
            "check_every": 50,
        }  # fmt: skip
    config = base.replace(**mine, cell_options=own | options)
    chosen: dict[str, Any] = each | given(training) | {"seed": seed}
    return config, TrainingConfig(**chosen)


def outputs(data: Dataset) -> int:
    """How many numbers a model for this data gives for each case."""
    if data.targets is None:
        raise ValueError(f"{data.name} has no targets to learn; lrcssm predict applies a trained model to such data.")
    if data.classes is not None:
        if len(data.classes) < 2:
            raise ValueError(f"{data.name} has {len(data.classes)} class; there must be at least 2 to learn.")
        return len(data.classes)
    return 1 if data.targets.ndim == 1 else data.targets.shape[1]


def parse_options(words: tuple[str, ...]) -> dict[str, Any]:
    """`name=value` pairs; a value is JSON if it can be read as that, else text."""
    found = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not equals or not name.isidentifier():
            raise ValueError(f"--cell-options got {word!r}; give name=value, as in init=spread.")
        try:
            found[name] = json.loads(value)
        except json.JSONDecodeError:
            found[name] = value
    return found
