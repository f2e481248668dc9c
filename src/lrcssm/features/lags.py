"""Windows of a series as rows of a linear model: lags, level, covariates, and the states of random liquid units.

A window of W values y ends at step t. Its columns are, in blocks,

    near         (y_{t−i} − ℓ) / s for i from 0 to a season or a horizon, where ℓ is the mean of the last season, or of the window
                 if there is none, and s the scale of such differences in training; and covariates at these steps, standardised
    far          the same for the other steps of the window
    level        ℓ, standardised and cut off at 3 standard deviations
    states       of random `LRC` units after the window; they see near and far steps one after the other

Lags and states are relative to the level, so that a trend, which leads to new levels, does no harm.
"""

import dataclasses
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from ..data import Cases
from ..errors import InvalidValue
from . import sweep
from .fitting import check_units
from .map import some_taps
from .signals import Batches, Signals
from .units import Design, Units, draw, scaled, unit_arrays, units_of
from .views import Views

BATCH = 64
_VIEWS = ("levels", "differences")
_SIZES = ("channels", "known", "season", "near")
_OWN = ("scale", "level_mean", "level_scale", "other_mean", "other_scale", "state_mean", "state_scale")
_TINY = 1e-9
_MOST = 3.0  # a level further from those of training counts as this many of their standard deviations


class Rows(NamedTuple):
    """Columns of windows, in blocks `(windows, columns)`."""

    near: np.ndarray
    far: np.ndarray
    level: np.ndarray
    states: np.ndarray

    def scaled(self, factors: tuple[float, float, float, float]) -> np.ndarray:
        """All columns, each block times its factor; a factor of 0 leaves the block out."""
        return np.concatenate([factor * block for block, factor in zip(self, factors, strict=True) if factor], 1)


