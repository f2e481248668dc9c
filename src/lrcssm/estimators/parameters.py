"""The parameters of the estimators: the fields of `ModelConfig` and `TrainingConfig` that the data do not decide, and a
few of their own.

They are dataclasses, whose `__init__` does nothing but assign, as scikit-learn wants it. What they mean is checked in
`fit`, so not even their types are checked before.
"""

import dataclasses
import difflib
import inspect
import typing
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import numpy as np

from ..engine import Auto, Solver
from ..engine.solvers import SOLVERS
from ..errors import InvalidType, InvalidValue
from ..models import ARCHITECTURES, ModelConfig
from ..models.automatic import automatic_cell_options, automatic_patch
from ..training import Epoch, TrainingConfig

OWN: dict[str, Any] = {
    "num_blocks": 2, "encoder": "mlp", "signature": (), "layout": "plain", "norm": "layer", "mixer": "glu", "dropout": 0.1,
    "patch": "auto", "bidirectional": True, "pool": "mean-max-std",
}  # fmt: skip
"""What estimators choose where neither the user nor the architecture does."""


@typing.no_type_check
@dataclasses.dataclass(kw_only=True, eq=False, repr=False)
class Parameters:
    """What all estimators have; `LrcSSMClassifier` says what each of them is. `None` in what an architecture may decide
    leaves it open."""

    architecture: str = "lrcssm"
    width: int = 64
    state: int = 64
    depth: int | None = None
    cell: str | None = None
    cell_options: Mapping[str, Any] | None = None
    signature: Mapping[str, Any] | None = None
    differences: bool = False
    standardise: Literal["none", "channel", "case"] = "channel"
    encoder: Literal["mlp", "linear", "none"] | None = None
    layout: Literal["pre-norm", "post-norm", "plain", "released", "bare"] | None = None
    norm: Literal["layer", "batch"] | None = None
    final_norm: bool = False
    mixer: Literal["mlp", "glu", "none"] | None = None
    activation: Literal["relu", "gelu", "silu", "tanh", "sigmoid", "identity"] = "gelu"
    dropout: float | None = None
    matmul: Literal["float32", "bfloat16"] = "float32"
    steps: int = 1000
    batch: int = 16
    learning_rate: float = 3e-3
    schedule: Literal["cosine", "constant"] = "cosine"
    warmup: float = 0.05
    weight_decay: float = 0.01
    clip: float = 1.0
    ema: float = 0.99
    monitor: Literal["score", "loss", "last"] = "score"
    check_every: int = 50
    patience: int | None = None
    chunk: int | None = None
    memory: int | float | str | None = None
    truncate: int | None = None
    validation_fraction: float = 0.15
    missing: Literal["error", "mask", "fill"] = "error"
    solver: Solver | Literal["auto", "sequential", "deer", "elk"] | None = None
    callbacks: Callable[[Epoch], bool | None] | Sequence[Callable[[Epoch], bool | None]] | None = None
    random_state: int | np.random.RandomState | None = None
    verbose: int = 0
    warm_start: bool = False

    def __new__(cls, *unnamed, **given):
        # For an answer to a wrong name; Python's own is about a class that the user never wrote.
        signature = inspect.signature(cls.__init__)
        try:
            signature.bind(None, *unnamed, **given)
        except TypeError:
            if (refusal := _refusal(cls, list(signature.parameters)[1:], unnamed, given)) is not None:
                raise InvalidType(refusal) from None
        return super().__new__(cls)


@typing.no_type_check
@dataclasses.dataclass(kw_only=True, eq=False, repr=False)
class SeriesParameters(Parameters):
    """For estimators that give one answer for a whole series."""

    patch: int | Literal["auto"] | None = None
    time: bool = False
    bidirectional: bool | None = None
    pool: Literal["mean", "last", "mean-max-std", "attention", "logits"] | None = None


@typing.no_type_check
@dataclasses.dataclass(kw_only=True, eq=False, repr=False)
class ClassifierParameters(SeriesParameters):
    """For estimators whose answer is a class."""

    label_smoothing: float = 0.0
    class_weights: Literal["balanced"] | None = None


