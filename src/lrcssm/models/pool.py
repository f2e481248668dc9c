"""How the features of all valid steps become those of the sequence."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from .layers import Linear, masked, moments


class Pool(eqx.Module):
    """`(time, ..., width)` to `(..., pooled)`.

    **Arguments:**

    - `kind`: `"mean"`, `"last"`, `"mean-max-std"` (three times the features) or `"attention"` (a learned weight for each
        step).
    """

    score: Linear | None
    kind: str = eqx.field(static=True)
    size: int = eqx.field(static=True)

    def __init__(self, kind: str, width: int, key: PRNGKeyArray):
        self.kind = kind
        self.size = 3 * width if kind == "mean-max-std" else width
        self.score = Linear(width, 1, key) if kind == "attention" else None

    def __call__(
        self, x: Float[Array, "time *batch width"], mask: Bool[Array, "time *batch"] | None
    ) -> Float[Array, "*batch pooled"]:
        if self.kind == "last":
            return last_valid(x, mask)
        if self.score is not None:
            weights = jax.nn.softmax(masked(self.score(x), mask, -jnp.inf), 0)
            return jnp.sum(weights * masked(x, mask), 0)
        mean, variance = moments(x, mask)
        if self.kind != "mean-max-std":
            return mean
        # By position: the gradient of a maximum looks for the value, and where the compiler computes that twice, rounding
        # can keep it from being found, which gives NaN.
        x = masked(x, mask, -jnp.inf)
        highest = jnp.take_along_axis(x, jnp.argmax(x, 0)[None], 0)[0]
        return jnp.concatenate([mean, highest, jnp.sqrt(variance + 1e-6)], -1)


def last_valid(
    x: Float[Array, "time *batch features"], mask: Bool[Array, "time *batch"] | None
) -> Float[Array, "*batch features"]:
    """What is there at the last valid step of each sample."""
    if mask is None:
        return x[-1]
    steps = jnp.arange(x.shape[0]).reshape(-1, *(1,) * (mask.ndim - 1))
    last = jnp.max(jnp.where(mask, steps, 0), 0)
    return jnp.take_along_axis(x, last[None, ..., None], 0)[0]
