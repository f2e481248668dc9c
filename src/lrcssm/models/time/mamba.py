"""Mamba (Gu & Dao 2023, "Mamba: linear-time sequence modeling with selective state spaces").

Of H features u, with e the factor `expand`, K the steps of the convolution `conv` and ⊙ a product of features:

    x, z = W_in u                                    H to 2 · eH, no bias
    x ← silu(Σ_k c_k ⊙ x_{t−k} + b)                  k = 0..K − 1, each channel for itself
    y = S6(x)                                        eH channels, Δ of rank ⌈H/16⌉
    out = W_out (y ⊙ silu(z))                        eH to H, no bias

`dt` multiplies the Δ of S6; the convolution counts steps and ignores times. Masked steps are ignored.
"""

import math
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from ...cells.base import linear, uniform
from ...cells.s6 import S6
from ..context import Context
from .base import Outcome, Recurrent, TimeLayer, at_least_one
from .convolution import ShortConvolution, pack


class MambaState(NamedTuple):
    """State of Mamba: the last inputs of its convolution, and the state of S6."""

    inputs: Float[Array, "*batch steps channels"]
    cell: Float[Array, "*batch state"]


class Mamba(TimeLayer):
    """A selective state space behind a short convolution, with a gate.

    **Arguments:**

    - `input_dim`: features; there are as many outputs.
    - `state_dim`: states of each channel of S6.
    - `conv`: number of steps of the convolution.
    - `expand`: channels of S6 for each feature.
    """

    into: Float[Array, "width both"]
    short: ShortConvolution
    selective: Recurrent
    out: Float[Array, "channels width"]
    size: int = eqx.field(static=True)

    def __init__(self, input_dim: int, state_dim: int, *, conv: int = 4, expand: int = 2, key: PRNGKeyArray):
        at_least_one("Mamba", conv=conv, expand=expand)
        keys = jax.random.split(key, 4)
        channels = expand * input_dim
        self.size = input_dim
        self.short = ShortConvolution(conv, channels, keys[1])
        self.selective = Recurrent(S6(channels, state_dim, rank=math.ceil(input_dim / 16), key=keys[2]))
        dtype = self.short.weight.dtype
        self.into = uniform(keys[0], (input_dim, 2 * channels), dtype, input_dim**-0.5)
        self.out = uniform(keys[3], (channels, input_dim), dtype, channels**-0.5)

    def initial_state(self, batch: tuple[int, ...]) -> MambaState:
        steps, channels = self.short.weight.shape
        before = jnp.zeros((*batch, steps - 1, channels), self.short.weight.dtype)
        return MambaState(before, self.selective.initial_state(batch))

    def __call__(self, inputs: Float[Array, "time *batch width"], state: Any, context: Context) -> Outcome:
        before, first = (None, None) if state is None else state
        inputs, context, restore = pack(inputs, context)
        x, z = jnp.split(linear(inputs, self.into), 2, -1)
        x, seen = self.short(x, before, context.mask)
        y, last, solution = self.selective(jax.nn.silu(x), first, context)
        return Outcome(restore(linear(y * jax.nn.silu(z), self.out)), MambaState(seen, last), solution)
