"""Batch norm."""

import equinox as eqx
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float

from .layers import masked

_MOMENTUM = 0.99


class BatchNorm(eqx.Module):
    """Mean 0 and variance 1 of each feature over all observed steps of a batch; without parameters.

    Training takes the moments of each batch and keeps their average over batches, which is used otherwise.
    """

    mean: Float[Array, " width"]
    variance: Float[Array, " width"]
    count: Float[Array, ""]

    def __init__(self, width: int):
        self.mean, self.variance, self.count = jnp.zeros(width), jnp.ones(width), jnp.zeros(())

    def __call__(
        self, x: Float[Array, "time *batch width"], mask: Bool[Array, "time *batch"] | None, training: bool
    ) -> tuple[Float[Array, "time *batch width"], "BatchNorm"]:
        """Scale the features, and return them with the norm, its averages updated."""
        if not training:
            return _scale(x, self.mean, self.variance), self
        axes = tuple(range(x.ndim - 1))
        number = x.size // x.shape[-1] if mask is None else jnp.maximum(jnp.sum(mask), 1).astype(x.dtype)
        mean = jnp.sum(masked(x, mask), axes) / number
        variance = jnp.sum(masked((x - mean) ** 2, mask), axes) / number
        decay = jnp.minimum(_MOMENTUM, self.count / (self.count + 1))
        mix = lambda old, new: lax.stop_gradient(decay * old + (1 - decay) * new.astype(old.dtype))
        updated = eqx.tree_at(
            lambda norm: (norm.mean, norm.variance, norm.count),
            self,
            (mix(self.mean, mean), mix(self.variance, variance), self.count + 1),
        )
        return _scale(x, mean, variance), updated


def _scale(x: Array, mean: Array, variance: Array) -> Array:
    return (x - mean.astype(x.dtype)) * lax.rsqrt(variance.astype(x.dtype) + 1e-5)
