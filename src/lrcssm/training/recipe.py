"""Where a run starts: a model and a training that suit the data, or the paper's."""

import json
from typing import Any

from ..data import Dataset
from ..errors import InvalidValue
from ..experiments.published import DATASETS, Published, configured, published
from ..models import ARCHITECTURES, ModelConfig
from ..models.automatic import default_fields
from ..training import TrainingConfig
from . import ModelOptions, TrainingOptions, given


def configure(
    preset: str, data: Dataset, model: ModelOptions, training: TrainingOptions, seed: int
) -> tuple[ModelConfig, TrainingConfig]:
    """The preset with what the user gave in place of its own."""
    mine = given(model)
    if "include_time" in mine:
        mine["time"] = mine.pop("include_time")
    options = parse_options(mine.pop("cell_options", ()))
    architecture = mine.pop("architecture", None)
    if preset == "default":
        fields, each = _default(data, architecture, mine)
    elif architecture is not None:
        raise InvalidValue(
            f"--architecture {architecture} was given with --preset {preset}, which has its own; give one."
        )
    else:
        fields, each = _paper(preset, data)
    # Options of one cell mean nothing to another.
    own = {} if mine.get("cell", fields["cell"]) != fields["cell"] else dict(fields.pop("cell_options", {}))
    size = {"input_dim": data.series[0].shape[1], "output_dim": outputs(data), "task": data.task}
    whole: dict[str, Any] = fields | mine | size | {"cell_options": own | options}
    config = ModelConfig(**whole)
    chosen: dict[str, Any] = each | given(training) | {"seed": seed}
    return config, TrainingConfig(**chosen)


def _default(data: Dataset, architecture: str | None, mine: dict[str, Any]) -> Published:
    """What does well on most data; of a named architecture its block."""
    if architecture is not None and architecture not in ARCHITECTURES:
        raise InvalidValue(f"--architecture got {architecture!r}; give one of {', '.join(ARCHITECTURES)}.")
    length = max(len(one) for one in data.series)
    decided = {name: mine[name] for name in ("cell", "patch") if name in mine}
    fields = default_fields(ARCHITECTURES, architecture or "lrcssm", length, data.times is not None, **decided)
    training = {
        "steps": 1000, "batch": 16, "learning_rate": 3e-3, "label_smoothing": 0.1 if data.classes else 0.0,
        "check_every": 50,
    }  # fmt: skip
    return Published(fields, training)


def _paper(preset: str, data: Dataset) -> Published:
    """What the paper's tables come from: `released` or `paper:ARCHITECTURE[:DATASET]`."""
    kind, *names = ["paper", "lrcssm"] if preset == "released" else preset.split(":")
    if kind != "paper" or not 1 <= len(names) <= 2:
        raise InvalidValue(
            f"--preset got {preset!r}; give default, released, or paper:ARCHITECTURE:DATASET as in "
            "paper:s5:EthanolConcentration, without :DATASET for that of the data."
        )
    if preset == "released" and data.name not in _lrcssm_sets():
        # The sizes of the paper's ablations, for data that it does not have.
        fields, each = published("lrcssm", "Heart")
        return Published(fields | {"num_blocks": 6}, each | {"learning_rate": 1e-4})
    return published(names[0], names[-1] if len(names) == 2 else data.name)


def _lrcssm_sets() -> tuple[str, ...]:
    return tuple(DATASETS[name] for name in configured("lrcssm"))


def outputs(data: Dataset) -> int:
    """How many numbers a model for this data gives for each case."""
    if data.targets is None:
        raise InvalidValue(f"{data.name} has no targets to learn; lrcssm predict applies a trained model to such data.")
    if data.classes is not None:
        if len(data.classes) < 2:
            raise InvalidValue(f"{data.name} has {len(data.classes)} class; there must be at least 2 to learn.")
        return len(data.classes)
    return 1 if data.targets.ndim == 1 else data.targets.shape[1]


def parse_options(words: tuple[str, ...]) -> dict[str, Any]:
    """`name=value` pairs; a value is JSON if it can be read as that, else text."""
    found = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not equals or not name.isidentifier():
            raise InvalidValue(f"--cell-options got {word!r}; give name=value, as in init=spread.")
        try:
            found[name] = json.loads(value)
        except json.JSONDecodeError:
            found[name] = value
    return found
