"""Features of the data for the encoder: scaling, differences, time, patches or signatures of windows."""

from typing import Any

import equinox as eqx
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float

from .config import ModelConfig
from .layers import masked, moments
from .signature import signature_size, valid_first, window_ends, window_signatures


class Features(eqx.Module):
    """`(time, ..., channels)` to `(time / patch, ..., features)` or `(windows, ..., signatures)`, with `dt` and mask
    of the new steps.

    Windows share the observed steps of each sequence evenly, so all sequences that are long enough have the same number of
    them; a shorter one has one for each step.
    """

    mean: Float[Array, " channels"]
    scale: Float[Array, " channels"]
    difference: Float[Array, " channels"]
    standardise: str = eqx.field(static=True)
    differences: bool = eqx.field(static=True)
    time: bool = eqx.field(static=True)
    patch: int = eqx.field(static=True)
    signature: tuple[tuple[str, Any], ...] = eqx.field(static=True)
    size: int = eqx.field(static=True)

    def __init__(self, config: ModelConfig):
        self.mean, self.scale = jnp.zeros(config.input_dim), jnp.ones(config.input_dim)
        self.difference = jnp.ones(config.input_dim)
        self.standardise, self.differences = config.standardise, config.differences
        self.time, self.patch = config.include_time, config.patch
        self.signature, self.size = config.signature, feature_size(config)

    def __call__(
        self,
        inputs: Float[Array, "time *batch channels"],
        dt: Any,
        mask: Bool[Array, "time *batch"] | None,
        before: tuple[Float[Array, "*batch channels"], Bool[Array, "*batch"]] | None,
    ) -> tuple[Float[Array, "steps *batch features"], Any, Bool[Array, "steps *batch"] | None]:
        """Compute features, `dt` and mask of the new steps.

        **Arguments:**

        - `inputs`, `dt`, `mask`: as for `SequenceModel`.
        - `before`: the sample before the first one, for the differences, and whether it was observed; where it was not, or
            without it, the first difference is 0.
        """
        inputs = masked(inputs, mask)
        x = self.scaled(inputs, mask)
        parts = [x]
        if self.differences:
            first = x[:1]
            if before is not None:
                last, valid = before
                first = self.scaled(jnp.where(valid[..., None], last, inputs[0])[None], None)
            parts.append(self._differences(jnp.diff(x, axis=0, prepend=first), _both(mask)))
        if self.time:
            parts.append(_share(x, dt, mask)[..., None])
        x = masked(jnp.concatenate(parts, -1), mask)
        if self.signature:
            return self._signatures(x, dt, mask, **dict(self.signature))
        return x if self.patch == 1 else self._patches(x), self._step(dt, mask, x.shape[0]), self._valid(mask)

    def scaled(self, x: Array, mask: Array | None) -> Array:
        """Scale the inputs."""
        if self.standardise == "channel":
            return (x - lax.stop_gradient(self.mean)) / lax.stop_gradient(self.scale)
        if self.standardise == "case":
            mean, variance = moments(x, mask)
            return (x - mean) / jnp.sqrt(variance + 1e-8)
        return x

    def _differences(self, x: Array, mask: Array | None) -> Array:
        """Scale differences of scaled inputs to unit scale too, because those of a smooth series are small."""
        x = masked(x, mask)
        if self.standardise == "channel":
            return x * lax.stop_gradient(self.scale / self.difference)
        if self.standardise == "case":
            return x / jnp.sqrt(moments(x, mask)[1] + 1e-8)
        return x

    def _signatures(self, x, dt, mask, *, windows, level, view, univariate):
        passed = jnp.ones(x.shape[:-1], x.dtype) if dt is None else jnp.broadcast_to(dt, x.shape[:-1]).astype(x.dtype)
        passed = jnp.cumsum(passed if mask is None else jnp.where(mask, passed, 0), 0)
        path, seen = x, mask
        if univariate:  # (time, ..., channels, time and channel)
            share = passed / jnp.where(passed[-1] > 0, passed[-1], 1)
            path = jnp.stack([jnp.broadcast_to(share[..., None], x.shape), x], -1)
            seen = None if mask is None else jnp.broadcast_to(mask[..., None], x.shape)
        tokens = window_signatures(path, windows=windows, level=level, view=view, mask=seen)
        tokens = tokens.reshape(windows, *x.shape[1:-1], self.size)

        passed, count = valid_first(passed[..., None], mask)
        ends, valid = window_ends(x.shape[0], windows, count)
        if dt is not None and jnp.ndim(dt):
            # In the unit of one step's time, as for patches.
            total = jnp.diff(jnp.take_along_axis(passed[..., 0], ends, 0), axis=0, prepend=0)
            total = total * windows / jnp.maximum(count, windows).astype(x.dtype)
            dt = jnp.where(valid, total, 1)
        return tokens, dt, None if mask is None and x.shape[0] >= windows else valid

    def _patches(self, x):
        x = _pad(x, self.patch)
        steps = x.shape[0] // self.patch
        x = jnp.moveaxis(x.reshape(steps, self.patch, *x.shape[1:]), 1, -2)
        return x.reshape(*x.shape[:-2], -1)

    def _step(self, dt, mask, length):
        if self.patch == 1 or dt is None or jnp.ndim(dt) == 0:
            return dt
        dt = _pad(dt if mask is None else jnp.where(mask, dt, 0), self.patch)
        # In the unit of one step's time, so that dt = 1 throughout stays 1.
        total = jnp.sum(dt.reshape(-1, self.patch, *dt.shape[1:]), 1) / self.patch
        return jnp.where(total > 0, total, 1)

    def _valid(self, mask):
        if self.patch == 1 or mask is None:
            return mask
        mask = _pad(mask, self.patch)
        return jnp.any(mask.reshape(-1, self.patch, *mask.shape[1:]), 1)


def feature_size(config: ModelConfig) -> int:
    """Count the features of a step for the encoder."""
    channels = config.input_dim * (2 if config.differences else 1) + int(config.include_time)
    if not config.signature:
        return config.patch * channels
    how = dict(config.signature)
    paths, each = (channels, 2) if how["univariate"] else (1, channels)
    return (2 if how["view"] == "both" else 1) * paths * signature_size(each, how["level"])


def _share(x, dt, mask):
    """Share of a sequence's time between its first and each observed step: from 0 to below 1, as i/T for T steps of equal
    length. Padding takes no time."""
    if mask is None and (dt is None or jnp.ndim(dt) == 0):
        share = jnp.arange(x.shape[0], dtype=x.dtype) / x.shape[0]
        return jnp.broadcast_to(share.reshape(-1, *(1,) * (x.ndim - 2)), x.shape[:-1])
    time = jnp.broadcast_to(jnp.asarray(1 if dt is None else dt, x.dtype), x.shape[:-1])
    time = time if mask is None else jnp.where(mask, time, 0)
    passed = jnp.cumsum(time, 0)
    first = passed[:1] if mask is None else jnp.min(jnp.where(mask, passed, jnp.inf), 0, keepdims=True)
    total = passed[-1:]
    return jnp.where(total > 0, (passed - first) / jnp.where(total > 0, total, 1), 0)


def _pad(x, multiple):
    extra = -x.shape[0] % multiple
    return jnp.pad(x, ((0, extra), *((0, 0),) * (x.ndim - 1))) if extra else x


def _both(mask):
    """True where a step and the one before it, if it is among these, are observed."""
    return None if mask is None else mask & jnp.concatenate([mask[:1], mask[:-1]])
