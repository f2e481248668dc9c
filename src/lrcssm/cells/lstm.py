"""Long short-term memory whose recurrent weights are diagonal: each gate depends on its own unit and on all inputs.

Exact (`gates_see="hidden"`; w are vectors, U matrices): the state is [h, c], and each unit's Jacobian a 2×2 block.

    i = σ(w_i h + U_i u + b_i)      f = σ(w_f h + U_f u + b_f)      o = σ(w_o h + U_o u + b_o)
    g = tanh(w_g h + U_g u + b_g)
    c ← f c + i g                   h ← o tanh(c)

Diagonal (`gates_see="cell"`): the gates depend on c instead of h, so that c is the whole state, and the next layer reads
h = o tanh(c) with an output gate that depends on the new c. It is not the LSTM with its Jacobian cut to the diagonal, but
another recurrence, whose Jacobian is diagonal.

A step of Δt keeps f^Δt of c and adds Δt i g.
"""

from typing import Literal

import equinox as eqx
import jax.numpy as jnp
from jax.nn import sigmoid, softplus
from jaxtyping import Array, DTypeLike, Float, Inexact, PRNGKeyArray

from .base import Cell, as_factor, choose, linear, logit, spread_rates, with_halves
from .gru import draw_gates, rescale


class LSTM(Cell):
    """A layer of long short-term memory with a Jacobian of 2×2 blocks, or a diagonal one.

    ```python
    import jax, lrcssm

    cell = lrcssm.cells.LSTM(3, 8, key=jax.random.key(0))
    inputs = jax.random.normal(jax.random.key(1), (1000, 3))
    states = lrcssm.solve(cell, inputs).states  # (1000, 16): hidden and cell states
    hidden = cell.read(states, inputs)  # (1000, 8)
    ```

    **Arguments:**

    - `input_dim`, `state_dim`: features of the input and units.
    - `gates_see`: `"hidden"`, the textbook LSTM with diagonal recurrent weights, whose state is `[h, c]` and
        twice as long as `state_dim`; or `"cell"`, the variant with a diagonal Jacobian, whose state is c.
    - `init`, `max_time`, `dtype`, `key`: as for [`GRU`][lrcssm.cells.GRU], with the forget gate's bias.
    """

    w: Inexact[Array, "4 units"]  # of the gates i, f, o and the candidate g, in this order
    u: Inexact[Array, "4 input units"]
    b: Inexact[Array, "4 units"]
    input_dim: int = eqx.field(static=True)
    state_dim: int = eqx.field(static=True)
    gates_see: Literal["hidden", "cell"] = eqx.field(static=True)

    def __init__(
        self,
        input_dim: int,
        state_dim: int,
        *,
        gates_see: Literal["hidden", "cell"] = "hidden",
        init: Literal["paper", "spread"] = "paper",
        max_time: float | int = 1000,
        dtype: DTypeLike | None = None,
        key: PRNGKeyArray,
    ):
        choose("LSTM", "init", init, ("paper", "spread"))
        choose("LSTM", "gates_see", gates_see, ("hidden", "cell"))
        self.input_dim, self.state_dim, self.gates_see = input_dim, state_dim, gates_see
        gates = draw_gates(4, input_dim, state_dim, dtype, key)
        self.w, self.u, self.b = (jnp.stack(parts) for parts in zip(*gates, strict=True))
        if init == "spread":
            rates = spread_rates(state_dim, max_time, self.b.dtype)
            # What is let in is what is let go, so that the cell state keeps its scale.
            self.b = self.b.at[0].set(logit(rates)).at[1].set(-logit(rates)).at[3].multiply(state_dim**0.5)
            scales = jnp.array([0.5, 0.5, 1, 2], self.u.dtype)[:, None, None]
            self.u = scales * jnp.stack([rescale(part, input_dim) for part in self.u])

    @property
    def structure(self) -> Literal["diagonal", "block2"]:  # pyright: ignore[reportIncompatibleVariableOverride]
        """`"block2"`, or `"diagonal"` if the gates depend on the cell state."""
        return "block2" if self.gates_see == "hidden" else "diagonal"

    def initial_state(self, batch_shape: tuple[int, ...] = ()) -> Inexact[Array, "... state"]:
        """Zero: hidden and cell state, or the cell state alone."""
        size = self.state_dim * (2 if self.gates_see == "hidden" else 1)
        return jnp.zeros((*batch_shape, size), self.b.dtype)

    def drive(self, inputs: Inexact[Array, "... input"]) -> tuple[Inexact[Array, "... units"], ...]:
        """The inputs' part of the gates and the candidate."""
        return tuple(linear(inputs, self.u[gate]) + self.b[gate] for gate in range(4))

    def step(
        self,
        state: Inexact[Array, "... state"],
        drive: tuple[Inexact[Array, "... units"], ...],
        dt: Float[Array, "..."] | float = 1.0,
    ) -> Inexact[Array, "... state"]:
        """The next state."""
        dt = as_factor(dt, state)
        seen, c = jnp.split(state, 2, -1) if self.gates_see == "hidden" else (state, state)
        i, f, o, g = (self.w[gate] * seen + term for gate, term in enumerate(drive))
        c = jnp.exp(-dt * softplus(-f)) * c + dt * sigmoid(i) * jnp.tanh(g)
        return c if self.gates_see == "cell" else with_halves(state, sigmoid(o) * jnp.tanh(c), c)

    def read(
        self, state: Inexact[Array, "... state"], inputs: Inexact[Array, "... input"]
    ) -> Inexact[Array, "... units"]:
        """The hidden state h."""
        if self.gates_see == "hidden":
            return state[..., : self.state_dim]
        return sigmoid(self.w[2] * state + linear(inputs, self.u[2]) + self.b[2]) * jnp.tanh(state)
