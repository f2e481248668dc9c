"""Arrays of random units from a file: whether they fit together, before anything is computed with them."""

import equinox as eqx
import jax
import numpy as np

from ..errors import InvalidValue
from .units import Units, cell_arrays, stacked
from .views import VIEWS, Views

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
    channels = units.mixes.shape[1] if units.mixes.ndim == 3 else 0
    wanted |= {"mixes": (len(views.names), channels, groups), "dilations": (groups,)}
    found |= {"mixes": units.mixes.shape, "dilations": units.dilations.shape}
    for name in ("mean", "scale", "difference_scale", "case_difference_scale"):
        wanted[f"views.{name}"], found[f"views.{name}"] = (channels,), getattr(views, name).shape
    for name, shape in wanted.items():
        if found.get(name) != shape:
            raise InvalidValue(f"its {name} has shape {found.get(name)}, and {shape} is expected")
    if not views.names or any(name not in VIEWS for name in views.names):
        raise InvalidValue("its views are not known")
    dilations = np.asarray(units.dilations)
    if dilations.dtype.kind not in "iu" or dilations.min() < 1 or dilations.max() > LONGEST:
        raise InvalidValue(f"its dilations are not whole numbers from 1 to {LONGEST}")
