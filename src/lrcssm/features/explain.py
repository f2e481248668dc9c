"""Explanation of a linear read-out: the channels, time scales and statistics behind each prediction.

An output k of a case is an intercept plus a sum over the features f,

    output_k = factor · (b_k + Σ_f w_fk φ_f),        φ_f = sign(z_f) √|z_f|,

with z_f the feature standardised over the training cases, so φ = 0 is an average feature. The contribution of a feature is
its term, factor · w_fk φ_f, and that of a group of features is the sum of theirs. Nothing is left over: all contributions
to an output add up to it, but for the intercept.

A feature is a statistic of a unit, and belongs to

    a statistic     its own; those of several thresholds count as one, such as "above"
    a time scale    reach + τ steps: the reach of the unit's kernel, 8 dilations, and its time constant τ at rest; bands are half
                    decades, such as 10 to 30 steps
    its channels    a unit sees mixes of standardised channels. Channel c gets m_c² / Σ m² of the contribution, where m_c² sums
                    its squared weights: its share of the variance if channels and steps are uncorrelated

For a class, contributions are averaged over the cases that were predicted as the class, minus the average over all cases:
that is what tells these cases from the others. They add up to the mean output of the class over its cases minus the mean
over all cases. Bands of time scales have unequal numbers of units, and a unit with a short kernel and a long memory counts as
slow: compare the shares of a band between classes, and do not take the largest band for a duration. For a number, each group
has cov(contribution, prediction) / var(prediction) over the cases, and these shares add up to 1. Ridge regression divides
weight among features that say the same; so do contributions.
"""

import dataclasses
from typing import Any

import jax
import numpy as np

from ..data import Cases
from ..errors import InvalidType, InvalidValue
from .model import LiquidModel
from .readout import compressed
from .statistics import STATISTICS
from .units import SPEED, TAPS, Units

KINDS = tuple(dict.fromkeys(name.partition("-")[0] for name in STATISTICS))
"""Statistics of an explanation."""
_OF_KIND = np.array([[name.partition("-")[0] == kind for kind in KINDS] for name in STATISTICS], np.float64)
_HALF_DECADES = (3, 10)


@dataclasses.dataclass(frozen=True)
class Explanation:
    """Contributions of channels, time scales and statistics to predictions.

    **Attributes:**

    - `contributions`: to the prediction of each case, `(case, channel, time scale, statistic)`: to the logit of its predicted
        class, or to its number (the first, if there are several).
    - `by_class`: `(class, channel, time scale, statistic)`: the mean contribution to the logit of the class over the cases
        that were predicted as it, minus the mean over all cases; NaN if no case was predicted as the class. For numbers: the
        share of the variance of each output.
    - `predicted`: the number of the class that was predicted for each case; for numbers the predictions.
    - `classes`: labels of the classes; `None` for numbers.
    - `channels`, `time_scales`, `statistics`: names along the axes.
    """

    contributions: np.ndarray
    by_class: np.ndarray
    predicted: np.ndarray
    classes: tuple[str, ...] | None
    channels: tuple[str, ...]
    time_scales: tuple[str, ...]
    statistics: tuple[str, ...] = KINDS

    def by_channel(self) -> np.ndarray:
        """`by_class` summed over time scales and statistics, `(class, channel)`."""
        return self.by_class.sum((2, 3))

    def by_time_scale(self) -> np.ndarray:
        """`by_class` summed over channels and statistics, `(class, time scale)`."""
        return self.by_class.sum((1, 3))

    def by_statistic(self) -> np.ndarray:
        """`by_class` summed over channels and time scales, `(class, statistic)`."""
        return self.by_class.sum((1, 2))


