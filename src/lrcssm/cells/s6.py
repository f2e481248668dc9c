"""The selective state space of Mamba: a diagonal, linear recurrence whose step, input and output depend on the input.

Gu & Dao 2023, "Mamba: Linear-Time Sequence Modeling with Selective State Spaces" (for each feature h of the input N
states n; W are matrices):

    δ = u W_δ,  B = u W_B,  C = u W_C            rank, N and N numbers, the same for all features
    Δ_h = softplus(δ W_Δ + b_Δ)_h                the step of feature h
    x_hn ← exp(Δ_h A_hn) x_hn + Δ_h B_n u_h      A = −exp(a) < 0
    y_h = Σ_n C_n x_hn + D_h u_h                 input of the next layer

`dt` multiplies Δ. The state has input_dim × state_dim entries, those of a feature together: it is much larger than the output,
so models never keep the states of all steps.
"""

import math

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.nn import softplus
from jaxtyping import Array, DTypeLike, Float, PRNGKeyArray

from ..errors import InvalidValue
from .base import Cell, Envelope, as_factor, linear, uniform
from .liquid import inverse_softplus
from .lru import log_uniform, real_dtype


class S6(Cell):
    """A layer of selective state spaces, one for each feature.

    ```python
    import jax, lrcssm

    cell = lrcssm.cells.S6(3, 8, key=jax.random.key(0))
    inputs = jax.random.normal(jax.random.key(1), (1000, 3))
    states = lrcssm.solve(cell, inputs).states  # (1000, 24)
    outputs = cell.read(states, inputs)  # (1000, 3)
    ```

    **Arguments:**

    - `input_dim`, `state_dim`: number of features of input and output, and of states for each of them.
    - `rank`: number of values from which the steps Δ are computed; `None` is `input_dim`/16, rounded up.
    - `dt_min`, `dt_max`: Δ without input is log-uniform between them at the start.
    - `dtype`: of the parameters, real; the default float if not given.
    - `key`: a `jax.random.key`.
    """

    affine = True
    expands = True
    a: Float[Array, "input state"]
    w_delta: Float[Array, "input rank"]
    w_b: Float[Array, "input state"]
    w_c: Float[Array, "input state"]
    w_step: Float[Array, "rank input"]
    b_step: Float[Array, " input"]
    d: Float[Array, " input"]
    input_dim: int = eqx.field(static=True)
    state_dim: int = eqx.field(static=True)

    def __init__(
        self,
        input_dim: int,
        state_dim: int,
        *,
        rank: int | None = None,
        dt_min: float | int = 0.001,
        dt_max: float | int = 0.1,
        dtype: DTypeLike | None = None,
        key: PRNGKeyArray,
    ):
        rank = math.ceil(input_dim / 16) if rank is None else rank
        if rank < 1:
            raise InvalidValue(f"S6 got rank={rank!r}; give a whole number of at least 1, or None.")
        dtype = real_dtype("S6", dtype)
        self.input_dim, self.state_dim = input_dim, state_dim
        keys = jax.random.split(key, 5)
        limit = 1 / input_dim**0.5
        self.w_delta = uniform(keys[0], (input_dim, rank), dtype, limit)
        self.w_b, self.w_c = (uniform(k, (input_dim, state_dim), dtype, limit) for k in keys[1:3])
        self.w_step = uniform(keys[3], (rank, input_dim), dtype, 1 / rank**0.5)
        steps = jnp.exp(log_uniform(keys[4], (input_dim,), dtype, dt_min, dt_max, "S6"))
        self.b_step = inverse_softplus(steps)
        self.a = jnp.broadcast_to(jnp.log(jnp.arange(1, state_dim + 1, dtype=dtype)), (input_dim, state_dim))
        self.d = jnp.ones(input_dim, dtype)

    def initial_state(self, batch_shape: tuple[int, ...] = ()) -> Float[Array, "... state"]:
        """Zero: the states of each feature."""
        return jnp.zeros((*batch_shape, self.input_dim * self.state_dim), self.d.dtype)

    def drive(self, inputs: Float[Array, "... input"]) -> tuple[Float[Array, "... _"], ...]:
        """Δ, Δ u, B and exp(Δ A)."""
        steps = softplus(linear(linear(inputs, self.w_delta), self.w_step) + self.b_step)
        return steps, steps * inputs, linear(inputs, self.w_b), jnp.exp(steps[..., None] * -jnp.exp(self.a))

    def step(
        self,
        state: Float[Array, "... state"],
        drive: tuple[Float[Array, "... _"], ...],
        dt: Float[Array, "..."] | float = 1.0,
    ) -> Float[Array, "... state"]:
        """The next state, elementwise in the state."""
        dt = as_factor(dt, state)
        steps, scaled, b, keep = drive
        x = self._by_feature(state)
        if not (isinstance(dt, float) and dt == 1):
            keep = jnp.exp((dt * steps)[..., None] * -jnp.exp(self.a))
        return (keep * x + (dt * scaled)[..., None] * b[..., None, :]).reshape(state.shape)

    def read(self, state: Float[Array, "... state"], inputs: Float[Array, "... input"]) -> Float[Array, "... input"]:
        """C x + D u for each feature."""
        c = linear(inputs, self.w_c)
        return jnp.sum(self._by_feature(state) * c[..., None, :], -1) + self.d * inputs

    def _by_feature(self, state):
        return state.reshape(*state.shape[:-1], self.input_dim, self.state_dim)

    def envelope(
        self, initial: Float[Array, " state"], input_bound: float | int | None, dt: tuple[float, float]
    ) -> Envelope | None:
        """x ← λ x + (1 − λ) r with λ = exp(Δ A) and r = Δ B u / (1 − λ), of which neither depends on the state; and
        Δ / (1 − exp(Δ A)) grows with Δ. Without a bound of the inputs there is none of Δ."""
        if input_bound is None:
            return None
        rate = jnp.exp(self.a)
        reach = input_bound * jnp.linalg.norm(self.w_delta @ self.w_step, axis=0)
        shortest, longest = dt[0] * softplus(self.b_step - reach), dt[1] * softplus(self.b_step + reach)
        keep_low, keep_high = (jnp.exp(-h[:, None] * rate) for h in (longest, shortest))
        most = input_bound**2 * jnp.linalg.norm(self.w_b, axis=0)  # |B_n u_h|, as |u_h| ≤ |u|
        rest = (most * longest[:, None] / -jnp.expm1(-longest[:, None] * rate)).reshape(-1)
        zero = jnp.zeros_like(rest)
        return Envelope(
            state=jnp.maximum(initial, rest),
            keep_low=keep_low.reshape(-1),
            keep_high=keep_high.reshape(-1),
            rest=rest,
            keep_slope=zero,
            rest_slope=zero,
        )