@dataclasses.dataclass(frozen=True)
class LagMap:
    """A map from windows to rows, with the scales of the training windows.

    **Attributes:**

    - `channels`: how many of the channels are forecast; the others are covariates.
    - `known`: how many of the covariates, the last of them, are known at the steps to be forecast.
    - `season`: steps of a season, 1 for none.
    - `near`: steps of a window that count as near.
    - `scale`: of the differences from the level, one for each forecast channel.
    - `level_mean`, `level_scale`: of the levels.
    - `other_mean`, `other_scale`: of the covariates.
    - `views`, `units`: of the random units.
    - `state_mean`, `state_scale`: of the states of the units after a window.
    """

    channels: int
    known: int
    season: int
    near: int
    scale: np.ndarray
    level_mean: np.ndarray
    level_scale: np.ndarray
    other_mean: np.ndarray
    other_scale: np.ndarray
    views: Views
    units: Units
    state_mean: np.ndarray
    state_scale: np.ndarray

    @classmethod
    def of(
        cls, cases: Cases, channels: int, *, known: int, season: int, horizon: int, design: Design,
        max_time: float | None, seed: int,
    ) -> "LagMap":  # fmt: skip
        """Random units and the scales of training windows.

        **Arguments:**

        - `cases`: windows, all of one length.
        - `channels`, `known`, `season`: as the attributes.
        - `horizon`: steps that are forecast.
        - `design`: how many units.
        - `max_time`: the longest time constant, in steps; half of the window if not given.
        - `seed`: of the random numbers.
        """
        pieces = np.stack(cases.series).astype(np.float64)
        own, others = pieces[..., :channels], pieces[..., channels:]
        level = levels(own, season)
        scale, other_mean = _positive((own - level).std((0, 1))), others.mean((0, 1))
        other_scale = _positive(others.std((0, 1)))
        seen = _seen(cases, (own - level) / scale, (others - other_mean) / other_scale)
        rng, length = np.random.default_rng(seed), pieces.shape[1]
        views = Views.of(seen, _VIEWS)
        units = draw(rng, design, len(_VIEWS), pieces.shape[2], length, max_time or max(length / 2, 1.0))
        sample = seen.take(np.sort(rng.permutation(len(seen))[:BATCH]))
        parts = Batches.of(sample, views, units, BATCH)
        taps = [some_taps(rng, parts.signals(which), units) for which in parts]
        found = cls(
            channels, known, season, min(max(season, horizon, 8), length), scale, level.mean(0)[0],
            _positive(level.std(0)[0]), other_mean, other_scale, views, scaled(units, np.concatenate(taps)), np.zeros(1),
            np.ones(1),
        )  # fmt: skip
        states = found.states(seen)
        return dataclasses.replace(found, state_mean=states.mean(0), state_scale=_positive(states.std(0)))

    def __call__(self, cases: Cases, future: np.ndarray | None = None) -> Rows:
        """Rows of windows.

        **Arguments:**

        - `cases`: windows.
        - `future`: the last covariates at the steps to be forecast, `(windows, horizon, known)`.
        """
        pieces = np.stack(cases.series).astype(np.float64)
        level = levels(pieces[..., : self.channels], self.season)
        own = (pieces[..., : self.channels] - level) / self.scale
        seen = _seen(cases, own, (pieces[..., self.channels :] - self.other_mean) / self.other_scale)
        steps = np.stack(seen.series)
        far, near = (part.reshape(len(part), -1) for part in np.split(steps, [steps.shape[1] - self.near], 1))
        if future is not None and self.known:
            ahead = (future - self.other_mean[-self.known :]) / self.other_scale[-self.known :]
            near = np.concatenate([near, ahead.reshape(len(near), -1)], 1)
        states = (self.states(seen) - self.state_mean) / self.state_scale
        # All states together weigh as much as all lags.
        states *= np.sqrt((near.shape[1] + far.shape[1]) / states.shape[1])
        far_off = np.clip((level[:, 0] - self.level_mean) / self.level_scale, -_MOST, _MOST)
        return Rows(near, far, far_off, states)

    def columns(self, window: int, inputs: int, horizon: int) -> int:
        """Number of columns of all blocks, for windows of so many steps and channels."""
        return window * inputs + self.known * horizon + self.channels + self.units.cell.v.size

    def states(self, cases: Cases) -> np.ndarray:
        """States of the units after windows that are relative to their levels, `(windows, units)`."""
        found = np.empty((len(cases), self.units.cell.v.size))

        def compute(signals: Signals, which: np.ndarray) -> None:
            # Every step is written to the same slot, so that the last one remains.
            last = sweep.recorded(self.units, signals, jnp.zeros(len(signals.dt), jnp.int32), 1)[0]
            found[which] = np.moveaxis(np.asarray(last), -1, 0)[: len(which)].reshape(len(which), -1)

        Batches.of(cases, self.views, self.units, BATCH).run(compute)
        return found

    def to_arrays(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """Everything that rows depend on: JSON, and arrays by name."""
        arrays = {name: getattr(self, name) for name in _OWN}
        arrays |= self.views.to_arrays()
        arrays |= unit_arrays(self.units)
        config = {name: getattr(self, name) for name in _SIZES}
        return config, arrays

    @classmethod
    def from_arrays(cls, config: dict[str, Any], arrays: dict[str, np.ndarray]) -> "LagMap":
        """The inverse of `to_arrays`."""
        views = Views.from_arrays(_VIEWS, arrays)
        units = units_of(arrays)
        check_units(views, units)
        own: dict[str, Any] = {name: arrays[name] for name in _OWN}
        sizes: dict[str, Any] = {name: config[name] for name in _SIZES}
        if any(type(size) is not int for size in sizes.values()):
            raise InvalidValue("its sizes are not whole numbers")
        found = cls(**sizes, views=views, units=units, **own)
        channels, others = found.channels, units.mixes.shape[1] - found.channels
        if not (channels > 0 and 0 <= found.known <= others and found.season > 0 and found.near > 0):
            raise InvalidValue("its channels, season or near steps are not those of its arrays")
        each = units.cell.v.size
        for names, size in ((_OWN[:3], channels), (_OWN[3:5], others), (_OWN[5:], each)):
            if any(own[name].shape != (size,) for name in names):
                raise InvalidValue(f"its {names[0]} is not that of its channels")
        return found


def levels(pieces: np.ndarray, season: int) -> np.ndarray:
    """The mean of the last season of windows `(windows, time, channels)`, or of the whole window if the season is 1."""
    return pieces[:, -season if season > 1 else 0 :].mean(1, keepdims=True)


def _seen(cases: Cases, own: np.ndarray, others: np.ndarray) -> Cases:
    """Windows as the units see them."""
    return dataclasses.replace(cases, series=tuple(np.concatenate([own, others], -1)), targets=None)


def _positive(scale: np.ndarray) -> np.ndarray:
    return np.where(scale > _TINY, scale, 1.0)
