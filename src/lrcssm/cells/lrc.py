"""The liquid-resistance liquid-capacitance cell with a diagonal Jacobian.

Paper (equations 8 to 11; σ is the logistic function, everything per unit i, Δt the step):

    f = g_x σ(a_x x + b_x) + g_u σ(Σ_j a_u,ji u_j + b_u) + g_leak        forget conductance
    z = k_x σ(a_x x + b_x) + k_u σ(Σ_j a_u,ji u_j + b_u) + g_leak        update conductance
    ε = w_x x + Σ_j w_u,ji u_j + v                                       elastance
    x ← x + Δt σ(ε) (−σ(f) x + tanh(z) e_leak)

Released code (`form="released"`): each input has a synapse of its own, σ(σ_u,j (u_j − μ_j)), mixed by full matrices
into f and z; the elastance does not see the input; and the state's synapse is σ(a_x (x − μ_x)).

The paper writes the offsets b_u and v_u with the input's index inside a sum over inputs; summed they are one number
for each unit, which is what is learned here (and v_u is one with v_x).
"""

from typing import Literal

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.nn import sigmoid
from jaxtyping import Array, DTypeLike, Float, Inexact, PRNGKeyArray

from .base import Cell, linear, uniform


class LRC(Cell):
    """A layer of liquid-resistance liquid-capacitance units, each of which sees its own state and all inputs.

    ```python
    import jax, lrcssm

    cell = lrcssm.cells.LRC(3, 8, key=jax.random.key(0))
    inputs = jax.random.normal(jax.random.key(1), (1000, 3))
    states = lrcssm.solve(cell, inputs).states  # (1000, 8)
    ```

    **Arguments:**

    - `input_dim`, `state_dim`: features of the input and units.
    - `form`: `"paper"`, the paper's equations, or `"released"`, those of the code released with it.
    - `dtype`: of the parameters, real or complex; the default float if not given.
    - `key`: a `jax.random.key`. Every parameter is drawn from ±1/√`state_dim`.
    """

    a_x: Inexact[Array, " state"]
    b_x: Inexact[Array, " state"]  # paper: offset; released: threshold μ_x
    g_x: Inexact[Array, " state"]
    k_x: Inexact[Array, " state"]
    g_leak: Inexact[Array, " state"]
    e_leak: Inexact[Array, " state"]
    w_x: Inexact[Array, " state"]
    v: Inexact[Array, " state"]
    a_u: Inexact[Array, "input state"] | Inexact[Array, " input"]  # released: slope σ_u
    b_u: Inexact[Array, " state"] | Inexact[Array, " input"]  # released: threshold μ_u
    g_u: Inexact[Array, " state"] | Inexact[Array, "input state"]
    k_u: Inexact[Array, " state"] | Inexact[Array, "input state"]
    w_u: Inexact[Array, "input state"] | None
    input_dim: int = eqx.field(static=True)
    state_dim: int = eqx.field(static=True)
    form: Literal["paper", "released"] = eqx.field(static=True)

    def __init__(
        self,
        input_dim: int,
        state_dim: int,
        *,
        form: Literal["paper", "released"] = "paper",
        dtype: DTypeLike | None = None,
        key: PRNGKeyArray,
    ):
        if form not in ("paper", "released"):
            raise ValueError(f'LRC got form={form!r}; give "paper" or "released".')
        self.input_dim, self.state_dim, self.form = input_dim, state_dim, form
        keys = iter(jax.random.split(key, 13))
        limit = 1 / state_dim**0.5
        dtype = jnp.result_type(float) if dtype is None else dtype

        def draw(*shape):
            return uniform(next(keys), shape, dtype, limit)

        paper = form == "paper"
        per_unit, per_input, mixing = (state_dim,), (input_dim,), (input_dim, state_dim)
        self.a_x, self.b_x, self.g_x, self.k_x = (draw(*per_unit) for _ in range(4))
        self.g_leak, self.e_leak, self.w_x, self.v = (draw(*per_unit) for _ in range(4))
        self.a_u = draw(*(mixing if paper else per_input))
        self.b_u = draw(*(per_unit if paper else per_input))
        self.g_u, self.k_u = (draw(*(per_unit if paper else mixing)) for _ in range(2))
        self.w_u = draw(*mixing) if paper else None

    def drive(
        self, inputs: Inexact[Array, "... input"]
    ) -> tuple[Inexact[Array, "... state"], Inexact[Array, "... state"]]:
        """Paper: the inputs' synapse and their part of the elastance. Released: their parts of f and z."""
        if self.w_u is not None:
            return sigmoid(linear(inputs, self.a_u) + self.b_u), linear(inputs, self.w_u)
        synapse = sigmoid(self.a_u * (inputs - self.b_u))
        return linear(synapse, self.g_u), linear(synapse, self.k_u)

    def step(
        self,
        state: Inexact[Array, "... state"],
        drive: tuple[Inexact[Array, "... state"], Inexact[Array, "... state"]],
        dt: Float[Array, "..."] | float = 1.0,
    ) -> Inexact[Array, "... state"]:
        """The next state, elementwise in the state."""
        x = state
        if self.form == "paper":
            synapse, elastance = drive
            f_u, z_u = self.g_u * synapse, self.k_u * synapse
            y = sigmoid(self.a_x * x + self.b_x)
            ε = self.w_x * x + self.v + elastance
        else:
            f_u, z_u = drive
            y = sigmoid(self.a_x * (x - self.b_x))
            ε = self.w_x * x + self.v
        f = self.g_x * y + f_u + self.g_leak
        z = self.k_x * y + z_u + self.g_leak
        return x + dt * sigmoid(ε) * (self.e_leak * jnp.tanh(z) - sigmoid(f) * x)
