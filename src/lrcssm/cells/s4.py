"""Diagonal S4: for each feature of the input a complex, diagonal, linear system, in conjugate pairs.

Gu et al. 2022, "On the Parameterization and Initialization of Diagonal State Space Models" (for each feature h half of N
states n; the other half are their complex conjugates):

    ẋ_hn = A_hn x_hn + u_h                       A = −exp(ν) + i ω, so that Re A < 0
    Ā = exp(Δ A),  B̄ = (Ā − 1) / A               exact for an input that is constant over the step Δ_h
    S4D:       x_hn ← Ā x_hn + B̄ u_h
    LiquidS4:  x_hn ← (Ā + B̄ u_h) x_hn + B̄ u_h   B̄ = (Ā − 1) / A · B with a learned B
    y_h = 2 Re Σ_n C_hn x_hn + D_h u_h           input of the next layer

`init="lin"` is A = −1/2 + iπn and `init="inv"` is A = −1/2 + i (N/π) (N/(2n+1) − 1), n = 0 … N/2 − 1. S4D has no B of its
own, because only the product of B and C would matter. Hasani et al. 2022, "Liquid Structural State-Space Models", let the
input move the eigenvalue too.

`dt` multiplies Δ. The state has input_dim × state_dim/2 complex entries, those of a feature together: it is much larger than
the output, so models never keep the states of all steps.
"""

import abc
from typing import Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Complex, DTypeLike, Float, PRNGKeyArray

from .base import Cell, choose
from .lru import as_complex, check_even, log_uniform, real_dtype


def hold(z: Complex[Array, "..."]) -> tuple[Complex[Array, "..."], Complex[Array, "..."]]:
    """exp(z) and its mean (exp(z) − 1)/z from 0 to z, without cancellation at small z: with z = Δ A, the first is the factor of
    the state over a step with constant input, and Δ times the second that of the input."""
    size, angle = jnp.exp(z.real), z.imag
    cos, sin = jnp.cos(angle), jnp.sin(angle)
    grown = lax.complex(jnp.expm1(z.real) * cos - 2 * jnp.sin(angle / 2) ** 2, size * sin)  # exp(z) − 1
    return lax.complex(size * cos, size * sin), grown / z


