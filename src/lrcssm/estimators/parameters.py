"""Parameters of the estimators that are trained by gradients.

They are dataclasses whose `__init__` only assigns, as scikit-learn requires; values are checked in `fit`. Fields of
`ModelConfig` and `TrainingConfig` are documented there and have the defaults given there.
"""

import dataclasses
import difflib
import inspect
import typing
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, TypeVar

import numpy as np

from ..data.splits import VALIDATION
from ..engine import Auto, Solver
from ..engine.solvers import SOLVERS
from ..errors import InvalidType, InvalidValue
from ..models import ModelConfig
from ..options import as_arguments, options_of
from ..training import Evaluation, TrainingConfig
from ..training.recipe import choose_method

Kind = TypeVar("Kind", bound=type)
Callback = Callable[[Evaluation], bool | None]


@typing.no_type_check
@dataclasses.dataclass(kw_only=True, eq=False, repr=False)
class _Data:
    """Parameters about the data."""

    missing: Literal["error", "mask", "fill"] = "error"
    """Policy for NaN: `"error"` raises an error, `"mask"` skips a step where a channel is missing, `"fill"` carries the last
    value forward."""
    validation_fraction: float = VALIDATION
    """Share of the cases (of each class) that is held out to select the best weights; 0 trains on all cases and keeps the last
    weights."""


@typing.no_type_check
@dataclasses.dataclass(kw_only=True, eq=False, repr=False)
class _Method(_Data):
    """Parameters about the targets and the method of training."""

    task: Literal["per-step"] | None = None
    """`"per-step"` if `y` has a target for each time step, as in activity recognition: `(n_cases, n_timepoints)`, or a list
    of `(T_i,)`; the model then predicts each step from the steps before it, unless `bidirectional=True`. `None` for one target
    for each case."""
    method: Literal["auto", "ridge", "logistic", "gradient"] = "auto"
    """`"ridge"`, ridge regression on random liquid features, in seconds; `"logistic"`, logistic regression that starts from it;
    or `"gradient"`, a model trained by gradient steps. `"auto"` is ridge, or logistic to classify more than 500 cases, or
    gradient if a parameter below, `validation_fraction`, `sample_weight` or `partial_fit` requires gradient steps."""
    views: Sequence[str] | None = None
    """For ridge and logistic: views of the series, as for `lrcssm.LrcFeatures`; `("levels", "differences")` for a model that
    can predict sample by sample."""


@typing.no_type_check
@dataclasses.dataclass(kw_only=True, eq=False, repr=False)
class _Horizon(_Data):
    """Parameters about the data of forecasters."""

    method: Literal["auto", "ridge", "gradient"] = "auto"
    """`"ridge"`, ridge regression on lags and random liquid states, in seconds; or `"gradient"`, gradient steps. `"auto"` takes
    ridge, unless `level`, `validation_fraction` or a parameter below requires gradient steps."""
    horizon: int = 1
    """Number of values that the model forecasts at once. `predict` extends the horizon by using its own forecasts as observations."""
    window: int | None = None
    """Number of past values that the model reads; `None` chooses from the horizon, the season and the length."""
    season: int | None = None
    """Steps of a season, 1 for none; `None` guesses it from the autocorrelation. The window holds a season at least, ridge
    regression starts from the last season or its mean, and scores are compared with the seasonal naive forecast."""
    level: Literal["last", "mean", "none"] = "mean"
    """Gradient steps only: level that is subtracted from a window: its `"last"` value, its `"mean"`, or `"none"`."""


@typing.no_type_check
@dataclasses.dataclass(kw_only=True, eq=False, repr=False)
class _Model:
    """Parameters of the model."""

    architecture: str = "lrcssm"
    """A name of `lrcssm.models.ARCHITECTURES`, such as `"s5"` or `"mamba"`: its cell and its block. Parameters of the model that are
    `None` have the values of the architecture or the defaults of `lrcssm.ModelConfig`."""
    cell: str | None = None
    cell_options: Mapping[str, Any] | None = None
    hidden_dim: int = ModelConfig.hidden_dim
    state_dim: int = ModelConfig.state_dim
    num_blocks: int | None = None
    dropout: float | None = None
    differences: bool = ModelConfig.differences
    standardise: Literal["none", "channel", "case"] = ModelConfig.standardise
    model_options: Mapping[str, Any] | None = None
    """Further fields of `lrcssm.ModelConfig` by name, e.g. `{"layout": "pre-norm", "mixer": "mlp"}`."""


