"""The liquid-resistance liquid-capacitance cell with a diagonal Jacobian.

Paper (equations 8 to 11; f and z as in `liquid.py`, everything per unit i):

    ε = w_x x + Σ_j w_u,ji u_j + v                     elastance
    ẋ = σ(ε) (−σ(f) x + tanh(z) e_leak)

Released code (`form="released"`): the elastance does not depend on the input.
Symmetric elastance: σ(ε + |s|) − σ(ε − |s|) in place of σ(ε).

The paper writes ε's offset v_u with the input's index inside a sum over inputs; summed it is one number for each unit,
and one with v_x.
"""

from typing import Literal

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.nn import sigmoid
from jaxtyping import Array, DTypeLike, Float, Inexact, PRNGKeyArray

from .base import choose, linear, logit, spread_rates, uniform
from .integrators import Integrator
from .liquid import ComplexParameters, Contraction, Form, Initialisation, Liquid, StateDependence, saturated_limits


class LRC(Liquid):
    """A layer of liquid-resistance liquid-capacitance units. Each unit depends on its own state and on all inputs.

    ```python
    import jax, lrcssm

    cell = lrcssm.cells.LRC(3, 8, key=jax.random.key(0))
    inputs = jax.random.normal(jax.random.key(1), (1000, 3))
    states = lrcssm.solve(cell, inputs).states  # (1000, 8)
    ```

    **Arguments:**

    - `input_dim`, `state_dim`: features of the input and units.
    - `form`: `"paper"`, the paper's equations, or `"released"`, those of the code released with it.
    - `state_dependence`: `"both"` for A(x,u) and b(x,u), `"b"` for A(u) and b(x,u), `"none"` for A(u) and b(u), which is
        affine in the state. A(u) means that neither f nor ε depends on the state.
    - `complex_parameters`: which of the state's parameters are complex: `"none"`, `"gk"` (g_x and k_x), `"gka"` or
        `"gkab"`. The state is then complex, and `read` gives Re(x c) + d with learned c and d.
    - `elastance`: `"monotone"` or `"symmetric"`.
    - `elastance_input`: whether the elastance depends on the input; by default as in `form`.
    - `nonnegative`: make the conductances g_x, g_u and g_leak positive (by softplus).
    - `integrator`: `"euler"` (the default), `"implicit"` or `"exponential"`.
    - `rho`: guarantee |∂x_t/∂x_{t-1}| ≤ rho for all inputs and parameters, for dt ≤ 1 (see the page on stability).
    - `contraction`: the method for `rho`: `"tanh-clamp"`, λ = ρ (1 − Δt α) with the Euler integrator; or
        `"negative-softplus-exponential"`, λ = ρ exp(−Δt α) with the exponential one, for any dt.
    - `init`: `"paper"`, every parameter from ±1/√`state_dim`; or `"spread"`, time constants log-uniform from 1 to
        `max_time` steps, and states of unit scale.
    - `max_time`: for `init="spread"`: the length of your sequences.
    - `dtype`: of the parameters, real or complex; the default float if not given.
    - `key`: a `jax.random.key`.
    """

    w_x: Inexact[Array, " state"] | None
    w_u: Inexact[Array, "input state"] | None
    v: Inexact[Array, " state"]
    s: Inexact[Array, " state"] | None
    elastance: Literal["monotone", "symmetric"] = eqx.field(static=True)

    def __init__(
        self,
        input_dim: int,
        state_dim: int,
        *,
        form: Form = "paper",
        state_dependence: StateDependence = "both",
        complex_parameters: ComplexParameters = "none",
        elastance: Literal["monotone", "symmetric"] = "monotone",
        elastance_input: bool | None = None,
        nonnegative: bool = False,
        integrator: Integrator | None = None,
        rho: float | None = None,
        contraction: Contraction = "tanh-clamp",
        init: Initialisation = "paper",
        max_time: float | int = 1000,
        dtype: DTypeLike | None = None,
        key: PRNGKeyArray,
    ):
        choose("LRC", "elastance", elastance, ("monotone", "symmetric"))
        shared, *own = jax.random.split(key, 6)
        super().__init__(
            input_dim, state_dim, form=form, state_dependence=state_dependence, complex_parameters=complex_parameters,
            nonnegative=nonnegative, integrator=integrator, rho=rho, contraction=contraction, init=init, dtype=dtype,
            key=shared,
        )  # fmt: skip
        self.elastance = elastance
        sees_input = form == "paper" if elastance_input is None else elastance_input
        dtype = self.e_leak.dtype
        spread = init == "spread"
        limit = 1 / state_dim**0.5
        self.w_x = (
            uniform(own[0], (state_dim,), dtype, 0.25 if spread else limit) if state_dependence == "both" else None
        )
        self.v = uniform(own[1], (state_dim,), dtype, limit)
        self.w_u = uniform(own[2], (input_dim, state_dim), dtype, limit) if sees_input else None
        self.s = uniform(own[3], (state_dim,), dtype, limit) if elastance == "symmetric" else None
        if spread:
            if sees_input:
                self.w_u = 0.5 / input_dim**0.5 * jax.random.normal(own[4], (input_dim, state_dim), dtype)
            share = spread_rates(state_dim, max_time, dtype) / sigmoid(self._mean_forget())
            if self.s is None:
                self.v = logit(jnp.minimum(share, 0.95))
            else:  # σ(s) − σ(−s) = tanh(s/2) at the middle
                self.v, self.s = jnp.zeros(state_dim, dtype), 2 * jnp.arctanh(jnp.minimum(share, 0.95))

    def drive(self, inputs: Inexact[Array, "... input"]) -> tuple[Inexact[Array, "... state"], ...]:
        """The inputs' part of the conductances, and of the elastance if it has one."""
        terms = super().drive(inputs)
        return terms if self.w_u is None else (*terms, linear(inputs, self.w_u))

    def _rates(self, x, f, z, drive, slope):
        ε = self.v if self.w_u is None else self.v + drive[0]
        if self.w_x is not None:
            ε = ε + (self.w_x if slope is None else self.w_x * slope) * x
        if self.s is None:
            e = sigmoid(ε)
        else:
            s = jnp.abs(self.s)
            e = sigmoid(ε + s) - sigmoid(ε - s)
        return sigmoid(f), self.e_leak * jnp.tanh(z), e

    def _limits(self, f, z):
        return saturated_limits(f, z, self.e_leak)

    def _elastance_slope(self):
        return None if self.w_x is None else jnp.abs(self.w_x)

    def _elastance_range(self, state: Float[Array, " state"], input_bound: float | int | None, slope):
        reach = jnp.zeros_like(self.v)
        if self.w_x is not None:
            reach = jnp.abs(self.w_x) * (1.0 if slope is None else slope) * state
        if self.w_u is not None:
            reach = reach + (jnp.inf if input_bound is None else input_bound * jnp.linalg.norm(self.w_u, axis=0))
        low, high = self.v - reach, self.v + reach
        w_x = jnp.zeros_like(self.v) if self.w_x is None else jnp.abs(self.w_x)
        if self.s is None:
            return sigmoid(low), sigmoid(high), w_x * sigmoid(-low)
        s = jnp.abs(self.s)
        bump = lambda ε: jnp.where(jnp.isfinite(ε), sigmoid(ε + s) - sigmoid(ε - s), 0)
        top = jnp.where((low < 0) & (high > 0), jnp.tanh(s / 2), jnp.maximum(bump(low), bump(high)))
        return jnp.minimum(bump(low), bump(high)), top, w_x
