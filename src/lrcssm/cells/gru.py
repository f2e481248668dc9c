"""Gated recurrent units whose recurrent weights are diagonal: each gate depends on its own unit's state and on all inputs.

GRU (w are vectors, U matrices, everything per unit):

    z = σ(w_z x + U_z u + b_z)           update gate
    r = σ(w_r x + U_r u + b_r)           reset gate
    c = tanh(w_c (r x) + U_c u + b_c)    candidate
    x ← (1 − z) x + z c

MGU, the minimal gated unit: one gate f instead of z and r.

A step of Δt keeps the share (1 − z)^Δt of the state, and the candidate fills the rest: a gate is the exponential
integrator of the rate softplus(w_z x + U_z u + b_z), because 1 − σ(a) = exp(−softplus(a)).
"""

from typing import ClassVar, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.nn import sigmoid, softplus
from jaxtyping import Array, DTypeLike, Float, Inexact, PRNGKeyArray

from .base import Cell, Envelope, as_factor, choose, linear, logit, spread_rates, uniform


def draw_gates(count, input_dim, state_dim, dtype, key):
    """For each gate a vector w, a matrix U and a vector b, from ±1/√state_dim."""
    dtype = jnp.result_type(float) if dtype is None else dtype
    limit = 1 / state_dim**0.5
    keys = iter(jax.random.split(key, 3 * count))
    shapes = ((state_dim,), (input_dim, state_dim), (state_dim,))
    return [[uniform(next(keys), shape, dtype, limit) for shape in shapes] for _ in range(count)]


def rescale(weights, input_dim):
    """Inputs of unit scale then move a gate or candidate by about one."""
    return weights * (1 / input_dim**0.5 / jnp.sqrt(jnp.mean(jnp.abs(weights) ** 2))).astype(weights.dtype)


def keep_and_fill(state, gate, candidate, dt):
    """`(1 − σ(gate))^dt` of the state and the candidate for the rest."""
    keep = jnp.exp(-as_factor(dt, state) * softplus(gate))
    return keep * state + (1 - keep) * candidate


def _gate_envelope(initial, input_bound, dt, w_gate, u_gate, b_gate, w_c, w_reset) -> Envelope | None:
    """The candidate is within ±1, and |∂ log(rate)/∂x| ≤ |w_gate| because σ(a) ≤ softplus(a)."""
    if jnp.iscomplexobj(w_gate):
        return None
    one = jnp.ones_like(w_gate)
    state = jnp.maximum(initial, one)
    reach = jnp.inf if input_bound is None else input_bound * jnp.linalg.norm(u_gate, axis=0)
    reach = reach + jnp.abs(w_gate) * state
    low, high = softplus(b_gate - reach), softplus(b_gate + reach)
    return Envelope(
        state=state,
        keep_low=jnp.exp(-dt[1] * high),
        keep_high=jnp.exp(-dt[0] * low),
        rest=one,
        keep_slope=jnp.abs(w_gate),
        rest_slope=jnp.abs(w_c) * (1 + state * jnp.abs(w_reset) / 4),
    )


class Gated(Cell):
    """A layer of units with gates and a candidate; `gates` are the letters of the gates, the update gate first."""

    w_c: Inexact[Array, " state"]
    u_c: Inexact[Array, "input state"]
    b_c: Inexact[Array, " state"]
    input_dim: int = eqx.field(static=True)
    state_dim: int = eqx.field(static=True)
    gates: ClassVar[str]

    def __init__(
        self,
        input_dim: int,
        state_dim: int,
        *,
        init: Literal["paper", "spread"] = "paper",
        max_time: float | int = 1000,
        dtype: DTypeLike | None = None,
        key: PRNGKeyArray,
    ):
        choose(type(self).__name__, "init", init, ("paper", "spread"))
        self.input_dim, self.state_dim = input_dim, state_dim
        letters = f"{self.gates}c"
        for letter, (w, u, b) in zip(letters, draw_gates(len(letters), input_dim, state_dim, dtype, key), strict=True):
            if init == "spread":
                u = rescale(u, input_dim)
                if letter == letters[0]:
                    u, b = u / 2, logit(spread_rates(state_dim, max_time, b.dtype))
                elif letter == "c":
                    u, b = 2 * u, b * state_dim**0.5  # candidates rest at different values
            for name, array in zip("wub", (w, u, b), strict=True):
                setattr(self, f"{name}_{letter}", array)


