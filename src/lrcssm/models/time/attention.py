"""A transformer along time: every step attends to the steps before it.

With tokens x (features and position side by side), for each head

    q, k, v = x W_q + b_q, x W_k + b_k, x W_v + b_v,    each as wide as x
    y_t = Σ_{s ≤ t} softmax_s(q_t · k_s) v_s

and a layer, normalised after each sum (Vaswani et al., 2017):

    x ← norm(x + [y of all heads] W_o + b_o),    x ← norm(x + W₂ relu(W₁ x + b₁) + b₂)

The form and its first weights are those of the rough transformer (Moreno-Pino et al., 2024): positions are learned and
concatenated to the features, scores are not scaled, and both layers have the same weights. With signatures of windows as tokens
(`ModelConfig.signature`) it is the rough transformer.
"""

import math
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from ...cells.base import choose
from ...engine.system import chunk_length, scan_chunks
from ...errors import InvalidValue
from ..context import Context
from ..layers import Linear, dropout, masked, normalise
from .base import Outcome, TimeLayer, at_least_one


class Norm(eqx.Module):
    """Layer norm with a scale and a shift for each feature."""

    scale: Float[Array, " features"]
    shift: Float[Array, " features"]

    def __init__(self, features: int):
        self.scale, self.shift = jnp.ones(features), jnp.zeros(features)

    def __call__(self, x: Float[Array, "... features"]) -> Float[Array, "... features"]:
        return normalise(x) * self.scale + self.shift


class Layer(eqx.Module):
    """Attention, then an MLP; a norm after each."""

    queries_keys: Linear
    values: Linear
    out: Linear
    norm: Norm
    up: Linear
    down: Linear
    final: Norm
    heads: int = eqx.field(static=True)

    def __init__(self, size: int, heads: int, key: PRNGKeyArray):
        keys = jax.random.split(key, 5)
        self.queries_keys = _draw(size, 2 * heads * size, 0.01, keys[0])
        self.values = _draw(size, heads * size, 0.02, keys[1])
        self.out = _draw(heads * size, size, 0.02, keys[2])
        self.up, self.down = _draw(size, 4 * size, 0.02, keys[3]), _draw(4 * size, size, 0.02, keys[4])
        self.norm, self.final = Norm(size), Norm(size)
        self.heads = heads

    def __call__(
        self,
        x: Float[Array, "time batch size"],
        valid: Bool[Array, "time batch"] | None,
        *,
        causal: bool,
        scaled: bool,
        rate: float | int,
        key: PRNGKeyArray | None,
    ) -> Float[Array, "time batch size"]:
        keys = (None,) * 3 if key is None else jax.random.split(key, 3)
        split = lambda a: a.reshape(*a.shape[:2], -1, x.shape[-1])
        q, k = jnp.split(split(self.queries_keys(x)), 2, 2)
        if scaled:
            q = q / math.sqrt(x.shape[-1])
        y = attend(q, k, split(self.values(x)), valid, causal=causal, rate=rate, key=keys[0])
        x = self.norm(x + dropout(self.out(y.reshape(*x.shape[:2], -1)), rate, keys[1]))
        return self.final(x + dropout(self.down(jax.nn.relu(self.up(x))), rate, keys[2]))


