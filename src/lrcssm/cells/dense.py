"""The original liquid networks, in which every unit depends on all others.

Paper (equations 1 to 6; y = [x, u], σ is the logistic function, i the unit that receives and j the one that sends):

    f_i = Σ_j g_ji σ(a_ji y_j + b_ji) + g_leak,i        z_i = Σ_j k_ji σ(a_ji y_j + b_ji) + g_leak,i
    ε_i = Σ_j w_ji y_j + v_i
    LTC:  ẋ = −f x + z e_leak
    STC:  ẋ = −σ(f) x + tanh(z) e_leak
    LRC:  ẋ = σ(ε) (−σ(f) x + tanh(z) e_leak)

Each synapse from j to i has its own slope and offset, so a step costs N (N + E) sigmoids. Solve them with
`Sequential()`, or in parallel with `DEER()` (N² numbers for each step) or `DEER(quasi=True)`.
"""

from typing import ClassVar, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.nn import sigmoid, softplus
from jaxtyping import Array, DTypeLike, Float, Inexact, PRNGKeyArray

from .base import Cell, Envelope, choose, linear, uniform
from .integrators import INTEGRATORS, Integrator, advance, share_kept


class _Dense(Cell):
    structure: ClassVar[Literal["diagonal", "block2", "dense"]] = "dense"
    a: Inexact[Array, "sources state"]  # sources: states, then inputs
    b: Inexact[Array, "sources state"]
    g: Inexact[Array, "sources state"]
    k: Inexact[Array, "sources state"]
    g_leak: Inexact[Array, " state"]
    e_leak: Inexact[Array, " state"]
    w: Inexact[Array, "sources state"] | None
    v: Inexact[Array, " state"] | None
    input_dim: int = eqx.field(static=True)
    state_dim: int = eqx.field(static=True)
    nonnegative: bool = eqx.field(static=True)
    integrator: Integrator = eqx.field(static=True)
    kind: ClassVar[Literal["LRC", "STC", "LTC"]]

    def __init__(
        self,
        input_dim: int,
        state_dim: int,
        *,
        nonnegative: bool | None = None,
        integrator: Integrator | None = None,
        dtype: DTypeLike | None = None,
        key: PRNGKeyArray,
    ):
        if integrator is not None:
            choose(type(self).__name__, "integrator", integrator, INTEGRATORS)
        self.input_dim, self.state_dim = input_dim, state_dim
        self.nonnegative = self.kind == "LTC" if nonnegative is None else nonnegative
        self.integrator = integrator or ("implicit" if self.kind == "LTC" else "euler")
        dtype = jnp.result_type(float) if dtype is None else dtype
        sources, limit = state_dim + input_dim, 1 / state_dim**0.5
        keys = jax.random.split(key, 8)
        self.a, self.b, self.g, self.k = (uniform(k, (sources, state_dim), dtype, limit) for k in keys[:4])
        self.g_leak, self.e_leak = (uniform(k, (state_dim,), dtype, limit) for k in keys[4:6])
        self.w = uniform(keys[6], (sources, state_dim), dtype, limit) if self.kind == "LRC" else None
        self.v = uniform(keys[7], (state_dim,), dtype, limit) if self.kind == "LRC" else None

    def _conductances(self):
        return (softplus(self.g), softplus(self.g_leak)) if self.nonnegative else (self.g, self.g_leak)

    def _synapses(self, values, part):
        """Contribution of the sources in `part` to f and z."""
        g, _ = self._conductances()
        open = sigmoid(self.a[part] * values[..., None] + self.b[part])
        return jnp.sum(g[part] * open, -2), jnp.sum(self.k[part] * open, -2)

    def drive(self, inputs: Inexact[Array, "... input"]) -> tuple[Inexact[Array, "... state"], ...]:
        """The inputs' part of f, z and, for LRC, ε."""
        part = slice(self.state_dim, None)
        f, z = self._synapses(inputs, part)
        return (f, z) if self.w is None else (f, z, linear(inputs, self.w[part]))

    def step(
        self,
        state: Inexact[Array, "... state"],
        drive: tuple[Inexact[Array, "... state"], ...],
        dt: Float[Array, "..."] | float = 1.0,
    ) -> Inexact[Array, "... state"]:
        """The next state."""
        part = slice(self.state_dim)
        _, g_leak = self._conductances()
        f, z = (own + given + g_leak for own, given in zip(self._synapses(state, part), drive[:2], strict=True))
        if self.kind == "LTC":
            return advance(self.integrator, state, f, self.e_leak * z, dt)
        speed = None
        if self.w is not None and self.v is not None:
            speed = sigmoid(state @ self.w[part] + drive[2] + self.v)
        return advance(self.integrator, state, sigmoid(f), self.e_leak * jnp.tanh(z), dt, speed=speed)

    def envelope(
        self, initial: Float[Array, " state"], input_bound: float | int | None, dt: tuple[float, float]
    ) -> Envelope | None:
        """The states are bounded as those of the diagonal cells are. The Jacobian is not: its slopes are infinite."""
        del input_bound
        if jnp.iscomplexobj(self.e_leak):
            return None
        g, g_leak = self._conductances()
        ranges = [
            (jnp.sum(jnp.minimum(weights, 0), 0) + g_leak, jnp.sum(jnp.maximum(weights, 0), 0) + g_leak)
            for weights in (g, self.k)
        ]
        (low, high), z = ranges
        if self.kind == "LTC":
            largest = jnp.maximum(*map(jnp.abs, z))
            rest = jnp.abs(self.e_leak) * largest / jnp.where(low > 0, low, jnp.nan)
        else:
            low, high = sigmoid(low), sigmoid(high)
            rest = jnp.abs(self.e_leak) / low
        lowest = jnp.zeros_like(low) if self.kind == "LRC" else low
        unknown = jnp.full_like(low, jnp.inf)
        return Envelope(
            state=jnp.maximum(initial, rest),
            keep_low=share_kept(self.integrator, high, dt[1]),
            keep_high=share_kept(self.integrator, lowest, dt[0]),
            rest=rest,
            keep_slope=unknown,
            rest_slope=unknown,
        )


