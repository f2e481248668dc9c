"""What goes along time in a block: every cell of `lrcssm.cells.ALL`, and the layers that are more than a recurrence."""

import inspect
from typing import Any

from jaxtyping import PRNGKeyArray

from ...cells import ALL
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
"""Every layer that is not a cell, by its name."""

_NOT_OPTIONS = ("input_dim", "state_dim", "dtype", "key")


def names() -> tuple[str, ...]:
    """What `ModelConfig.cell` can be."""
    return (*ALL, *LAYERS)


def options_of(name: str) -> tuple[str, ...]:
    """What `ModelConfig.cell_options` can hold for a name."""
    made = ALL[name] if name in ALL else LAYERS[name]
    return tuple(option for option in inspect.signature(made).parameters if option not in _NOT_OPTIONS)


def make_layer(name: str, input_dim: int, state_dim: int, options: dict[str, Any], key: PRNGKeyArray) -> TimeLayer:
    """A layer, or the layer around a cell."""
    if name in ALL:
        return Recurrent(ALL[name](input_dim, state_dim, key=key, **options))  # pyright: ignore[reportCallIssue]
    return LAYERS[name](input_dim, state_dim, key=key, **options)  # pyright: ignore[reportCallIssue]