class GRU(Gated):
    """A layer of gated recurrent units with a diagonal Jacobian.

    ```python
    import jax, lrcssm

    cell = lrcssm.cells.GRU(3, 8, key=jax.random.key(0))
    inputs = jax.random.normal(jax.random.key(1), (1000, 3))
    states = lrcssm.solve(cell, inputs).states  # (1000, 8)
    ```

    **Arguments:**

    - `input_dim`, `state_dim`: features of the input and units.
    - `init`: `"paper"`, every parameter from ±1/√`state_dim`; or `"spread"`, time constants log-uniform from 1 to
        `max_time` steps through the update gate's bias, and candidates of unit scale.
    - `max_time`: for `init="spread"`: the length of your sequences.
    - `dtype`: of the parameters, real or complex; the default float if not given.
    - `key`: a `jax.random.key`.
    """

    w_z: Inexact[Array, " state"]
    u_z: Inexact[Array, "input state"]
    b_z: Inexact[Array, " state"]
    w_r: Inexact[Array, " state"]
    u_r: Inexact[Array, "input state"]
    b_r: Inexact[Array, " state"]
    gates: ClassVar[str] = "zr"

    def drive(self, inputs: Inexact[Array, "... input"]) -> tuple[Inexact[Array, "... state"], ...]:
        """The inputs' part of both gates and of the candidate."""
        return (
            linear(inputs, self.u_z) + self.b_z,
            linear(inputs, self.u_r) + self.b_r,
            linear(inputs, self.u_c) + self.b_c,
        )

    def step(
        self,
        state: Inexact[Array, "... state"],
        drive: tuple[Inexact[Array, "... state"], ...],
        dt: Float[Array, "..."] | float = 1.0,
    ) -> Inexact[Array, "... state"]:
        """The next state, elementwise in the state."""
        z, r, c = drive
        candidate = jnp.tanh(self.w_c * (sigmoid(self.w_r * state + r) * state) + c)
        return keep_and_fill(state, self.w_z * state + z, candidate, dt)

    def envelope(
        self, initial: Float[Array, " state"], input_bound: float | int | None, dt: tuple[float, float]
    ) -> Envelope | None:
        return _gate_envelope(initial, input_bound, dt, self.w_z, self.u_z, self.b_z, self.w_c, self.w_r)


class MGU(Gated):
    """A layer of minimal gated units with a diagonal Jacobian: a GRU with one gate for both update and reset.

    ```python
    import jax, lrcssm

    cell = lrcssm.cells.MGU(3, 8, key=jax.random.key(0))
    inputs = jax.random.normal(jax.random.key(1), (1000, 3))
    states = lrcssm.solve(cell, inputs).states  # (1000, 8)
    ```

    **Arguments:** as for [`GRU`][lrcssm.cells.GRU].
    """

    w_f: Inexact[Array, " state"]
    u_f: Inexact[Array, "input state"]
    b_f: Inexact[Array, " state"]
    gates: ClassVar[str] = "f"

    def drive(self, inputs: Inexact[Array, "... input"]) -> tuple[Inexact[Array, "... state"], ...]:
        """The inputs' part of the gate and of the candidate."""
        return linear(inputs, self.u_f) + self.b_f, linear(inputs, self.u_c) + self.b_c

    def step(
        self,
        state: Inexact[Array, "... state"],
        drive: tuple[Inexact[Array, "... state"], ...],
        dt: Float[Array, "..."] | float = 1.0,
    ) -> Inexact[Array, "... state"]:
        """The next state, elementwise in the state."""
        gate, c = drive
        gate = self.w_f * state + gate
        candidate = jnp.tanh(self.w_c * (sigmoid(gate) * state) + c)
        return keep_and_fill(state, gate, candidate, dt)

    def envelope(
        self, initial: Float[Array, " state"], input_bound: float | int | None, dt: tuple[float, float]
    ) -> Envelope | None:
        return _gate_envelope(initial, input_bound, dt, self.w_f, self.u_f, self.b_f, self.w_c, self.w_f)