class DenseLRC(_Dense):
    """A fully connected layer of liquid-resistance liquid-capacitance units.

    ```python
    import jax, lrcssm

    cell = lrcssm.cells.DenseLRC(3, 8, key=jax.random.key(0))
    inputs = jax.random.normal(jax.random.key(1), (100, 3))
    states = lrcssm.solve(cell, inputs).states  # (100, 8)
    ```

    **Arguments:**

    - `input_dim`, `state_dim`: features of the input and units.
    - `nonnegative`: make the conductances g and g_leak positive (by softplus).
    - `integrator`: `"euler"`, `"implicit"` or `"exponential"`; Euler by default.
    - `dtype`: of the parameters, real or complex; the default float if not given.
    - `key`: a `jax.random.key`. Every parameter is drawn from ±1/√`state_dim`.
    """

    kind = "LRC"


class DenseSTC(_Dense):
    """A fully connected layer of saturated liquid time-constant units.

    ```python
    import jax, lrcssm

    cell = lrcssm.cells.DenseSTC(3, 8, key=jax.random.key(0))
    inputs = jax.random.normal(jax.random.key(1), (100, 3))
    states = lrcssm.solve(cell, inputs).states  # (100, 8)
    ```

    **Arguments:** as for [`DenseLRC`][lrcssm.cells.DenseLRC].
    """

    kind = "STC"


class DenseLTC(_Dense):
    """A fully connected layer of liquid time-constant units.

    ```python
    import jax, lrcssm

    cell = lrcssm.cells.DenseLTC(3, 8, key=jax.random.key(0))
    inputs = jax.random.normal(jax.random.key(1), (100, 3))
    states = lrcssm.solve(cell, inputs).states  # (100, 8)
    ```

    **Arguments:** as for [`DenseLRC`][lrcssm.cells.DenseLRC]; `nonnegative` is on and the implicit integrator the default.
    """

    kind = "LTC"
