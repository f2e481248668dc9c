"""How the features of all valid steps become those of the sequence, one piece of time after the other."""

from typing import Any

import equinox as eqx
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, DTypeLike, Float, PRNGKeyArray

from .layers import Linear, masked


class Pool(eqx.Module):
    """`(time, ..., width)` to `(..., pooled)`.

    What is seen of a sequence is added up piece by piece: `add` to `start` or to what an earlier call gave, then `result`.

    **Arguments:**

    - `kind`: `"mean"`, `"last"`, `"mean-max-std"` (three times the features) or `"attention"` (a learned weight for each
        step).
    """

    score: Linear | None
    kind: str = eqx.field(static=True)
    width: int = eqx.field(static=True)
    size: int = eqx.field(static=True)

    def __init__(self, kind: str, width: int, key: PRNGKeyArray):
        self.kind, self.width = kind, width
        self.size = 3 * width if kind == "mean-max-std" else width
        self.score = Linear(width, 1, key) if kind == "attention" else None

    def __call__(
        self, x: Float[Array, "time *batch width"], mask: Bool[Array, "time *batch"] | None
    ) -> Float[Array, "*batch pooled"]:
        """Of a whole sequence."""
        return self.result(self.add(self.start(x.shape[1:-1], x.dtype), x, mask))

    def start(self, batch: tuple[Any, ...], dtype: DTypeLike) -> dict[str, Any]:
        """What is known before the first step."""
        zero, one = jnp.zeros((*batch, self.width), dtype), jnp.zeros((*batch, 1), dtype)
        if self.kind == "last":
            return {"last": zero}
        if self.kind == "attention":
            return {"highest": one - jnp.inf, "weight": one, "sum": zero}
        found = {"count": one, "mean": zero}
        return found | ({"squares": zero, "highest": zero - jnp.inf} if self.kind == "mean-max-std" else {})

    def add(
        self, known: dict[str, Any], x: Float[Array, "time *batch width"], mask: Bool[Array, "time *batch"] | None
    ) -> dict[str, Any]:
        """What is known after some more steps."""
        if self.kind == "last":
            last = last_valid(x, mask)
            return {"last": last if mask is None else jnp.where(jnp.any(mask, 0)[..., None], last, known["last"])}
        if self.score is not None:
            return _attend(known, self.score(x), x, mask)
        found = _moments(known, x, mask)
        if self.kind == "mean-max-std":
            # By position: the gradient of a maximum looks for the value, and where the compiler computes that twice,
            # rounding can keep it from being found, which gives NaN.
            x = masked(x, mask, -jnp.inf)
            one = isinstance(x.shape[0], int) and x.shape[0] == 1
            highest = x[0] if one else jnp.take_along_axis(x, jnp.argmax(x, 0)[None], 0)[0]
            found["highest"] = jnp.where(highest > known["highest"], highest, known["highest"])
        return found

    def result(self, known: dict[str, Any]) -> Float[Array, "*batch pooled"]:
        """The features of the sequence."""
        if self.kind == "last":
            return known["last"]
        if self.kind == "attention":
            return known["sum"] / known["weight"]
        if self.kind == "mean":
            return known["mean"]
        variance = known["squares"] / jnp.maximum(known["count"], 1)
        return jnp.concatenate([known["mean"], known["highest"], jnp.sqrt(variance + 1e-6)], -1)


def _moments(known, x, mask):
    """The number of valid steps, their mean and (where it is known so far) the sum of squares around it."""
    steps = jnp.asarray(x.shape[0]) if mask is None else jnp.sum(mask, 0)[..., None]
    count = jnp.broadcast_to(steps.astype(x.dtype), known["count"].shape)
    mean = jnp.sum(masked(x, mask), 0) / jnp.maximum(count, 1)
    total = known["count"] + count
    share, apart = count / jnp.maximum(total, 1), mean - known["mean"]
    found = {"count": total, "mean": known["mean"] + share * apart}
    if "squares" in known:
        squares = jnp.sum(masked((x - mean) ** 2, mask), 0)
        found["squares"] = known["squares"] + squares + share * known["count"] * apart**2
    return found


def _attend(known, score, x, mask):
    """Sums of weights exp(score) and of weighted features, both over exp(highest score)."""
    score = masked(score, mask, -jnp.inf)
    highest = lax.stop_gradient(jnp.maximum(known["highest"], jnp.max(score, 0)))
    zero = jnp.where(jnp.isfinite(highest), highest, 0)  # no valid step yet
    weights, before = jnp.exp(score - zero), jnp.exp(known["highest"] - zero)
    return {
        "highest": highest,
        "weight": before * known["weight"] + jnp.sum(weights, 0),
        "sum": before * known["sum"] + jnp.sum(weights * masked(x, mask), 0),
    }


def last_valid(
    x: Float[Array, "time *batch features"], mask: Bool[Array, "time *batch"] | None
) -> Float[Array, "*batch features"]:
    """What is there at the last valid step of each sample."""
    if mask is None:
        return x[-1]
    steps = jnp.arange(x.shape[0]).reshape(-1, *(1,) * (mask.ndim - 1))
    last = jnp.max(jnp.where(mask, steps, 0), 0)
    return jnp.take_along_axis(x, last[None, ..., None], 0)[0]
