"""The space of a study: options of model and training, each with the values that it may take."""

import dataclasses
import itertools
from collections.abc import Sequence
from typing import Any

from ..errors import InvalidValue
from ..models import ModelConfig
from ..options import Option, convert, options_of
from ..training import TrainingConfig

OPTIONS = {"architecture": Option("architecture", str, None, "")} | {
    option.name: option
    for option in (*options_of(ModelConfig).values(), *options_of(TrainingConfig).values())
    if option.name not in ("input_dim", "output_dim", "task", "cell_options", "signature", "seed")
}
"""Options that a study can vary."""
COMPILED_FOR = {name for name in OPTIONS if name not in options_of(TrainingConfig)} | {"batch"}
"""The options whose other values are another program; all others are numbers that one program takes."""


@dataclasses.dataclass(frozen=True)
class Axis:
    """An option and its values.

    **Attributes:**

    - `name`: of a field of `ModelConfig` or `TrainingConfig`, or `architecture`.
    - `values`: to choose from; empty if there is a range.
    - `range`: the least and the largest value, between which all count alike on a logarithmic scale; or `None`.
    """

    name: str
    values: tuple[Any, ...] = ()
    range: tuple[float, float] | None = None

    @property
    def ends(self) -> tuple[Any, ...]:
        """Values that stand for all, to see whether a model can be made of them."""
        return self.values if self.range is None else self.range

    def suggested(self, trial: Any) -> Any:
        """The value of an Optuna trial: the one that it has, or else the one that its sampler chooses."""
        if self.range is None:
            return trial.suggest_categorical(self.name, self.values)
        return trial.suggest_float(self.name, *self.range, log=True)


PAPER = (
    Axis("hidden_dim", (16, 64, 128)),
    Axis("state_dim", (16, 64, 256)),
    Axis("num_blocks", (2, 4, 6)),
    Axis("learning_rate", (1e-5, 1e-4, 1e-3)),
)
"""The grid of the paper's appendix, 81 points."""

SEARCH = (
    Axis("hidden_dim", (16, 64, 128)),
    Axis("state_dim", (16, 64, 256)),
    Axis("num_blocks", (1, 2, 4, 6)),
    Axis("dropout", (0.0, 0.1, 0.3)),
    Axis("learning_rate", range=(1e-5, 3e-2)),
    Axis("weight_decay", range=(1e-4, 1e-1)),
)
"""What a search varies. Whatever a program is compiled for has few values, so that it is not compiled for each trial."""


@dataclasses.dataclass(frozen=True)
class Space:
    """All axes of a study. `grid` says whether all their combinations are tried, or those that a sampler chooses."""

    grid: bool
    axes: tuple[Axis, ...]

    def points(self) -> list[dict[str, Any]]:
        """The points of a grid: what runs the same program stands together."""
        order = sorted(self.axes, key=lambda axis: axis.name not in COMPILED_FOR)
        names = [axis.name for axis in order]
        return [dict(zip(names, values, strict=True)) for values in itertools.product(*(axis.values for axis in order))]

    def samples(self) -> list[dict[str, Any]]:
        """A few points in which each value occurs."""
        first = {axis.name: axis.ends[0] for axis in self.axes}
        return [first | {axis.name: value} for axis in self.axes for value in axis.ends]

    def suggested(self, trial: Any) -> dict[str, Any]:
        """The settings of an Optuna trial."""
        return {axis.name: axis.suggested(trial) for axis in self.axes}

    def to_json(self) -> dict[str, Any]:
        return {
            "grid": self.grid,
            "axes": {a.name: a.values if a.range is None else {"range": a.range} for a in self.axes},
        }

    @classmethod
    def from_json(cls, found: dict[str, Any]) -> "Space":
        axes = []
        for name, values in found["axes"].items():
            axes.append(
                Axis(name, range=tuple(values["range"])) if isinstance(values, dict) else Axis(name, tuple(values))
            )
        return cls(found["grid"], tuple(axes))


def program(settings: dict[str, Any]) -> tuple[Any, ...]:
    """What of some settings decides which program is compiled."""
    return tuple(sorted((name, str(value)) for name, value in settings.items() if name in COMPILED_FOR))


def make_space(kind: str, vary: Sequence[str], held: Sequence[str]) -> Space:
    """The space that the user asks for.

    **Arguments:**

    - `kind`: `"paper"` or `"search"`.
    - `vary`: `name=value,value` or `name=low..high`, in the place of an axis of that name or as one more.
    - `held`: options that were given a value, which are not varied then.
    """
    grid = kind == "paper"
    axes = {axis.name: axis for axis in (PAPER if grid else SEARCH) if axis.name not in held}
    for word in vary:
        axis = _axis(word, grid)
        if axis.name in held:
            raise InvalidValue(f"--vary got {word!r}, but --{_option(axis.name)} holds it; give one of the two.")
        axes[axis.name] = axis
    if not axes:
        raise InvalidValue("Every option of the space is held at one value, so there is nothing to vary; see --vary.")
    return Space(grid, tuple(axes.values()))


def _axis(word: str, grid: bool) -> Axis:
    name, equals, text = word.partition("=")
    name = name.removeprefix("--").replace("-", "_")
    if not equals or not text:
        raise InvalidValue(f"--vary got {word!r}; give name=value,value as in hidden_dim=32,64.")
    if name not in OPTIONS:
        raise InvalidValue(f"--vary got {word!r}; give one of {', '.join(OPTIONS)}.")
    low, dots, high = text.partition("..")
    if not dots:
        values = tuple(_value(name, one) for one in text.split(","))
        if len(set(values)) < len(values):
            raise InvalidValue(f"--vary got {word!r}; give each value once.")
        return Axis(name, values)
    ends = _value(name, low), _value(name, high)
    if grid or not all(isinstance(end, float) for end in ends):
        raise InvalidValue(f"--vary got {word!r}; a range is for a search and for numbers with a point; give a list.")
    if not 0 < ends[0] < ends[1]:
        raise InvalidValue(f"--vary got {word!r}; a range goes from one positive number to a larger one.")
    return Axis(name, range=ends)


def _value(name: str, text: str) -> Any:
    """A value as the command line would read it."""
    try:
        return convert(OPTIONS[name].kind, text)
    except ValueError as error:
        raise InvalidValue(f"--vary got {text!r} for {name}, which --{_option(name)} refuses: it {error}.") from None


def _option(name: str) -> str:
    return name.replace("_", "-")
