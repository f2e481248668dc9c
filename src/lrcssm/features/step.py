"""One sample at a time: a model of liquid features that keeps the last samples, the states of its units and their running
statistics, and nothing else of the past."""

from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from ..cells import LRC
from . import statistics
from .map import FeatureMap
from .readout import Readout
from .statistics import Reference, Running
from .sweep import advance, resting
from .units import TAPS


class LiquidState(eqx.Module):
    """State of a model of liquid features between samples: the last samples, the newest first (and whether there was one),
    the states of the units and their statistics."""

    window: Float[Array, "time channels"]
    begun: Bool[Array, ""]
    units: Float[Array, "group unit 1"]
    running: Running


class LinearMap(eqx.Module):
    """A `Readout` in the precision of the units."""

    mean: Float[Array, " feature"]
    inverse_scale: Float[Array, " feature"]
    weights: Float[Array, "feature output"]
    intercept: Float[Array, " output"]

    @classmethod
    def of(cls, readout: Readout, factor: float, dtype: Any) -> "LinearMap":
        """The read-out times a factor."""
        parts = (readout.mean, 1 / readout.scale, factor * readout.weights, factor * readout.intercept)
        return cls(*(jnp.asarray(part, dtype) for part in parts))

    def __call__(self, features: Float[Array, " feature"]) -> Float[Array, " output"]:
        z = (features - self.mean) * self.inverse_scale
        return (jnp.sign(z) * jnp.sqrt(jnp.abs(z))) @ self.weights + self.intercept


class LiquidStep(eqx.Module):
    """The step of a `LiquidModel`: one sample and a state to an output and the next state, for `lrcssm.models.Stream`.

    `Trained.stream` and the exports make one. The views by case are not among its signals, since they need the whole series.
    """

    config: Any = eqx.field(static=True)
    dilations: tuple[int, ...] = eqx.field(static=True)
    sources: tuple[tuple[int, ...], ...] = eqx.field(static=True)
    cell: LRC
    reference: Reference
    mean: tuple[Float[Array, " channel"], Float[Array, " channel"]]
    levels: Float[Array, "signal channel"]
    differences: Float[Array, "signal channel"]
    readout: LinearMap | None

    @classmethod
    def of(cls, config: Any, features: FeatureMap, readout: Readout | None, factor: float) -> "LiquidStep":
        """The step of features and their read-out.

        **Arguments:**

        - `config`: the `LiquidConfig`.
        - `features`, `readout`, `factor`: as in `LiquidModel`.
        """
        views, units = features.views, features.units
        dtype = units.cell.v.dtype
        scales = {"levels": views.scale, "differences": views.scale * views.difference_scale}
        mixes = dict.fromkeys(scales, np.zeros(units.mixes.shape[:0:-1]))
        for name, mix in zip(views.names, units.mixes, strict=True):
            mixes[name] = mix.T / scales[name]
        # The mean in two parts: in single precision its rounding would be an error of all levels.
        high = views.mean.astype(dtype)
        mean = (jnp.asarray(high), jnp.asarray(views.mean - high, dtype))
        return cls(
            config, tuple(np.asarray(units.dilations).tolist()), tuple(map(tuple, np.asarray(units.sources).tolist())),
            units.cell, features.reference, mean,
            jnp.asarray(mixes["levels"], dtype), jnp.asarray(mixes["differences"], dtype),
            None if readout is None else LinearMap.of(readout, factor, dtype),
        )  # fmt: skip

    @property
    def dtype(self) -> np.dtype:
        """Precision of samples, states and outputs."""
        return np.dtype(self.cell.v.dtype)

    def check_steps(self) -> None:
        """Do nothing: a `LiquidStep` can always take one sample at a time."""

    def first_state(self) -> LiquidState:
        """The state before the first sample."""
        rest = resting(self.cell, 1)
        window = jnp.zeros(((TAPS - 1) * max(self.dilations) + 2, self.config.input_dim), self.dtype)
        return LiquidState(window, jnp.zeros((), bool), rest, statistics.start(rest))

    def step(
        self, sample: Float[Array, " channels"], state: LiquidState, *, dt: Any = None
    ) -> tuple[Float[Array, " outputs"], LiquidState]:
        """Compute the output after one more sample, and the state after it.

        **Arguments:**

        - `sample`: `(channels,)`.
        - `state`: of the call for the sample before, or `first_state()`.
        - `dt`: time of this step; 1 if not given.

        **Returns:**

        The output of the model for all samples so far, and a `LiquidState`.
        """
        sample = jnp.asarray(sample, self.dtype)
        gap = jnp.reshape(jnp.asarray(1.0 if dt is None else dt, self.dtype), (1,))
        # Before the first step a signal is what it is at the first step.
        before = jnp.where(state.begun, state.window[:-1], sample)
        window = jnp.concatenate([sample[None], before])
        new = advance(self.cell, state.units, self._taps(window), gap)
        running = statistics.update(state.running, state.units, new, jnp.ones_like(gap), self.reference)
        features = statistics.finish(running, new, self.reference).reshape(-1)
        output = features if self.readout is None else self.readout(features)
        return output, LiquidState(window, jnp.ones_like(state.begun), new, running)

    def skip(self, state: LiquidState) -> LiquidState:
        """The state after a step without a sample: for the kernels the last one is repeated; units and statistics do not
        change."""
        window = jnp.concatenate([state.window[:1], state.window[:-1]])
        return LiquidState(window, state.begun, state.units, state.running)

    def _taps(self, window: Float[Array, "time channels"]) -> Float[Array, "group tap 1"]:
        """The inputs of each group."""
        rows = np.array(self.dilations)[:, None] * np.arange(TAPS)  # (group, tap)
        now, before = (window.at[rows + k].get(mode="promise_in_bounds") for k in (0, 1))  # (group, tap, channel)
        levels = (now - self.mean[0]) - self.mean[1]
        sources = np.array(self.sources)
        parts = self.levels[sources] * levels + self.differences[sources] * (now - before)
        return jnp.sum(parts, 2)[:, :, None]
