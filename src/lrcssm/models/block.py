"""One block of a model: norm, layer along time, mixer, skip."""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from ..engine import Solution
from .config import ModelConfig
from .context import Context
from .layers import GLU, MLP, Linear, dropout, normalise
from .norm import BatchNorm
from .time import TimeLayer, make_layer


class BlockResult(NamedTuple):
    """Results of a block besides its features: the state of its layer, the solution of its recurrence, and its batch norm
    with updated averages; each `None` if it does not exist."""

    state: Any
    solution: Solution | None
    norm: BatchNorm | None


class Block(eqx.Module):
    """A map from `(time, ..., inputs)` to `(time, ..., width)` with a state.

    The layer acts on the features of all steps, the mixer on the output of the layer at each step. A bidirectional block has a
    second layer that runs from the last observed step to the first. With `layout="bare"` the layer is the whole block.
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
        make = lambda key: make_layer(config.cell, inputs, config.state_dim, dict(config.cell_options), key)
        self.layer, self.back = make(keys[0]), make(keys[1]) if config.bidirectional else None
        self.layout, self.dropout, width = config.layout, config.dropout, config.hidden_dim
        self.norm = BatchNorm(inputs) if config.norm == "batch" and config.layout == "pre-norm" else None
        features = self.layer.size + (self.back.size if self.back is not None else 0)
        self.size = features if self.layout == "bare" else width
        if self.layout == "bare":
            self.mixer = None
        elif config.mixer == "glu":
            self.mixer = GLU(features, width, config.activation, keys[2])
        elif config.mixer == "mlp":
            self.mixer = MLP(features, width, width, config.activation, keys[2], self.layout == "released")
        else:
            self.mixer = Linear(features, width, keys[2])

    def __call__(
        self, h: Float[Array, "time *batch inputs"], state: Any, context: Context
    ) -> tuple[Float[Array, "time *batch width"], BlockResult]:
        """Run over some steps.

        **Arguments:**

        - `h`: features of all steps.
        - `state`: of an earlier call, to continue from; `None` at the start of a sequence.
        - `context`: of these steps.
        """
        drop, forward, backward = context.keys(3)
        inputs, norm = self.before(h, context.mask, training=context.key is not None)
        x, after, solution = self.layer(inputs, state, context.replace(key=forward))
        if self.back is not None:
            other = self.back(jnp.flip(inputs, 0), None, context.reversed().replace(key=backward))
            x = jnp.concatenate([x, jnp.flip(other.outputs, 0)], -1)
        return self._after(h, inputs, x, drop), BlockResult(after, solution, norm)

    def before(
        self, h: Float[Array, "time *batch inputs"], mask: Bool[Array, "time *batch"] | None, training: bool = False
    ) -> tuple[Float[Array, "time *batch inputs"], BatchNorm | None]:
        """Compute the inputs of the layer, and the batch norm with updated averages."""
        if self.layout in ("post-norm", "plain", "bare"):
            return h, None
        return (normalise(h), None) if self.norm is None else self.norm(h, mask, training)

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