class Transformer(TimeLayer):
    """Layers of self-attention.

    The cost grows with the square of the number of steps: use windows (`ModelConfig.signature`) or patches of a long
    series. `state_dim` is not used: every head is as wide as the tokens, which have `input_dim` features and
    `embedding` for the position. Positions count observed steps, and `dt` is ignored.

    **Arguments:**

    - `input_dim`: features of the input.
    - `heads`, `layers`: of attention.
    - `shared`: whether all layers have the same weights.
    - `positions`: `"learned"`, a vector for each of up to `max_length` steps; `"sinusoidal"`, for any number of steps;
        or `"none"`.
    - `embedding`: features of a position.
    - `causal`: whether a step attends only to itself and to earlier steps.
    - `scaled`: whether scores are divided by the root of the tokens' width.
    - `dropout`: share of the attention's weights, and of the features after it and after the MLP, that training drops.
    - `max_length`: the longest sequence that `positions="learned"` is for.
    - `key`: a `jax.random.key`.
    """

    whole: ClassVar[str | None] = "keeps nothing of the steps that it has seen"
    table: Float[Array, "positions embedding"] | None
    layers: tuple[Layer, ...]
    repeats: int = eqx.field(static=True)
    positions: str = eqx.field(static=True)
    embedding: int = eqx.field(static=True)
    causal: bool = eqx.field(static=True)
    scaled: bool = eqx.field(static=True)
    dropout: float | int = eqx.field(static=True)
    size: int = eqx.field(static=True)

    def __init__(
        self, input_dim: int, state_dim: int, *, heads: int = 1, layers: int = 2, shared: bool = True,
        positions: str = "learned", embedding: int = 10, causal: bool = True, scaled: bool = False,
        dropout: float | int = 0.1, max_length: int = 1024, key: PRNGKeyArray,
    ):  # fmt: skip
        del state_dim
        choose("Transformer", "positions", positions, ("learned", "sinusoidal", "none"))
        at_least_one("Transformer", heads=heads, layers=layers, embedding=embedding, max_length=max_length)
        if not 0 <= dropout < 1:
            raise InvalidValue(f"Transformer got dropout={dropout}; give a number from 0 to below 1.")
        keys = jax.random.split(key, 1 + layers)
        self.size = input_dim + (0 if positions == "none" else embedding)
        self.table = 0.02 * jax.random.normal(keys[0], (max_length, embedding)) if positions == "learned" else None
        self.layers = tuple(Layer(self.size, heads, k) for k in (keys[1:2] if shared else keys[1:]))
        self.repeats = layers if shared else 1
        self.positions, self.embedding, self.causal = positions, embedding, causal
        self.scaled, self.dropout = scaled, dropout

    def __call__(self, inputs: Float[Array, "time *batch width"], state: Any, context: Context) -> Outcome:
        length, batch, mask = inputs.shape[0], inputs.shape[1:-1], context.mask
        x = masked(inputs, mask).reshape(length, -1, inputs.shape[-1])
        valid = None if mask is None else mask.reshape(x.shape[:-1])
        if self.positions != "none":
            number = jnp.arange(length)[:, None] if valid is None else jnp.maximum(jnp.cumsum(valid, 0) - 1, 0)
            x = jnp.concatenate([x, self.position(jnp.broadcast_to(number, x.shape[:-1]), x.dtype)], -1)
        layers = self.layers * self.repeats
        for layer, own in zip(layers, context.keys(len(layers)), strict=True):
            x = layer(x, valid, causal=self.causal, scaled=self.scaled, rate=self.dropout, key=own)
        return Outcome(x.reshape(length, *batch, self.size), None, None)

    def position(self, number: Int[Array, "time batch"], dtype: Any) -> Float[Array, "time batch embedding"]:
        """Compute the features of the n-th step."""
        if self.table is not None:
            if number.shape[0] > self.table.shape[0]:
                raise InvalidValue(
                    f"Transformer got {number.shape[0]} steps but has positions for {self.table.shape[0]}; give a "
                    'larger max_length, positions="sinusoidal", or fewer steps (patch or signature).'
                )
            return self.table[number]
        waves = -(-self.embedding // 2)
        rates = jnp.asarray([10000 ** (-i / waves) for i in range(waves)], dtype)
        angles = number[..., None].astype(dtype) * rates
        return jnp.concatenate([jnp.sin(angles), jnp.cos(angles)], -1)[..., : self.embedding]


def attend(
    q: Float[Array, "time batch heads size"],
    k: Float[Array, "time batch heads size"],
    v: Float[Array, "time batch heads size"],
    valid: Bool[Array, "time batch"] | None,
    *,
    causal: bool,
    rate: float | int,
    key: PRNGKeyArray | None,
) -> Float[Array, "time batch heads size"]:
    """Average the values of the observed steps for each step. Scores are computed for some steps at a time, and recomputed in
    the backward pass, so memory does not grow with the square of the length."""
    length, batch, heads, _ = q.shape
    steps = jnp.arange(length)

    @jax.checkpoint
    def run(key, part):
        q, now = part
        scores = jnp.einsum("tbhd,sbhd->bhts", q, k)
        seen = now[:, None] >= steps if causal else jnp.ones((now.shape[0], length), bool)
        if valid is not None:
            seen = seen & valid.T[:, None, None, :]
        # The lowest number rather than -inf: a step with nothing to see, before all observed ones, must not become NaN.
        weights = jax.nn.softmax(jnp.where(seen, scores, jnp.finfo(scores.dtype).min), -1)
        if key is not None and rate > 0:
            key, own = jax.random.split(key)
            weights = jnp.where(jax.random.bernoulli(own, 1 - rate, weights.shape), weights / (1 - rate), 0)
        return key, jnp.einsum("bhts,sbhd->tbhd", weights, v)

    return scan_chunks(run, key, (q, steps), chunk_length(length, batch * heads * length))[1]


def _draw(inputs: int, outputs: int, scale: float, key: PRNGKeyArray) -> Linear:
    """Draw a map with normal weights and zero bias."""
    made = Linear(inputs, outputs, key)
    return eqx.tree_at(lambda m: m.weight, made, scale * jax.random.normal(key, (inputs, outputs)))
