"""One layer of a model: norm, what goes along time, mixer, skip."""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from ..engine import Solution, Solver
from .config import ModelConfig
from .layers import GLU, MLP, Linear, dropout, normalise
from .norm import BatchNorm, apply_norm
from .time import TimeLayer, make_layer


class Passed(NamedTuple):
    """What a block leaves behind: the state of its layer, how its recurrence was solved, and its norm gone on."""

    state: Any
    solution: Solution | None
    norm: BatchNorm | None


class Block(eqx.Module):
    """`(time, ..., inputs)` to `(time, ..., width)`, with the state of its layer.

    The layer sees the features of all steps, the mixer what it gives for each. A bidirectional block has a second layer
    that goes from the last valid step to the first. With `layout="bare"` the layer is the whole block.
    """

    layer: TimeLayer
    back: TimeLayer | None
    mixer: MLP | GLU | Linear | None
    norm: BatchNorm | None
    layout: str = eqx.field(static=True)
    dropout: float = eqx.field(static=True)
    size: int = eqx.field(static=True)

    def __init__(self, config: ModelConfig, inputs: int, key: PRNGKeyArray):
        keys = jax.random.split(key, 3)
        options: dict[str, Any] = dict(config.cell_options)
        self.layer = make_layer(config.cell, inputs, config.state_dim, options, keys[0])
        self.back = (
            make_layer(config.cell, inputs, config.state_dim, options, keys[1]) if config.bidirectional else None
        )
        self.layout, self.dropout = config.layout, config.dropout
        self.norm = BatchNorm(inputs) if config.norm == "batch" and config.layout == "pre-norm" else None
        features = self.layer.size + (self.back.size if self.back is not None else 0)
        self.size = features if self.layout == "bare" else config.hidden_dim
        self.mixer = None
        if self.layout == "bare":
            return
        if config.mixer == "glu":
            self.mixer = GLU(features, config.hidden_dim, config.activation, keys[2])
        elif config.mixer == "mlp":
            released = config.layout == "released"
            self.mixer = MLP(features, config.hidden_dim, config.hidden_dim, config.activation, keys[2], released)
        else:
            self.mixer = Linear(features, config.hidden_dim, keys[2])

    def __call__(
        self,
        h: Float[Array, "time *batch inputs"],
        *,
        state: Any,
        dt: Any,
        mask: Bool[Array, "time *batch"] | None,
        key: PRNGKeyArray | None,
        solver: Solver,
        throw: bool,
    ) -> tuple[Float[Array, "time *batch width"], Passed]:
        """The features after the block, and what it leaves behind."""
        keys = (None,) * 3 if key is None else jax.random.split(key, 3)
        inputs, norm = self.before(h, mask, training=key is not None)
        how: dict[str, Any] = {"solver": solver, "throw": throw}
        x, after, solution = self.layer(inputs, state=state, dt=dt, mask=mask, key=keys[1], **how)
        if self.back is not None:
            flipped = None if mask is None else jnp.flip(mask, 0)
            other = self.back(
                jnp.flip(inputs, 0), state=None, dt=_backwards(dt, mask), mask=flipped, key=keys[2], **how
            )
            x = jnp.concatenate([x, jnp.flip(other.outputs, 0)], -1)
        return self._after(h, inputs, x, keys[0]), Passed(after, solution, norm)

    def before(
        self, h: Float[Array, "time *batch inputs"], mask: Bool[Array, "time *batch"] | None, training: bool = False
    ) -> tuple[Float[Array, "time *batch inputs"], BatchNorm | None]:
        """What the layer sees, and the norm gone on."""
        if self.layout in ("post-norm", "plain", "bare"):
            return h, None
        return apply_norm(self.norm, h, mask, training)

    def _after(self, h, inputs, x, key):
        if self.mixer is None:
            return x
        if self.layout in ("pre-norm", "plain"):
            return h + dropout(self.mixer(x), self.dropout, key)
        if self.layout == "post-norm":
            return normalise(h + dropout(self.mixer(x), self.dropout, key))
        if x.shape == inputs.shape:  # released: the skip carries the normalised features
            h = normalise(x + inputs)
            return h + dropout(self.mixer(h), self.dropout, key)
        return normalise(dropout(self.mixer(x), self.dropout, key) + inputs)


def _backwards(dt: Any, mask: Array | None) -> Any:
    """The time between steps when they are gone through from the last to the first: that of the next valid step, and 1 for
    the last of them."""
    if dt is None or jnp.ndim(dt) == 0:
        return dt
    length = dt.shape[0]
    places = jnp.arange(length).reshape(-1, *(1,) * (dt.ndim - 1))
    valid = jnp.broadcast_to(places if mask is None else jnp.where(mask, places, length), dt.shape)
    here_or_later = lax.cummin(valid, reverse=True)
    after = jnp.concatenate([here_or_later[1:], jnp.full_like(here_or_later[:1], length)])
    found = jnp.take_along_axis(dt, jnp.minimum(after, length - 1), 0)
    return jnp.flip(jnp.where(after < length, found, jnp.ones_like(found)), 0)