@typing.no_type_check
@dataclasses.dataclass(kw_only=True, eq=False, repr=False)
class ForecasterParameters(Parameters):
    """For estimators whose answer is what comes next."""

    horizon: int = 1
    window: int | None = None
    season: int = 1
    level: Literal["last", "mean", "none"] = "mean"
    patch: int = 1


def _refusal(kind: type, known: list[str], unnamed: tuple[Any, ...], given: Mapping[str, Any]) -> str | None:
    """What is wrong with the arguments of an estimator, and the parameter that was meant if there is one like it."""
    wrong = next((name for name in given if name not in known), None)
    if wrong is not None:
        meant = difflib.get_close_matches(wrong, known, 1)
        advice = f"did you mean {meant[0]}?" if meant else f"leave it out, or see {kind.__name__}().get_params()."
        return f"{kind.__name__} got {wrong}={given[wrong]!r}, but has no such parameter; {advice}"
    if unnamed:
        return f"{kind.__name__} got {unnamed[0]!r} without a name; give each parameter by its name, such as hidden_dim=64."
    return None


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
    given = {name: value for name, value in _chosen(ModelConfig, parameters).items() if value is not None}
    if parameters.architecture not in ARCHITECTURES:
        raise InvalidValue(
            f"architecture is {parameters.architecture!r}; give one of {', '.join(ARCHITECTURES)} (lrcssm.models.ARCHITECTURES)."
        )
    own = {name: value for name, value in OWN.items() if hasattr(parameters, name)}
    architecture = _beside(ARCHITECTURES[parameters.architecture], given)
    # What was set by hand goes before what the architecture says, and that before the estimator's own choices.
    chosen: dict[str, Any] = own | architecture | given
    if chosen["patch"] == "auto":
        # Windows of a signature are patches.
        automatic = 1 if chosen["signature"] else automatic_patch(length)
        chosen["patch"] = automatic if old is None else old.patch
    if "cell_options" in given:
        chosen["cell_options"] = architecture.get("cell_options", {}) | dict(given["cell_options"])
    elif old is not None:
        chosen["cell_options"] = old.cell_options
    else:
        steps = _steps(length, chosen["patch"], chosen["signature"])
        spread = automatic_cell_options(chosen["cell"], steps, irregular)
        chosen["cell_options"] = spread | architecture.get("cell_options", {})
    return ModelConfig(**chosen | fixed)


def _beside(architecture: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """An architecture without what makes no sense beside what was set by hand: options of a cell go with the cell, a norm
    and a missing encoder with the layout."""
    odd = {"cell_options"} if given.get("cell", architecture["cell"]) != architecture["cell"] else set()
    if "layout" in architecture and given.get("layout", architecture["layout"]) != architecture["layout"]:
        odd |= {"norm"} | ({"encoder"} if architecture["encoder"] == "none" else set())
    return {name: value for name, value in architecture.items() if name not in odd}


def _steps(length: int, patch: Any, signature: Any) -> int:
    """How many steps a cell makes; the configuration checks what this is made from."""
    windows = dict(signature).get("windows")
    if isinstance(windows, int):
        return windows
    return -(-length // patch) if isinstance(patch, int) and patch > 0 else length


def solver_of(parameters: Parameters) -> Solver:
    """The solver, which may have been given by its name."""
    solver = parameters.solver
    if solver is None:
        return Auto()
    if not isinstance(solver, str):
        return solver
    if solver not in SOLVERS:
        raise InvalidValue(
            f"{type(parameters).__name__} got solver={solver!r}; give one of {', '.join(SOLVERS)}, or a solver such as lrcssm.DEER()."
        )
    return SOLVERS[solver]


def training_config(parameters: Parameters, *, seed: int, **changes: Any) -> TrainingConfig:
    """How an estimator trains."""
    return TrainingConfig(**(_chosen(TrainingConfig, parameters) | changes), seed=seed)


def _chosen(kind: Any, parameters: Parameters) -> dict[str, Any]:
    """The fields of a configuration that an estimator has; numbers of numpy, which a search may give, as Python's."""
    names = [field.name for field in dataclasses.fields(kind) if hasattr(parameters, field.name)]
    values = {name: getattr(parameters, name) for name in names}
    return {name: value.item() if isinstance(value, np.generic) else value for name, value in values.items()}
