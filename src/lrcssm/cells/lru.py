"""The linear recurrent unit: a complex, diagonal, linear recurrence whose eigenvalues cannot leave the unit disc.

Orvieto et al. 2023, "Resurrecting Recurrent Neural Networks for Long Sequences" (everything per unit; B, C complex
matrices, ⊙ elementwise):

    Λ = exp(−exp(ν) + i exp(θ))            |Λ| = exp(−exp(ν)) < 1 for every ν
    x ← Λ x + exp(γ) (B u)                 exp(γ) = √(1 − |Λ|²) at the start, then learned
    y = Re(C x) + D ⊙ u                    input of the next layer

An LRU has no equation in continuous time. A step of Δt keeps Λ^Δt of the state, as Δt steps without input would; the weight of
the input does not depend on Δt.

Parameters are real, and so are all matrix products: B is held as [Re B, Im B] and C as [Re C; −Im C], each one matrix. The
functions for that are here; S5 and S4D use them too.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Complex, DTypeLike, Float, PRNGKeyArray

from ..errors import InvalidValue
from .base import Cell, linear


def real_dtype(owner: str, dtype: DTypeLike | None) -> np.dtype:
    """The dtype of a linear cell's parameters: real, and by default JAX's own float."""
    dtype = jnp.dtype(jnp.result_type(float) if dtype is None else dtype)
    if not jnp.issubdtype(dtype, jnp.floating):
        raise InvalidValue(f"{owner} got dtype={dtype}; give that of its real parameters, e.g. float32.")
    return dtype


def log_uniform(key: PRNGKeyArray, shape: tuple[int, ...], dtype: DTypeLike, low: float, high: float, owner: str):
    """The logarithms of numbers from `low` to `high` that are uniform in their logarithm."""
    if not 0 < low <= high:
        raise InvalidValue(f"{owner} got dt_min={low!r} and dt_max={high!r}; give 0 < dt_min <= dt_max.")
    return jax.random.uniform(key, shape, dtype, float(np.log(low)), float(np.log(high)))


def check_even(owner: str, state_dim: int) -> None:
    """Raise `InvalidValue` if states cannot be paired."""
    if state_dim < 2 or state_dim % 2:
        raise InvalidValue(f"{owner} got state_dim={state_dim!r}; give an even number: states come in conjugate pairs.")


def as_complex(halves: Float[Array, "... two_n"]) -> Complex[Array, "... n"]:
    """Complex numbers from their real and imaginary parts, the halves of the last axis."""
    return lax.complex(*jnp.split(halves, 2, -1))


def as_halves(numbers: Complex[Array, "... n"]) -> Float[Array, "... two_n"]:
    """The inverse of `as_complex`."""
    return jnp.concatenate([numbers.real, numbers.imag], -1)


class LRU(Cell):
    """A layer of linear recurrent units.

    ```python
    import jax, lrcssm

    cell = lrcssm.cells.LRU(3, 8, r_min=0.9, key=jax.random.key(0))
    inputs = jax.random.normal(jax.random.key(1), (1000, 3))
    states = lrcssm.solve(cell, inputs).states  # (1000, 8), complex
    outputs = cell.read(states, inputs)  # (1000, 3)
    ```

    **Arguments:**

    - `input_dim`, `state_dim`: number of features of input and output, and of complex units.
    - `r_min`, `r_max`, `max_phase`: at the start the eigenvalues are uniform over the part of the ring between these
        radii where the angle is between 0 and `max_phase`.
    - `dtype`: of the parameters, real; the default float if not given.
    - `key`: a `jax.random.key`.
    """

    affine = True
    nu: Float[Array, " units"]
    theta: Float[Array, " units"]
    gamma: Float[Array, " units"]
    b: Float[Array, "input two_units"]
    c: Float[Array, "two_units input"]
    d: Float[Array, " input"]
    input_dim: int = eqx.field(static=True)
    state_dim: int = eqx.field(static=True)

    def __init__(
        self,
        input_dim: int,
        state_dim: int,
        *,
        r_min: float | int = 0.0,
        r_max: float | int = 1.0,
        max_phase: float | int = 6.28,
        dtype: DTypeLike | None = None,
        key: PRNGKeyArray,
    ):
        if not 0 <= r_min < r_max <= 1:
            raise InvalidValue(f"LRU got r_min={r_min!r} and r_max={r_max!r}; give 0 <= r_min < r_max <= 1.")
        if not max_phase > 0:
            raise InvalidValue(f"LRU got max_phase={max_phase!r}; give a positive angle, at most 2π.")
        dtype = real_dtype("LRU", dtype)
        self.input_dim, self.state_dim = input_dim, state_dim
        keys = jax.random.split(key, 4)
        # Away from 0, whose logarithm is infinite.
        first, second = jax.random.uniform(keys[0], (2, state_dim), dtype, float(jnp.finfo(dtype).eps))
        square = first * (r_max**2 - r_min**2) + r_min**2  # of the modulus: uniform in the area of the ring
        self.nu = jnp.log(-0.5 * jnp.log(square))
        self.theta = jnp.log(max_phase * second)
        self.gamma = 0.5 * jnp.log1p(-square)
        self.b = jax.random.normal(keys[1], (input_dim, 2 * state_dim), dtype) / (2 * input_dim) ** 0.5
        self.c = jax.random.normal(keys[2], (2 * state_dim, input_dim), dtype) / state_dim**0.5
        self.d = jax.random.normal(keys[3], (input_dim,), dtype)

    def initial_state(self, batch_shape: tuple[int, ...] = ()) -> Complex[Array, "... units"]:
        """Zero."""
        return as_complex(jnp.zeros((*batch_shape, 2 * self.state_dim), self.d.dtype))

    def drive(self, inputs: Float[Array, "... input"]) -> Complex[Array, "... units"]:
        """exp(γ) (B u)."""
        gain = jnp.exp(self.gamma)
        return as_complex(linear(inputs, self.b * jnp.concatenate([gain, gain])))

    def step(
        self,
        state: Complex[Array, "... units"],
        drive: Complex[Array, "... units"],
        dt: Float[Array, "..."] | float = 1.0,
    ) -> Complex[Array, "... units"]:
        """The next state, elementwise in the state."""
        modulus, angle = jnp.exp(-dt * jnp.exp(self.nu)), dt * jnp.exp(self.theta)
        return lax.complex(modulus * jnp.cos(angle), modulus * jnp.sin(angle)) * state + drive

    def read(self, state: Complex[Array, "... units"], inputs: Float[Array, "... input"]) -> Float[Array, "... input"]:
        """Re(C x) + D ⊙ u."""
        return linear(as_halves(state), self.c) + self.d * inputs
