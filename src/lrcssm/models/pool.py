"""Pools: from the features of all observed steps to those of the sequence, one piece of time after the other."""

from typing import Any

import equinox as eqx
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, DTypeLike, Float, PRNGKeyArray

from ..cells.base import linear
from .layers import Linear, masked


class Pool(eqx.Module):
    """`(time, ..., width)` to `(..., pooled)`.

    A sequence is added up piece by piece: `add` to `start` or to the sums of an earlier call, then `result`.

    **Arguments:**

    - `kind`: `"mean"`, `"last"`, `"mean-max-std"` (three times the features) or `"attention"` (a learned weight for each
        step).
    """

    score: Float[Array, "width 1"] | None
    kind: str = eqx.field(static=True)
    width: int = eqx.field(static=True)
    size: int = eqx.field(static=True)

    def __init__(self, kind: str, width: int, key: PRNGKeyArray):
        self.kind, self.width = kind, width
        self.size = 3 * width if kind == "mean-max-std" else width
        self.score = Linear(width, 1, key).weight if kind == "attention" else None

    def __call__(
        self, x: Float[Array, "time *batch width"], mask: Bool[Array, "time *batch"] | None
    ) -> Float[Array, "*batch pooled"]:
        """Pool a whole sequence."""
        return self.result(self.add(self.start(x.shape[1:-1], x.dtype), x, mask))

    def start(self, batch: tuple[Any, ...], dtype: DTypeLike) -> dict[str, Any]:
        """Return the sums before the first step."""
        zero, one = jnp.zeros((*batch, self.width), dtype), jnp.zeros((*batch, 1), dtype)
        if self.kind == "last":
            return {"last": zero}
        if self.kind == "attention":
            return {"highest": one - jnp.inf, "weight": one, "sum": zero}
        found = {"count": one, "mean": zero}
        return found | ({"squares": zero, "highest": zero - jnp.inf} if self.kind == "mean-max-std" else {})

    def add(
        self, sums: dict[str, Any], x: Float[Array, "time *batch width"], mask: Bool[Array, "time *batch"] | None
    ) -> dict[str, Any]:
        """Return the sums after some more steps."""
        if self.kind == "last":
            last = last_valid(x, mask)
            return {"last": last if mask is None else jnp.where(jnp.any(mask, 0)[..., None], last, sums["last"])}
        if self.score is not None:
            return _attend(sums, linear(x, self.score), x, mask)
        found = _moments(sums, x, mask)
        if self.kind == "mean-max-std":
            # By position: the gradient of a maximum looks for the value, and where the compiler computes that twice,
            # rounding can keep it from being found, which gives NaN.
            x = masked(x, mask, -jnp.inf)
            one = isinstance(x.shape[0], int) and x.shape[0] == 1
            highest = x[0] if one else jnp.take_along_axis(x, jnp.argmax(x, 0)[None], 0)[0]
            found["highest"] = jnp.where(highest > sums["highest"], highest, sums["highest"])
        return found

    def result(self, sums: dict[str, Any]) -> Float[Array, "*batch pooled"]:
        """Compute the features of the sequence from the sums."""
        if self.kind == "last":
            return sums["last"]
        if self.kind == "attention":
            return sums["sum"] / sums["weight"]
        if self.kind == "mean":
            return sums["mean"]
        variance = sums["squares"] / jnp.maximum(sums["count"], 1)
        return jnp.concatenate([sums["mean"], sums["highest"], jnp.sqrt(variance + 1e-6)], -1)


def _moments(sums, x, mask):
    """The number of observed steps, their mean and (where it is among the sums) the sum of squares around it."""
    steps = jnp.asarray(x.shape[0]) if mask is None else jnp.sum(mask, 0)[..., None]
    count = jnp.broadcast_to(steps.astype(x.dtype), sums["count"].shape)
    mean = jnp.sum(masked(x, mask), 0) / jnp.maximum(count, 1)
    total = sums["count"] + count
    share, apart = count / jnp.maximum(total, 1), mean - sums["mean"]
    found = {"count": total, "mean": sums["mean"] + share * apart}
    if "squares" in sums:
        squares = jnp.sum(masked((x - mean) ** 2, mask), 0)
        found["squares"] = sums["squares"] + squares + share * sums["count"] * apart**2
    return found


def _attend(sums, score, x, mask):
    """Sums of weights exp(score) and of weighted features, both over exp(highest score)."""
    score = masked(score, mask, -jnp.inf)
    highest = lax.stop_gradient(jnp.maximum(sums["highest"], jnp.max(score, 0)))
    zero = jnp.where(jnp.isfinite(highest), highest, 0)  # no observed step yet
    weights, before = jnp.exp(score - zero), jnp.exp(sums["highest"] - zero)
    return {
        "highest": highest,
        "weight": before * sums["weight"] + jnp.sum(weights, 0),
        "sum": before * sums["sum"] + jnp.sum(weights * masked(x, mask), 0),
    }


def last_valid(
    x: Float[Array, "time *batch features"], mask: Bool[Array, "time *batch"] | None
) -> Float[Array, "*batch features"]:
    """Return the features of the last observed step of each sample."""
    if mask is None:
        return x[-1]
    steps = jnp.arange(x.shape[0]).reshape(-1, *(1,) * (mask.ndim - 1))
    last = jnp.max(jnp.where(mask, steps, 0), 0)
    return jnp.take_along_axis(x, last[None, ..., None], 0)[0]
