"""Options that several commands share. Those of model and training are made from `ModelConfig` and `TrainingConfig`."""

import dataclasses
import json
from collections.abc import Collection
from typing import TYPE_CHECKING, Annotated, Any, Literal, Optional

import numpy as np

from ..data import Dataset
from ..errors import InvalidValue
from ..models import ModelConfig
from ..options import options_of
from ..training import TrainingConfig
from .parser import Arg

SolverName = Literal["auto", "sequential", "deer", "elk"]
Missing = Literal["error", "mask", "fill"]
Task = Literal["classify", "regress", "per-step"]
DataDir = Annotated[str | None, Arg("DIR")]
Int = Annotated[int | None, Arg("INT")]
Model = Annotated[str, Arg("MODEL", positional=True)]


def _overrides(kind: Any, title: str, left_out: Collection[str], more: dict[str, tuple[Any, Any, str]]) -> Any:
    """A dataclass with the fields of a configuration, all of them optional, and `more` fields: type, default and help."""
    fields: list[Any] = [
        (name, type_, dataclasses.field(default=default)) for name, (type_, default, _) in more.items()
    ]
    docs = {name: text for name, (*_, text) in more.items()}
    for option in options_of(kind).values():
        if option.name not in left_out and option.name not in more:
            fields.append((option.name, Optional[option.kind], dataclasses.field(default=None)))  # noqa: UP045, a value
            docs[option.name] = f"{option.text}{_default_words(option.default)}"
    made = dataclasses.make_dataclass(f"{kind.__name__}Options", fields, frozen=True)
    made.__doc__, made.__field_docs__ = f"{title}.", docs  # pyright: ignore[reportAttributeAccessIssue]
    return made


def _default_words(value: Any) -> str:
    if value is None or value == ():
        return ""
    words = {True: "yes", False: "no"}[value] if isinstance(value, bool) else value
    return f" (default: {words}, unless the preset or architecture sets it)"


if TYPE_CHECKING:

    class ModelOptions:
        """Options of the model."""

        def __init__(self, **given: Any): ...

    class TrainingOptions:
        """Options of the training."""

        def __init__(self, **given: Any): ...

else:
    ModelOptions = _overrides(
        ModelConfig,
        "Model",
        ("input_dim", "output_dim", "task", "signature"),
        {
            "architecture": (
                Annotated[str | None, Arg("NAME")], None,
                "A model of lrcssm.models.ARCHITECTURES, such as s5, mamba or log-ncde, instead of lrcssm.",
            ),
            "cell": (Annotated[str | None, Arg("NAME")], None, options_of(ModelConfig)["cell"].text),
            "cell_options": (
                Annotated[tuple[str, ...], Arg("NAME=VALUE")], (),
                "Further arguments of the cell: init=spread max_time=500 rho=0.99 integrator=exponential.",
            ),
        },
    )  # fmt: skip
    TrainingOptions = _overrides(TrainingConfig, "Training", ("seed",), {})


def given(options: Any) -> dict[str, Any]:
    """The options that were given, `cell_options` as a mapping."""
    fields = {field.name: getattr(options, field.name) for field in dataclasses.fields(options)}
    found = {name: value for name, value in fields.items() if value is not None and value != ()}
    if "cell_options" in found:
        found["cell_options"] = _pairs(found["cell_options"])
    return found


def _pairs(words: Collection[str]) -> dict[str, Any]:
    """`name=value` pairs; a value is parsed as JSON if possible, and is text otherwise."""
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


def refuse_missing(data: Dataset, policy: str) -> None:
    """Raise an error about missing values in terms of options, if that is the policy."""
    if policy == "error" and data.missing:
        first = next(i for i, one in enumerate(data.series) if np.isnan(one).any())
        raise InvalidValue(
            f"{data.name} has {data.missing:,} missing values, the first of them in case {data.id_of(first)}; --missing mask "
            "skips such steps, --missing fill carries the last value forward."
        )


@dataclasses.dataclass(frozen=True)
class ColumnOptions:
    """Columns of a table (.csv, .tsv, .txt, .parquet); guessed if not given."""

    case: Annotated[str | None, Arg("COLUMN")] = None
    """Column that identifies the case of a row."""
    time: Annotated[str | None, Arg("COLUMN")] = None
    """Column with the time of a row: numbers or dates."""
    target: Annotated[str | None, Arg("COLUMN")] = None
    """Column with the targets; none if there is no such column."""
    ignore: Annotated[tuple[str, ...], Arg("COLUMN")] = ()
    """Columns to leave out."""
    channels: Annotated[tuple[str, ...], Arg("COLUMN")] = ()
    """Columns of the channels; by default all others."""

    def as_arguments(self) -> dict[str, Any]:
        """The columns that were given, as `lrcssm.data.load` takes them."""
        return {name: value for name, value in vars(self).items() if value not in (None, ())}


@dataclasses.dataclass(frozen=True)
class NewData:
    """Data for a trained model."""

    columns: ColumnOptions = ColumnOptions()
    missing: Missing | None = None
    """Policy for missing values: raise an error, skip their steps (mask), or carry the last value forward (fill). By default that of
    training."""
    solver: SolverName = "auto"
    """Solver of the recurrences."""
    data_dir: DataDir = None
    """Folder of the data sets; by default the variable LRCSSM_DATA, or the cache."""