@typing.no_type_check
@dataclasses.dataclass(kw_only=True, eq=False, repr=False)
class _SeriesModel(_Model):
    """Parameters of a model with one prediction for a series."""

    patch: int | Literal["auto"] | None = None
    """Steps that are joined into one before the encoder; `None` or `"auto"` is the square root of the length, unless the
    architecture has its own."""
    bidirectional: bool | None = None
    pool: Literal["mean", "last", "mean-max-std", "attention", "logits"] | None = None


@typing.no_type_check
@dataclasses.dataclass(kw_only=True, eq=False, repr=False)
class _ForecastModel(_Model):
    """Parameters of a model that forecasts."""

    patch: int = ModelConfig.patch


@typing.no_type_check
@dataclasses.dataclass(kw_only=True, eq=False, repr=False)
class _Training:
    """Parameters of the training."""

    steps: int = TrainingConfig.steps
    batch: int = TrainingConfig.batch
    learning_rate: float = TrainingConfig.learning_rate
    weight_decay: float = TrainingConfig.weight_decay
    monitor: Literal["score", "loss", "last"] = TrainingConfig.monitor
    check_every: int = TrainingConfig.check_every
    patience: int | None = TrainingConfig.patience
    memory: int | float | str | None = TrainingConfig.memory
    training_options: Mapping[str, Any] | None = None
    """Further fields of `lrcssm.training.TrainingConfig` by name, e.g. `{"schedule": "constant", "ema": 0.0}`."""


@typing.no_type_check
@dataclasses.dataclass(kw_only=True, eq=False, repr=False)
class _ClassTraining(_Training):
    """Parameters of the training of classifiers."""

    label_smoothing: float = TrainingConfig.label_smoothing
    class_weights: Literal["balanced"] | Mapping[Any, float] | None = TrainingConfig.class_weights
    """`"balanced"` gives all classes the same weight, `None` all cases; or a mapping from labels to weights, 1 for labels that
    are not in it."""


@typing.no_type_check
@dataclasses.dataclass(kw_only=True, eq=False, repr=False)
class _Run:
    """Parameters of a run."""

    solver: Solver | Literal["auto", "sequential", "deer", "elk"] | None = None
    """Solver of the recurrences: `"auto"`, `"sequential"`, `"deer"` or `"elk"`, or one with options such as
    `lrcssm.DEER(quasi=True)`; `None` is `"auto"`."""
    callbacks: Callback | Sequence[Callback] | None = None
    """Functions that are called with an `Evaluation` after each evaluation; training ends if one returns true."""
    random_state: int | np.random.RandomState | None = None
    """Seed; a whole number makes results reproducible."""
    verbose: int = 0
    """1 prints a line at each evaluation."""
    warm_start: bool = False
    """Continue from the current weights in `fit`."""

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
class Parameters(_Run, _Training, _Model, _Data):
    """Parameters of every estimator that is trained by gradients, in the order data, model, training, run."""

    # Fields of the configurations that follow from the data or from the kind of estimator.
    _decided: typing.ClassVar[tuple[str, ...]] = ("input_dim", "output_dim", "task", "seed")


@typing.no_type_check
@dataclasses.dataclass(kw_only=True, eq=False, repr=False)
class SeriesParameters(Parameters, _SeriesModel, _Method):
    """Parameters of estimators with one prediction for a series."""


@typing.no_type_check
@dataclasses.dataclass(kw_only=True, eq=False, repr=False)
class ClassifierParameters(SeriesParameters, _ClassTraining):
    """Parameters of classifiers."""


@typing.no_type_check
@dataclasses.dataclass(kw_only=True, eq=False, repr=False)
class ForecasterParameters(Parameters, _ForecastModel, _Horizon):
    """Parameters of forecasters."""

    _decided: typing.ClassVar[tuple[str, ...]] = (*Parameters._decided, "bidirectional", "pool")


