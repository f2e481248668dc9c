"""Checks of the arrays of random units in a file, before anything is computed with them."""

import equinox as eqx
import jax
import numpy as np

from ..errors import InvalidValue
from .units import TAPS, Units, cell_arrays, stacked
from .views import ARRAYS, VIEWS, Views

LONGEST = 2**20
"""Largest dilation that is believed; a stream keeps eight times as many samples."""


def check_units(views: Views, units: Units) -> None:
    """Raise `InvalidValue` if the arrays of views and units, as a file holds them, are not those of one map.

    **Arguments:**

    - `views`, `units`: made of these arrays.
    """
    groups, taps, each = units.cell.a_u.shape
    skeleton = eqx.filter_eval_shape(stacked, taps, each, jax.random.split(jax.random.key(0), groups))
    wanted = {f"cell.{name}": leaf.shape for name, leaf in vars(skeleton).items() if hasattr(leaf, "shape")}
    found = {f"cell.{name}": array.shape for name, array in cell_arrays(units.cell).items()}
    channels, signals = units.mixes.shape[1:] if units.mixes.ndim == 3 else (0, 0)
    wanted |= {"mixes": (len(views.names), channels, signals), "dilations": (groups,), "sources": (groups, TAPS)}
    found |= {name: np.shape(getattr(units, name)) for name in ("mixes", "dilations", "sources")}
    for name in ARRAYS:
        wanted[f"views.{name}"], found[f"views.{name}"] = (channels,), getattr(views, name).shape
    for name, shape in wanted.items():
        if found.get(name) != shape:
            raise InvalidValue(f"its {name} has shape {found.get(name)}, and {shape} is expected")
    if not views.names or any(name not in VIEWS for name in views.names):
        raise InvalidValue("its views are not known")
    for name, most in (("dilations", LONGEST), ("sources", signals - 1)):
        numbers = np.asarray(getattr(units, name))
        if numbers.dtype.kind not in "iu" or numbers.min() < 0 or numbers.max() > most:
            raise InvalidValue(f"its {name} are not whole numbers from 0 to {most}")
