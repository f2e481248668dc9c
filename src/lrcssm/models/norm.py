"""The norms of a block."""

import equinox as eqx
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float

from .layers import masked, normalise

_MOMENTUM = 0.99


class BatchNorm(eqx.Module):
    """Mean 0 and variance 1 of each feature over all valid steps of a batch; without parameters.

    While training these are the batch's own, and an average over the batches is kept, which is taken afterwards.
    """

    mean: Float[Array, " width"]
    variance: Float[Array, " width"]
    count: Float[Array, ""]

    def __init__(self, width: int):
        self.mean, self.variance, self.count = jnp.zeros(width), jnp.ones(width), jnp.zeros(())

    def __call__(
        self, x: Float[Array, "time *batch width"], mask: Bool[Array, "time *batch"] | None, training: bool
    ) -> tuple[Float[Array, "time *batch width"], "BatchNorm"]:
        """The features at unit scale, and the norm with its averages gone on."""
        if not training:
            return self.scale(x, self.mean, self.variance), self
        axes = tuple(range(x.ndim - 1))
        number = x.size // x.shape[-1] if mask is None else jnp.maximum(jnp.sum(mask), 1).astype(x.dtype)
        mean = jnp.sum(masked(x, mask), axes) / number
        variance = jnp.sum(masked((x - mean) ** 2, mask), axes) / number
        decay = jnp.minimum(_MOMENTUM, self.count / (self.count + 1))
        mix = lambda old, new: lax.stop_gradient(decay * old + (1 - decay) * new.astype(old.dtype))
        gone_on = eqx.tree_at(
            lambda norm: (norm.mean, norm.variance, norm.count),
            self,
            (mix(self.mean, mean), mix(self.variance, variance), self.count + 1),
        )
        return self.scale(x, mean, variance), gone_on

    @staticmethod
    def scale(x: Array, mean: Array, variance: Array) -> Array:
        return (x - mean.astype(x.dtype)) * lax.rsqrt(variance.astype(x.dtype) + 1e-5)


def apply_norm(
    norm: BatchNorm | None,
    x: Float[Array, "time *batch width"],
    mask: Bool[Array, "time *batch"] | None,
    training: bool,
) -> tuple[Float[Array, "time *batch width"], BatchNorm | None]:
    """A batch norm if there is one, else each step's layer norm."""
    return (normalise(x), None) if norm is None else norm(x, mask, training)
