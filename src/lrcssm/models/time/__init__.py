"""Layers along time: every cell of `lrcssm.cells.ALL` or of `lrcssm.cells.register`, and layers that are not plain recurrences."""

import inspect
from typing import Any

from jaxtyping import PRNGKeyArray

from ...cells import ALL, REGISTERED, RESERVED, Cell
from .attention import Transformer as Transformer
from .base import Outcome as Outcome, Recurrent as Recurrent, TimeLayer as TimeLayer
from .cde import NCDE as NCDE, NRDE as NRDE, LogNCDE as LogNCDE
from .convolution import Hyena as Hyena, S4DConvolution as S4DConvolution
from .mamba import Mamba as Mamba

LAYERS: dict[str, type[TimeLayer]] = {
    "Hyena": Hyena,
    "LogNCDE": LogNCDE,
    "Mamba": Mamba,
    "NCDE": NCDE,
    "NRDE": NRDE,
    "S4DConvolution": S4DConvolution,
    "Transformer": Transformer,
}
"""Layers that are not cells, by name."""
RESERVED.update(LAYERS)

_NOT_OPTIONS = ("input_dim", "state_dim", "dtype", "key")


def names() -> tuple[str, ...]:
    """List the values of `ModelConfig.cell`."""
    return (*ALL, *LAYERS, *REGISTERED)


def options_of(name: str) -> tuple[str, ...]:
    """List the keys of `ModelConfig.cell_options` for a name, as far as its constructor names them."""
    return tuple(p.name for p in _parameters(name) if p.name not in _NOT_OPTIONS and p.kind is not p.VAR_KEYWORD)


def takes_any_option(name: str) -> bool:
    """Return true if the constructor ends in `**options`, and therefore checks them itself."""
    return any(p.kind is p.VAR_KEYWORD for p in _parameters(name))


def make_layer(name: str, input_dim: int, state_dim: int, options: dict[str, Any], key: PRNGKeyArray) -> TimeLayer:
    """Make a layer, or the layer around a cell."""
    made = _class(name)(input_dim, state_dim, key=key, **options)  # pyright: ignore[reportCallIssue]
    return Recurrent(made) if isinstance(made, Cell) else made


def _class(name: str) -> type[Cell] | type[TimeLayer]:
    return (REGISTERED | ALL | LAYERS)[name]


def _parameters(name: str) -> tuple[inspect.Parameter, ...]:
    return tuple(inspect.signature(_class(name)).parameters.values())
