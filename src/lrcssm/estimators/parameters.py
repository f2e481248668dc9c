"""The parameters of the estimators: the fields of `ModelConfig` and `TrainingConfig` that the data do not decide, and a
few of their own.

They are dataclasses, whose `__init__` does nothing but assign, as scikit-learn wants it. What they mean is checked in
`fit`, so not even their types are checked before.
"""

import dataclasses
import typing
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import numpy as np

from ..engine import Solver
from ..models import ARCHITECTURES, ModelConfig
from ..models.automatic import automatic_cell_options, automatic_patch
from ..training import Epoch, TrainingConfig


@typing.no_type_check
@dataclasses.dataclass(kw_only=True, eq=False, repr=False)
class Parameters:
    """What all estimators have; `LrcSSMClassifier` says what each of them is."""

    architecture: str = "lrcssm"
    width: int = 64
    state: int = 64
    depth: int = 2
    cell: str = "LRC"
    cell_options: Mapping[str, Any] | None = None
    differences: bool = False
    standardise: Literal["none", "channel", "case"] = "channel"
    encoder: Literal["mlp", "linear", "none"] = "mlp"
    layout: Literal["pre-norm", "post-norm", "plain", "released", "bare"] = "plain"
    norm: Literal["layer", "batch"] = "layer"
    final_norm: bool = False
    mixer: Literal["mlp", "glu", "none"] = "glu"
    activation: Literal["relu", "gelu", "silu", "tanh", "sigmoid", "identity"] = "gelu"
    dropout: float = 0.1
    steps: int = 1000
    batch: int = 16
    learning_rate: float = 3e-3
    schedule: Literal["cosine", "constant"] = "cosine"
    warmup: float = 0.05
    weight_decay: float = 0.01
    clip: float = 1.0
    ema: float = 0.99
    check_every: int = 50
    patience: int | None = None
    validation_fraction: float = 0.15
    solver: Solver | None = None
    callbacks: Sequence[Callable[[Epoch], bool | None]] | None = None
    random_state: int | np.random.RandomState | None = None
    verbose: int = 0
    warm_start: bool = False


@typing.no_type_check
@dataclasses.dataclass(kw_only=True, eq=False, repr=False)
class SeriesParameters(Parameters):
    """For estimators that give one answer for a whole series."""

    patch: int | Literal["auto"] = "auto"
    time: bool = False
    bidirectional: bool = True
    pool: Literal["mean", "last", "mean-max-std", "attention", "logits"] = "mean-max-std"
    missing: Literal["error", "mask", "fill"] = "error"


@typing.no_type_check
@dataclasses.dataclass(kw_only=True, eq=False, repr=False)
class ClassifierParameters(SeriesParameters):
    """For estimators whose answer is a class."""

    label_smoothing: float = 0.0
    class_weights: Literal["balanced"] | None = None
    monitor: Literal["score", "loss", "last"] = "score"


@typing.no_type_check
@dataclasses.dataclass(kw_only=True, eq=False, repr=False)
class ForecasterParameters(Parameters):
    """For estimators whose answer is what comes next."""

    horizon: int = 1
    window: int | None = None
    season: int = 1
    level: Literal["last", "mean", "none"] = "mean"
    patch: int = 1


def model_config(
    parameters: Parameters, *, length: int, irregular: bool = False, old: ModelConfig | None = None, **fixed: Any
) -> ModelConfig:
    """The configuration of a model.

    **Arguments:**

    - `parameters`: of an estimator.
    - `length`: of the longest series, from which follows what was left open.
    - `irregular`: whether the time between steps differs.
    - `old`: the configuration of the model that goes on learning, if there is one: what was left open stays as it was.
    - `fixed`: what the data say: `input_dim`, `output_dim`, `task`.
    """
    chosen: dict[str, Any] = _chosen(ModelConfig, parameters)
    if parameters.architecture not in ARCHITECTURES:
        raise ValueError(
            f"architecture is {parameters.architecture!r}; give one of {', '.join(ARCHITECTURES)} (lrcssm.models.ARCHITECTURES)."
        )
    defaults = {field.name: field.default for field in dataclasses.fields(parameters)}
    # What was set by hand goes before what the architecture says, and that before the estimator's own choices.
    chosen |= {
        name: value for name, value in ARCHITECTURES[parameters.architecture].items()
        if name not in chosen or chosen[name] == defaults[name]
    }  # fmt: skip
    if chosen["patch"] == "auto":
        chosen["patch"] = automatic_patch(length) if old is None else old.patch
    if parameters.cell_options is None and old is not None:
        chosen["cell_options"] = old.cell_options
    elif parameters.cell_options is None:
        patch = chosen["patch"]  # which the configuration checks
        steps = -(-length // patch) if isinstance(patch, int) and patch > 0 else length
        automatic = automatic_cell_options(chosen["cell"], steps, irregular)
        chosen["cell_options"] = automatic | dict(chosen["cell_options"] or {})
    return ModelConfig(**chosen, **fixed)


def training_config(parameters: Parameters, *, seed: int, **changes: Any) -> TrainingConfig:
    """How an estimator trains."""
    return TrainingConfig(**(_chosen(TrainingConfig, parameters) | changes), seed=seed)


def _chosen(kind: Any, parameters: Parameters) -> dict[str, Any]:
    """The fields of a configuration that an estimator has; numbers of numpy, which a search may give, as Python's."""
    names = [field.name for field in dataclasses.fields(kind) if hasattr(parameters, field.name)]
    values = {name: getattr(parameters, name) for name in names}
    return {name: value.item() if isinstance(value, np.generic) else value for name, value in values.items()}