class DiagonalS4(Cell):
    """Common parts of S4D and LiquidS4: parameters, discretisation and read-out."""

    affine = True
    expands = True
    nu: Float[Array, "input half"]
    omega: Float[Array, "input half"]
    log_step: Float[Array, " input"]
    c: Float[Array, "2 input half"]
    d: Float[Array, " input"]
    input_dim: int = eqx.field(static=True)
    state_dim: int = eqx.field(static=True)

    def __init__(
        self,
        input_dim: int,
        state_dim: int,
        *,
        init: Literal["lin", "inv"] = "lin",
        dt_min: float | int = 0.001,
        dt_max: float | int = 0.1,
        dtype: DTypeLike | None = None,
        key: PRNGKeyArray,
    ):
        name = type(self).__name__
        choose(name, "init", init, ("lin", "inv"))
        check_even(name, state_dim)
        dtype = real_dtype(name, dtype)
        self.input_dim, self.state_dim = input_dim, state_dim
        keys = jax.random.split(key, 3)
        half = (input_dim, state_dim // 2)
        n = np.arange(state_dim // 2)
        omega = np.pi * n if init == "lin" else state_dim / np.pi * (state_dim / (2 * n + 1) - 1)
        self.nu = jnp.full(half, np.log(0.5), dtype)
        self.omega = jnp.broadcast_to(jnp.asarray(omega, dtype), half)
        self.log_step = log_uniform(keys[0], (input_dim,), dtype, dt_min, dt_max, name)
        self.c = jax.random.normal(keys[1], (2, *half), dtype) * 0.5**0.5  # complex numbers of unit variance
        self.d = jax.random.normal(keys[2], (input_dim,), dtype)

    def initial_state(self, batch_shape: tuple[int, ...] = ()) -> Complex[Array, "... state"]:
        """Zero: the states of each feature."""
        return as_complex(jnp.zeros((*batch_shape, self.input_dim * self.state_dim), self.d.dtype))

    def drive(self, inputs: Float[Array, "... input"]) -> Float[Array, "... input"]:
        """The inputs, unchanged: their effect on the state depends on `dt`."""
        return inputs

    def step(
        self,
        state: Complex[Array, "... state"],
        drive: Float[Array, "... input"],
        dt: Float[Array, "..."] | float = 1.0,
    ) -> Complex[Array, "... state"]:
        """The next state, elementwise in the state."""
        keep, gain = self._discretised(dt)
        pushed = gain * drive[..., None].astype(gain.dtype)
        return (self._moved(keep, pushed) * self._by_feature(state) + pushed).reshape(state.shape)

    @abc.abstractmethod
    def _moved(self, keep: Array, pushed: Array) -> Array:
        """Factor of the state, given Ā and B̄ u."""

    def _discretised(self, dt) -> tuple[Complex[Array, "... input half"], Complex[Array, "... input half"]]:
        """Ā and B̄ for each feature and state."""
        h = (dt * jnp.exp(self.log_step))[..., None]
        keep, mean = hold(lax.complex(-h * jnp.exp(self.nu), h * self.omega))
        return keep, h.astype(mean.dtype) * mean

    def _by_feature(self, state):
        return state.reshape(*state.shape[:-1], self.input_dim, self.state_dim // 2)

    def read(self, state: Complex[Array, "... state"], inputs: Float[Array, "... input"]) -> Float[Array, "... input"]:
        """2 Re(C x) + D u for each feature."""
        x = self._by_feature(state)
        return 2 * jnp.sum(x.real * self.c[0] - x.imag * self.c[1], -1) + self.d * inputs


class S4D(DiagonalS4):
    """A layer of diagonal S4: one linear system for each feature.

    ```python
    import jax, lrcssm

    cell = lrcssm.cells.S4D(3, 8, key=jax.random.key(0))
    inputs = jax.random.normal(jax.random.key(1), (1000, 3))
    states = lrcssm.solve(cell, inputs).states  # (1000, 12), complex
    outputs = cell.read(states, inputs)  # (1000, 3)
    ```

    **Arguments:**

    - `input_dim`, `state_dim`: number of features of input and output, and of states for each of them, which must be
        even, because states come in pairs.
    - `init`: of the eigenvalues: `"lin"` or `"inv"`.
    - `dt_min`, `dt_max`: the steps Δ are log-uniform between them at the start.
    - `dtype`: of the parameters, real; the default float if not given.
    - `key`: a `jax.random.key`.
    """

    def _moved(self, keep, pushed):
        del pushed
        return keep

    def kernel(self, length: int) -> Float[Array, "time input"]:
        """Response to one impulse at its own step and those after it, without D: K_l = 2 Re Σ_n C B̄ Ā^l. From a zero state
        the outputs are the causal convolution of the inputs with it, and D u.

        One state after the other, so that the memory is that of the kernel."""
        weight = lax.complex(self.c[0], self.c[1]) * self._discretised(1.0)[1]
        h = jnp.exp(self.log_step)[:, None]
        each = [part.T for part in (weight.real, weight.imag, -h * jnp.exp(self.nu), h * self.omega)]
        steps = jnp.arange(length, dtype=h.dtype)[:, None]

        @jax.checkpoint
        def add(total, now):
            re, im, rate, speed = now
            return total + jnp.exp(steps * rate) * (re * jnp.cos(steps * speed) - im * jnp.sin(steps * speed)), None

        return 2 * lax.scan(add, jnp.zeros((length, self.input_dim), h.dtype), each)[0]


class LiquidS4(DiagonalS4):
    """A layer of diagonal S4 whose eigenvalues are moved by the input.

    ```python
    import jax, lrcssm

    cell = lrcssm.cells.LiquidS4(3, 8, key=jax.random.key(0))
    inputs = jax.random.normal(jax.random.key(1), (1000, 3))
    outputs = cell.read(lrcssm.solve(cell, inputs).states, inputs)  # (1000, 3)
    ```

    Nothing keeps |Ā + B̄ u| below 1: with large inputs the states grow.

    **Arguments:** as for [`S4D`][lrcssm.cells.S4D].
    """

    b: Float[Array, "2 input half"]

    def __init__(
        self,
        input_dim: int,
        state_dim: int,
        *,
        init: Literal["lin", "inv"] = "lin",
        dt_min: float | int = 0.001,
        dt_max: float | int = 0.1,
        dtype: DTypeLike | None = None,
        key: PRNGKeyArray,
    ):
        super().__init__(input_dim, state_dim, init=init, dt_min=dt_min, dt_max=dt_max, dtype=dtype, key=key)
        self.b = jnp.stack([jnp.ones_like(self.nu), jnp.zeros_like(self.nu)])

    def _discretised(self, dt):
        keep, gain = super()._discretised(dt)
        return keep, gain * lax.complex(self.b[0], self.b[1])

    def _moved(self, keep, pushed):
        return keep + pushed
