"""The space of a study: options of model and training, each with the values that it may take."""

import dataclasses
import itertools
import math
from collections.abc import Sequence
from types import NoneType
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
MOST_POINTS = 10**6
"""Largest number of points of a grid."""
COMPILED_FOR = {name for name in OPTIONS if name not in options_of(TrainingConfig)} | {"batch"}
"""Options whose values are compiled into the program; all others are arguments of one program."""


@dataclasses.dataclass(frozen=True)
class Axis:
    """An option and its values.

    **Attributes:**

    - `name`: of a field of `ModelConfig` or `TrainingConfig`, or `architecture`.
    - `values`: to choose from; empty if there is a range.
    - `range`: the smallest and the largest value of a range on a logarithmic scale; or `None`.
    """

    name: str
    values: tuple[Any, ...] = ()
    range: tuple[float, float] | None = None

    @property
    def ends(self) -> tuple[Any, ...]:
        """All values, or both ends of the range, with which a configuration is checked."""
        return self.values if self.range is None else self.range

    def suggested(self, trial: Any) -> Any:
        """The value of an Optuna trial, chosen by its sampler if it has none yet."""
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
"""Axes of a search. Options that need another compiled program have few values, so that few are compiled."""


@dataclasses.dataclass(frozen=True)
class Space:
    """Axes of a study; all of their combinations are tried if `grid` is true, and those that a sampler chooses if not."""

    grid: bool
    axes: tuple[Axis, ...]

    def points(self) -> list[dict[str, Any]]:
        """Points of a grid; those that share a compiled program are adjacent."""
        order = sorted(self.axes, key=lambda axis: axis.name not in COMPILED_FOR)
        names = [axis.name for axis in order]
        return [dict(zip(names, values, strict=True)) for values in itertools.product(*(axis.values for axis in order))]

    def samples(self) -> list[dict[str, Any]]:
        """A few points in which each value occurs."""
        first = {axis.name: axis.ends[0] for axis in self.axes}
        return [first | {axis.name: value} for axis in self.axes for value in axis.ends]

    def suggested(self, trial: Any) -> dict[str, Any]:
        """Settings of an Optuna trial."""
        return {axis.name: axis.suggested(trial) for axis in self.axes}

    def to_json(self) -> dict[str, Any]:
        """The space as JSON values."""
        return {
            "grid": self.grid,
            "axes": {a.name: a.values if a.range is None else {"range": a.range} for a in self.axes},
        }

    @classmethod
    def from_json(cls, found: dict[str, Any]) -> "Space":
        """The inverse of `to_json`; raises `InvalidValue` for anything else."""
        axes = []
        for name, values in found["axes"].items():
            ranged = isinstance(values, dict)
            axis = Axis(name, range=tuple(values["range"])) if ranged else Axis(name, tuple(values))
            low, high = (axis.range or (1, 2)) if ranged else (1, 2)
            plain = all(type(one) in (str, int, float, bool, NoneType) for one in axis.values)
            if name not in OPTIONS or not axis.ends or not plain or not 0 < low < high:
                raise InvalidValue(f"the axis {name!r} is not one of a study")
            axes.append(axis)
        if (
            type(found["grid"]) is not bool
            or not axes
            or math.prod(len(axis.values) or 1 for axis in axes) > MOST_POINTS
        ):
            raise InvalidValue("its space is not that of a study")
        return cls(found["grid"], tuple(axes))


def program(settings: dict[str, Any]) -> tuple[Any, ...]:
    """A key of the compiled program that some settings need."""
    return tuple(sorted((name, str(value)) for name, value in settings.items() if name in COMPILED_FOR))


def make_space(kind: str, vary: Sequence[str], held: Sequence[str]) -> Space:
    """Make the space of a study.

    ```python
    from lrcssm.tuning.space import make_space

    space = make_space("paper", ["learning_rate=1e-3,1e-2"], held=["num_blocks"])
    print(len(space.points()))  # 18
    ```

    **Arguments:**

    - `kind`: `"paper"`, the grid of the paper, or `"search"`.
    - `vary`: `name=value,value` or `name=low..high`; replaces the axis of that name, or adds one.
    - `held`: names of options with a fixed value, which are not varied.

    **Returns:**

    A `Space`. Raises `InvalidValue` for words in `vary` that cannot be read.
    """
    grid = kind == "paper"
    axes = {axis.name: axis for axis in (PAPER if grid else SEARCH) if axis.name not in held}
    for word in vary:
        axis = _axis(word, grid)
        if axis.name in held:
            raise InvalidValue(f"vary got {word!r}, but {axis.name} has a fixed value; give one of the two.")
        axes[axis.name] = axis
    if not axes:
        raise InvalidValue(
            "Every option of the space has a fixed value; leave one of them out, or name others in vary."
        )
    return Space(grid, tuple(axes.values()))


def _axis(word: str, grid: bool) -> Axis:
    name, equals, text = word.partition("=")
    name = name.removeprefix("--").replace("-", "_")
    if not equals or not text:
        raise InvalidValue(f"vary got {word!r}; give name=value,value, as in hidden_dim=32,64.")
    if name not in OPTIONS:
        raise InvalidValue(f"vary got {word!r}, which is not an option; give one of {', '.join(OPTIONS)}.")
    low, dots, high = text.partition("..")
    if not dots:
        values = tuple(_value(name, one) for one in text.split(","))
        if len(set(values)) < len(values):
            raise InvalidValue(f"vary got {word!r}; give each value once.")
        return Axis(name, values)
    ends = _value(name, low), _value(name, high)
    if grid or not all(isinstance(end, float) for end in ends):
        raise InvalidValue(f"vary got {word!r}; only a search varies ranges, and only of real numbers; give a list.")
    if not 0 < ends[0] < ends[1]:
        raise InvalidValue(f"vary got {word!r}; give a range from a positive number to a larger one.")
    return Axis(name, range=ends)


def _value(name: str, text: str) -> Any:
    """A value as the command line would read it."""
    try:
        return convert(OPTIONS[name].kind, text)
    except ValueError as error:
        raise InvalidValue(f"vary: {name} {error}.") from None