def explain(model: Any, cases: Cases, *, classes: Any = None, channels: tuple[str, ...] | None = None) -> Explanation:
    """Divide the predictions for some cases among channels, time scales and statistics.

    ```python
    import numpy as np
    from lrcssm.data import Cases
    from lrcssm.features import LiquidModel, explain

    rng = np.random.default_rng(0)
    cases = Cases.of(rng.standard_normal((20, 30, 2)), targets=np.arange(20) % 2)
    model = LiquidModel.fit(cases, "classify", 2, n_features=1000)
    found = explain(model, cases)
    print(found.contributions.shape, found.time_scales)  # (20, 2, 4, 11) ('up to 3 steps', ...)
    ```

    **Arguments:**

    - `model`: a `LiquidModel` with a read-out.
    - `cases`: to explain; the average by class needs several.
    - `classes`: labels of the classes; they are counted if not given.
    - `channels`: names of the channels; they are counted if not given.

    **Returns:**

    An `Explanation`.
    """
    if not isinstance(model, LiquidModel):
        raise InvalidType(f"explain got a {type(model).__name__}; give a LiquidModel, as ridge regression has it.")
    if (readout := model.readout) is None:
        raise InvalidValue("explain got a model without a read-out; fit an LrcRidgeClassifier or LrcRidgeRegressor.")
    units, features = model.map.units, model.map(cases)
    outputs = model.factor * readout(features)
    classify = model.task == "classify"
    chosen = outputs.argmax(1) if classify else np.zeros(len(cases), int)
    bands, names = time_bands(units)
    shape = (len(STATISTICS), *bands.shape)
    weights = model.factor * readout.weights  # (features, outputs)
    divided = _Division(shape, bands, len(names), channel_shares(units))
    contributions = np.empty((len(cases), *divided.shape))
    total, own = np.zeros(weights.shape[0]), np.zeros(weights.shape[::-1])
    for i, row in enumerate(features):
        z = compressed(row, readout.mean, readout.scale).astype(np.float64)
        contributions[i] = divided(z * weights[:, chosen[i]])
        total += z
        if classify:
            own[chosen[i]] += z
        else:
            own += (outputs[i] - outputs.mean(0))[:, None] * z
    by_class = np.empty((weights.shape[1], *divided.shape))
    for k in range(len(by_class)):
        if classify:
            count = np.sum(chosen == k)
            direction = own[k] / count - total / len(cases) if count else np.full_like(total, np.nan)
        else:
            spread = np.sum((outputs[:, k] - outputs[:, k].mean()) ** 2)
            direction = own[k] / spread if spread > 0 else np.full_like(total, np.nan)
        by_class[k] = divided(direction * weights[:, k])
    if classify and classes is None:
        classes = range(outputs.shape[1])
    return Explanation(
        contributions, by_class, chosen if classify else outputs,
        None if classes is None or not classify else tuple(str(one) for one in np.asarray(classes).tolist()),
        tuple(channels or (f"channel {i}" for i in range(cases.channels))), names,
    )  # fmt: skip


class _Division:
    """Sums of numbers of all features, by channel, time scale and statistic."""

    def __init__(self, features: tuple[int, ...], bands: np.ndarray, count: int, shares: np.ndarray):
        self.features, self.shares = features, shares
        self.members = (bands[..., None] == np.arange(count)).astype(np.float64)  # (group, unit, band)
        self.shape = (shares.shape[0], count, len(KINDS))

    def __call__(self, values: np.ndarray) -> np.ndarray:
        each = values.reshape(self.features)  # (statistic, group, unit)
        of_kind = np.einsum("sgu,sk->kgu", each, _OF_KIND)
        return np.einsum("kgu,gub,cgu->cbk", of_kind, self.members, self.shares, optimize=True)


def channel_shares(units: Units) -> np.ndarray:
    """The share of each channel in the inputs of each unit, `(channel, group, unit)`: squared weights of mixes and kernels."""
    mixes = np.sum(np.asarray(units.mixes, np.float64) ** 2, 0)[:, np.asarray(units.sources)]  # (channel, group, tap)
    squares = np.einsum("cgt,gtu->cgu", mixes, np.asarray(units.cell.a_u, np.float64) ** 2)
    return squares / np.maximum(squares.sum(0), 1e-300)


def time_scales(units: Units) -> np.ndarray:
    """Steps that each unit looks back, `(group, unit)`: the reach of its kernel and its time constant at rest."""
    cell = units.cell
    forget = np.asarray(jax.vmap(lambda one: one._mean_forget())(cell), np.float64)
    sigmoid = lambda x: 1 / (1 + np.exp(-x))
    constants = 1 / np.log1p(SPEED * sigmoid(np.asarray(cell.v, np.float64)) * sigmoid(forget))
    return (TAPS - 1) * np.asarray(units.dilations, np.float64)[:, None] + constants


def time_bands(units: Units) -> tuple[np.ndarray, tuple[str, ...]]:
    """The number of each unit's band of time scales, `(group, unit)`, and the names of all bands that have units."""
    scales = time_scales(units)
    decades = int(np.ceil(np.log10(max(float(scales.max()), 10.0)))) + 1
    edges = np.array([edge * 10**power for power in range(decades) for edge in _HALF_DECADES])
    found, bands = np.unique(np.searchsorted(edges, scales), return_inverse=True)
    names = [
        f"up to {edges[0]} steps" if not one else f"{edges[one - 1]:,} to {edges[one]:,} steps"
        for one in found.tolist()
    ]
    return bands.reshape(scales.shape), tuple(names)
