"""A map from series to features: views, units and the reference of their states, drawn and calibrated on training cases."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from ..data import Cases
from ..errors import InvalidValue
from . import sweep
from .signals import Batches, Signals
from .statistics import STATISTICS, THRESHOLDS, Reference
from .units import TAPS, Design, Units, draw, scaled, unit_arrays, units_of
from .views import Views

GROUPS = 64
BATCH = 32
"""Cases that are computed side by side by default."""
_CALIBRATION_CASES = 64
_APART = 1e-4  # of the scale of the states: between a threshold and a state that many cases have
_SLOTS = 16  # steps of each calibration case whose states are looked at


class FeatureMap(NamedTuple):
    """Random liquid features.

    ```python
    import numpy as np
    from lrcssm.data import Cases
    from lrcssm.features import FeatureMap

    cases = Cases.of(np.random.default_rng(0).standard_normal((5, 30, 2)))  # (cases, time, channels)
    features = FeatureMap.of(cases, n_features=1000)(cases)
    print(features.shape)  # (5, 896)
    ```

    **Attributes:**

    - `views`: what the units see of a series.
    - `units`: the cells, and their signals.
    - `reference`: mean, scale and quantiles of the states of the training cases.
    - `batch`: how many cases are computed side by side.
    """

    views: Views
    units: Units
    reference: Reference
    batch: int = BATCH

    @classmethod
    def of(
        cls,
        cases: Cases,
        *,
        n_features: int,
        views: Sequence[str] | None = None,
        max_time: float | None = None,
        seed: int = 0,
        batch: int = BATCH,
    ) -> "FeatureMap":
        """Random units, calibrated on training cases.

        **Arguments:**

        - `cases`: the training cases.
        - `n_features`: how many features, about: units have `len(STATISTICS)` each, and groups have equally many units.
        - `views`: some of `lrcssm.features.VIEWS`; by default all that are not redundant.
        - `max_time`: the longest time constant, in steps; half of the median length if not given.
        - `seed`: of the random numbers.
        - `batch`: how many cases are computed side by side.
        """
        rng = np.random.default_rng(seed)
        chosen = Views.of(cases, views)
        length = int(np.median([len(one) for one in cases.series]))
        design = design_of(n_features)
        units = draw(rng, design, len(chosen.names), cases.channels, length, max_time or max(length / 2, 1.0))
        sample = cases.take(np.sort(rng.permutation(len(cases))[:_CALIBRATION_CASES]))
        parts = Batches.of(sample, chosen, units, batch)
        signals = [parts.signals(which) for which in parts]
        units = scaled(units, np.concatenate([some_taps(rng, part, units) for part in signals]))
        states = np.concatenate([_some_states(rng, part, units) for part in signals])
        return cls(chosen, units, _reference(rng, states), batch)

    @property
    def n_features(self) -> int:
        """Number of features."""
        return len(STATISTICS) * self.units.cell.v.size

    def names(self) -> list[str]:
        """Names of the features, in order, such as `mean_3_7`: the statistic, the group and the unit."""
        groups, units = self.units.cell.v.shape
        return [f"{name}_{g}_{u}" for name in STATISTICS for g in range(groups) for u in range(units)]

    def __call__(self, cases: Cases) -> np.ndarray:
        """The features of each case, `(cases, features)`, float32."""
        found = np.empty((len(cases), self.n_features), np.float32)

        def compute(signals: Signals, which: np.ndarray) -> None:
            pooled = np.asarray(sweep.pooled(self.units, self.reference, signals))
            found[which] = pooled[: len(which)].reshape(len(which), -1)

        Batches.of(cases, self.views, self.units, self.batch).run(compute)
        return found

    def to_arrays(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """Everything that the features depend on: JSON, and arrays by name."""
        arrays = self.views.to_arrays()
        arrays |= {f"reference.{name}": np.asarray(value) for name, value in self.reference._asdict().items()}
        arrays |= unit_arrays(self.units)
        return {"views": list(self.views.names), "batch": int(self.batch)}, arrays

    @classmethod
    def from_arrays(cls, config: dict[str, Any], arrays: dict[str, np.ndarray]) -> "FeatureMap":
        """The inverse of `to_arrays`."""
        views = Views.from_arrays(config["views"], arrays)
        reference = Reference(*(jnp.asarray(arrays[f"reference.{name}"]) for name in Reference._fields))
        return cls(views, units_of(arrays), reference, config["batch"])


def design_of(n_features: int) -> Design:
    """Groups and units for about so many features."""
    if n_features < len(STATISTICS):
        raise InvalidValue(f"n_features is {n_features}; give at least {len(STATISTICS)}, the statistics of one unit.")
    units = n_features // len(STATISTICS)
    groups = min(GROUPS, units)
    return Design(groups, max(1, round(units / groups)))


def _observed(signals: Signals) -> np.ndarray:
    return np.asarray(signals.dt[: int(signals.steps)]) > 0


def some_taps(rng: np.random.Generator, signals: Signals, units: Units) -> np.ndarray:
    """Taps of random steps, `(sample, group, tap)`."""
    when, case = np.nonzero(_observed(signals))
    picked = rng.integers(len(when), size=256)
    ago = np.asarray(units.dilations)[:, None] * np.arange(TAPS)
    steps = np.maximum(when[picked][:, None, None] - ago, 0)
    return np.asarray(signals.values)[steps, np.asarray(units.sources), case[picked][:, None, None]]


def _some_states(rng: np.random.Generator, signals: Signals, units: Units) -> np.ndarray:
    """States at random steps, `(sample, group, unit)`."""
    observed = _observed(signals)
    steps = len(observed)
    chosen = np.sort(rng.permutation(steps)[:_SLOTS])
    slots = np.full(len(signals.dt), _SLOTS, np.int32)
    slots[chosen] = np.arange(len(chosen))
    record = np.asarray(sweep.recorded(units, signals, jnp.asarray(slots), _SLOTS + 1))
    slot, case = np.nonzero(observed[chosen])
    return record[slot, :, :, case]


def _reference(rng: np.random.Generator, states: np.ndarray) -> Reference:
    """Mean, scale, and a random quantile from each quarter of the distribution."""
    mean, scale = states.mean(0), states.std(0)
    ordered = np.sort(states, 0)
    where = (np.arange(THRESHOLDS)[:, None, None] + rng.uniform(size=(THRESHOLDS, *mean.shape))) / THRESHOLDS
    # Between two states, so that rounding does not move a training state across.
    below = ((0.05 + 0.9 * where) * (len(ordered) - 1)).astype(int)
    above = np.minimum(below + 1, len(ordered) - 1)
    low, high = (np.take_along_axis(ordered, place, 0) for place in (below, above))
    scale = np.where(scale > 1e-4, scale, 1e-4)
    # Where both are the same state, as that after the first step is in all cases, because kernels of mean 0 see nothing in a
    # series before it moves: a little above it.
    margin = _APART * scale
    thresholds = np.where(high - low > 2 * margin, (low + high) / 2, high + margin)
    return Reference(*(jnp.asarray(part[..., None], jnp.float32) for part in (mean, scale, thresholds)))
