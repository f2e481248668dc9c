"""Recurrent cells, one file for each family, and a register for user-defined cells."""

import inspect
from typing import Any, TypeVar

from ..errors import InvalidType, InvalidValue
from .base import Cell as Cell, Envelope as Envelope
from .dense import DenseLRC as DenseLRC, DenseLTC as DenseLTC, DenseSTC as DenseSTC
from .gru import GRU as GRU, MGU as MGU
from .linoss import LinOSS as LinOSS
from .lrc import LRC as LRC
from .lru import LRU as LRU
from .lstm import LSTM as LSTM
from .ltc import LTC as LTC
from .s4 import S4D as S4D, LiquidS4 as LiquidS4
from .s5 import S5 as S5
from .s6 import S6 as S6
from .stc import STC as STC

ALL: dict[str, type[Cell]] = {
    cell.__name__: cell
    for cell in (LRC, STC, LTC, GRU, MGU, LSTM, LRU, S5, LinOSS, S6, S4D, LiquidS4, DenseLRC, DenseSTC, DenseLTC)
}
"""All built-in cells by name."""

RESERVED: set[str] = set()
"""Names that are reserved for other layers of a model."""
REGISTERED: dict[str, type[Cell]] = {}
"""The cells that `register` added, by their names."""

_Class = TypeVar("_Class")


def register(cell: _Class, *, name: str | None = None) -> _Class:
    """Make your own cell available by name: `ModelConfig(cell="Leaky")`, `LrcSSMClassifier(cell="Leaky")`.

    ```python
    import equinox as eqx
    import jax, lrcssm


    @lrcssm.cells.register
    class Leaky(lrcssm.cells.Cell):
        rate: jax.Array
        weight: jax.Array
        input_dim: int = eqx.field(static=True)
        state_dim: int = eqx.field(static=True)

        def __init__(self, input_dim, state_dim, *, key, scale=1.0):
            self.input_dim, self.state_dim = input_dim, state_dim
            self.rate = jax.numpy.zeros(state_dim)
            self.weight = scale * jax.random.normal(key, (input_dim, state_dim)) / input_dim**0.5

        def drive(self, inputs):
            return inputs @ self.weight

        def step(self, state, drive, dt=1.0):
            return state + dt * jax.nn.sigmoid(self.rate) * (jax.numpy.tanh(drive) - state)


    config = lrcssm.ModelConfig(input_dim=2, output_dim=3, cell="Leaky", cell_options={"scale": 0.5})
    model = lrcssm.SequenceModel(config, jax.random.key(0))
    ```

    A file holds the name of a cell, not its code: import the module that registers the cell before loading the file.

    **Arguments:**

    - `cell`: a subclass of `Cell` with the constructor `(input_dim, state_dim, *, key, ...)`. Further arguments need a default
        and can be set in `cell_options`.
    - `name`: its name; by default that of the class. Names of built-in cells and of other classes are rejected. The same class
        can be registered again, also after its module or notebook cell has been run again.

    **Returns:**

    The class, so that `register` works as a decorator.
    """
    made: Any = cell
    if not (isinstance(made, type) and issubclass(made, Cell)):
        raise InvalidType(f"register got {made!r}; give a class that is derived from lrcssm.cells.Cell.")
    if inspect.isabstract(made):
        missing = " and ".join(sorted(made.__abstractmethods__))
        raise InvalidType(f"register got {made.__name__}, which does not define {missing}; see lrcssm.cells.Cell.")
    _check_constructor(made)
    name = made.__name__ if name is None else name
    if not name.strip():
        raise InvalidValue(f"register got name={name!r}; give a name with at least one letter.")
    if name in ALL or name in RESERVED:
        raise InvalidValue(
            f"register got {made.__name__} under the name {name!r}, which is the name of a built-in cell or layer; give another name."
        )
    known = REGISTERED.get(name, made)
    if (known.__module__, known.__qualname__) != (made.__module__, made.__qualname__):
        raise InvalidValue(
            f"register got {made.__module__}.{made.__qualname__} under the name {name!r}, which "
            f"{known.__module__}.{known.__qualname__} has; give another name."
        )
    REGISTERED[name] = made
    return cell


def _check_constructor(cell: Any) -> None:
    signature = inspect.signature(cell)
    try:
        bound = signature.bind(1, 1, key=None).arguments
        right = tuple(bound) == ("input_dim", "state_dim", "key")
    except TypeError:
        right = False
    if not right:
        raise InvalidType(
            f"register got {cell.__name__}, which is made by {signature}; it must be made by (input_dim, state_dim, *, key), and "
            "all further arguments must have a default."
        )
