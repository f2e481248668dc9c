"""Linear oscillators: a forced, undamped or damped, harmonic oscillator for each unit.

Rusch & Rus 2025, "Oscillatory State-Space Models" (LinOSS), and Boyer, Rusch & Rus 2025, "Learning to Dissipate Energy in
Oscillatory State-Space Models" (D-LinOSS). For each unit, with position y and velocity z (B, C complex matrices, ⊙
elementwise):

    ÿ + G ẏ + A y = B u                         A ≥ 0; G = 0 unless damped
    im       z⁺ = z + Δ (−A y⁺ + B u),  y⁺ = y + Δ z⁺                  implicit: energy is lost
    imex     z⁺ = z + Δ (−A y  + B u),  y⁺ = y + Δ z⁺                  implicit-explicit: energy is kept
    damped   z⁺ = z + Δ (−A y − G z⁺ + B u),  y⁺ = y + Δ z⁺            energy loss set by G
    out = Re(C y) + D ⊙ u                       input of the next layer

Solved for z⁺, with S = 1 + Δ² A (im), 1 (imex) or 1 + Δ G (damped), all three are

    z⁺ = (z + Δ (−A y + B u)) / S,  y⁺ = y + Δ z⁺

The product of a step's two eigenvalues is 1/S. im is stable for all A ≥ 0. imex is for Δ² A ≤ 4, which A from 0 to 1 and
Δ = σ(Δ̂) < 1 give at the start. The damped form has complex eigenvalues, of modulus 1/√S ≤ 1, for
(√S − 1)² ≤ Δ² A ≤ (√S + 1)², and A is kept there.

The step is Δ = σ(Δ̂). `dt` multiplies it, also in the bounds of A; a damped unit then stays stable for every `dt`, while
its A may change with it. The state is [Re z, Im z, Re y, Im y].
"""

from typing import Literal

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.nn import relu, sigmoid
from jaxtyping import Array, DTypeLike, Float, PRNGKeyArray

from ..errors import InvalidValue
from .base import Cell, as_factor, choose, linear, uniform
from .lru import real_dtype


def twice(values: Float[Array, "... n"]) -> Float[Array, "... two_n"]:
    """Repeat values for the real and the imaginary parts."""
    return jnp.concatenate([values, values], -1)


class LinOSS(Cell):
    """A layer of linear oscillators.

    ```python
    import jax, lrcssm

    cell = lrcssm.cells.LinOSS(3, 8, discretisation="imex", key=jax.random.key(0))
    inputs = jax.random.normal(jax.random.key(1), (1000, 3))
    states = lrcssm.solve(cell, inputs).states  # (1000, 32): velocity and position, real and imaginary parts
    outputs = cell.read(states, inputs)  # (1000, 3)
    ```

    **Arguments:**

    - `input_dim`, `state_dim`: number of features of input and output, and of complex oscillators.
    - `discretisation`: `"im"`, `"imex"` or `"damped"`.
    - `r_min`, `r_max`: the damped form's eigenvalues are uniform over the ring between these radii at the start.
    - `dtype`: of the parameters, real; the default float if not given.
    - `key`: a `jax.random.key`.
    """

    structure = "block2"
    affine = True
    a: Float[Array, " units"]
    g: Float[Array, " units"] | None
    step_logit: Float[Array, " units"]
    b: Float[Array, "input two_units"]
    c: Float[Array, "two_units input"]
    d: Float[Array, " input"]
    input_dim: int = eqx.field(static=True)
    state_dim: int = eqx.field(static=True)
    discretisation: Literal["im", "imex", "damped"] = eqx.field(static=True)

    def __init__(
        self,
        input_dim: int,
        state_dim: int,
        *,
        discretisation: Literal["im", "imex", "damped"] = "im",
        r_min: float | int = 0.9,
        r_max: float | int = 1.0,
        dtype: DTypeLike | None = None,
        key: PRNGKeyArray,
    ):
        choose("LinOSS", "discretisation", discretisation, ("im", "imex", "damped"))
        if not 0 < r_min <= r_max <= 1:
            raise InvalidValue(f"LinOSS got r_min={r_min!r} and r_max={r_max!r}; give 0 < r_min <= r_max <= 1.")
        dtype = real_dtype("LinOSS", dtype)
        damped = discretisation == "damped"
        self.input_dim, self.state_dim, self.discretisation = input_dim, state_dim, discretisation
        keys = jax.random.split(key, 5)
        first, second = jax.random.uniform(keys[0], (2, state_dim), dtype)
        if damped:
            self.step_logit = 0.5 * jax.random.normal(keys[1], (state_dim,), dtype)
            step = sigmoid(self.step_logit)
            s = 1 / (first * (r_max**2 - r_min**2) + r_min**2)  # the eigenvalues' modulus is 1/√S
            self.g = (s - 1) / step
            self.a = (1 + s - 2 * jnp.sqrt(s) * jnp.cos(jnp.pi * second)) / step**2
        else:
            self.a, self.g, self.step_logit = first, None, second
        self.b = uniform(keys[2], (input_dim, 2 * state_dim), dtype, 1 / input_dim**0.5)
        self.c = uniform(keys[3], (2 * state_dim, input_dim), dtype, 1 / state_dim**0.5)
        self.d = jax.random.normal(keys[4], (input_dim,), dtype)

    def initial_state(self, batch_shape: tuple[int, ...] = ()) -> Float[Array, "... state"]:
        """Zero: velocity and position, real and imaginary parts."""
        return jnp.zeros((*batch_shape, 4 * self.state_dim), self.d.dtype)

    def drive(self, inputs: Float[Array, "... input"]) -> Float[Array, "... two_units"]:
        """Increment of the velocity in a step of `dt` = 1, Δ B u / S, real and imaginary part."""
        h, _, s = self._coefficients(1.0)
        return linear(inputs, self.b * twice(h / s))

    def step(
        self,
        state: Float[Array, "... state"],
        drive: Float[Array, "... two_units"],
        dt: Float[Array, "..."] | float = 1.0,
    ) -> Float[Array, "... state"]:
        """The next state."""
        h, a, s = self._coefficients(as_factor(dt, state))
        if not (isinstance(dt, float) and dt == 1):
            one, _, s_one = self._coefficients(1.0)
            drive = twice(h / s * s_one / one) * drive
        h, a, s = twice(h), twice(a), twice(s)
        own = jnp.concatenate([1 / s, 1 - h**2 * a / s], -1)
        other = jnp.concatenate([-h * a / s, h / s], -1)
        swapped = jnp.flip(state.reshape(*state.shape[:-1], 2, -1), -2).reshape(state.shape)  # [y, z]
        return own * state + other * swapped + jnp.concatenate([drive, h * drive], -1)

    def _coefficients(self, dt):
        """The step, A and S."""
        h = dt * sigmoid(self.step_logit)
        if self.g is None:
            a = relu(self.a)
            return h, a, 1 + h**2 * a if self.discretisation == "im" else jnp.ones_like(h)
        s = 1 + h * relu(self.g)
        low, high = ((jnp.sqrt(s) + sign) ** 2 / h**2 for sign in (-1, 1))
        return h, jnp.minimum(jnp.maximum(self.a, low), high), s

    def read(self, state: Float[Array, "... state"], inputs: Float[Array, "... input"]) -> Float[Array, "... input"]:
        """Re(C y) + D ⊙ u."""
        return linear(state[..., 2 * self.state_dim :], self.c) + self.d * inputs