_FOR_BOTH = ("missing", "method", "horizon", "window", "season", "random_state", "verbose")
_FOR_LIQUID = ("views",)


def method_of(parameters: Any, task: str, cases: int, *more: str) -> str:
    """Choose the method of training of an estimator.

    **Arguments:**

    - `parameters`: of the estimator.
    - `task`, `cases`: of the data.
    - `more`: names of further arguments that require gradient steps.
    """
    defaults = {option.name: option.default for option in options_of(type(parameters)).values()}
    given = [
        one for one, default in defaults.items()
        if one not in _FOR_BOTH and not _same(getattr(parameters, one, default), default)
    ]  # fmt: skip
    asked = [one for one in given if one not in _FOR_LIQUID]
    liquid = [one for one in given if one in _FOR_LIQUID]
    return choose_method(parameters.method, task, cases, [*asked, *more], liquid)[0]


def _same(value: Any, default: Any) -> bool:
    return value is default or (isinstance(value, str | int | float | np.generic) and bool(value == default))


def documented(kind: Kind) -> Kind:
    """Fill `{arguments}` in the docstring of an estimator from the declarations of its parameters."""
    shared = options_of(ModelConfig) | options_of(TrainingConfig)
    own = [option if option.text else shared[option.name] for option in options_of(kind).values()]
    kind.__doc__ = (kind.__doc__ or "").replace("{arguments}", as_arguments(own).replace("\n", "\n    "))
    return kind


def _refusal(kind: type, known: list[str], unnamed: tuple[Any, ...], given: Mapping[str, Any]) -> str | None:
    """Error message for unknown arguments of an estimator, with a similar parameter if there is one."""
    wrong = next((name for name in given if name not in known), None)
    if wrong is not None:
        for where, fields in {"model_options": ModelConfig, "training_options": TrainingConfig}.items():
            if where in known and wrong in options_of(fields) and wrong not in kind._decided:  # pyright: ignore
                return (
                    f"{kind.__name__} got {wrong}={given[wrong]!r}; give it as {where}={{{wrong!r}: {given[wrong]!r}}}."
                )
        meant = difflib.get_close_matches(wrong, known, 1)
        advice = f"did you mean {meant[0]}?" if meant else f"leave it out, or see {kind.__name__}().get_params()."
        return f"{kind.__name__} got {wrong}={given[wrong]!r}, but has no such parameter; {advice}"
    if unnamed:
        return f"{kind.__name__} got {unnamed[0]!r} without a name; give each parameter by its name, such as hidden_dim=64."
    return None


def given_fields(parameters: Parameters, kind: Any) -> dict[str, Any]:
    """Fields of a configuration that an estimator has; numbers of numpy, which a search may give, as Python's.

    **Arguments:**

    - `parameters`: of the estimator.
    - `kind`: `ModelConfig` or `TrainingConfig`.
    """
    names = [name for name in options_of(kind) if name not in parameters._decided]
    found = {name: getattr(parameters, name) for name in names if hasattr(parameters, name)}
    where = "model_options" if kind is ModelConfig else "training_options"
    more = getattr(parameters, where) or {}
    for name in more:
        if name not in names or name in found:
            advice = "give it as a parameter of its own" if name in found else f"give some of {', '.join(names)}"
            raise InvalidValue(f"{type(parameters).__name__} got {where} with {name!r}; {advice}.")
    if isinstance(found.get("class_weights"), Mapping):
        found["class_weights"] = None  # which are weights of the cases then
    found = {
        name: value.item() if isinstance(value, np.generic) else value for name, value in (found | dict(more)).items()
    }
    return found | ({"architecture": parameters.architecture} if kind is ModelConfig else {})


def training_config(parameters: Any, **changes: Any) -> TrainingConfig:
    """The training of an estimator, with some fields changed."""
    fields: dict[str, Any] = given_fields(parameters, TrainingConfig) | changes
    return TrainingConfig(**fields)


def solver_of(parameters: Any) -> Solver:
    """The solver of an estimator, which may have been given by its name."""
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
