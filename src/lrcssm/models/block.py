"""One layer of a model: norm, recurrence, mixer, skip."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from ..cells import ALL, Cell
from ..engine import Solution, Solver, solve
from .config import ModelConfig
from .layers import GLU, MLP, Linear, dropout, normalise


class Block(eqx.Module):
    """`(time, ..., width)` to the same, with the state of its cell.

    The cell sees the features of each step, `cell.read` gives what the mixer sees. A bidirectional block has a second
    cell that goes from the last valid step to the first.
    """

    cell: Cell
    back: Cell | None
    mixer: MLP | GLU | Linear
    layout: str = eqx.field(static=True)
    dropout: float = eqx.field(static=True)

    def __init__(self, config: ModelConfig, key: PRNGKeyArray):
        keys = jax.random.split(key, 3)
        options: dict[str, Any] = dict(config.cell_options)
        make = ALL[config.cell]
        self.cell = make(config.width, config.state, key=keys[0], **options)  # pyright: ignore[reportCallIssue]
        self.back = None
        if config.bidirectional:
            self.back = make(config.width, config.state, key=keys[1], **options)  # pyright: ignore[reportCallIssue]
        features = jax.eval_shape(lambda: self.cell.read(self.cell.initial_state(), jnp.zeros(config.width))).shape[
            -1
        ] * (2 if config.bidirectional else 1)
        if config.mixer == "glu":
            self.mixer = GLU(features, config.width, config.activation, keys[2])
        elif config.mixer == "mlp":
            released = config.layout == "released"
            self.mixer = MLP(features, config.width, config.width, config.activation, keys[2], released)
        else:
            self.mixer = Linear(features, config.width, keys[2])
        self.layout, self.dropout = config.layout, config.dropout

    def __call__(
        self,
        h: Float[Array, "time *batch width"],
        *,
        state: Array | None,
        dt: Any,
        mask: Bool[Array, "time *batch"] | None,
        key: PRNGKeyArray | None,
        solver: Solver,
        throw: bool,
    ) -> tuple[Float[Array, "time *batch width"], Solution]:
        """The features after the block, and the solution of its (forward) recurrence."""

        def run(cell, inputs, state, dt, mask):
            return self.recur(cell, inputs, state=state, dt=dt, mask=mask, solver=solver, throw=throw)

        inputs = h if self.layout in ("post-norm", "plain") else normalise(h)
        x, solution = run(self.cell, inputs, state, dt, mask)
        if self.back is not None:
            back = None if mask is None else jnp.flip(mask, 0)
            other, _ = run(self.back, jnp.flip(inputs, 0), None, _backwards(dt, mask), back)
            x = jnp.concatenate([x, jnp.flip(other, 0)], -1)
        if self.layout in ("pre-norm", "plain"):
            h = h + dropout(self.mixer(x), self.dropout, key)
        elif self.layout == "post-norm":
            h = normalise(h + dropout(self.mixer(x), self.dropout, key))
        elif x.shape == inputs.shape:  # released: the skip carries the normalised features
            h = normalise(x + inputs)
            h = h + dropout(self.mixer(h), self.dropout, key)
        else:
            h = normalise(dropout(self.mixer(x), self.dropout, key) + inputs)
        return h, solution

    def recur(
        self, cell: Cell, inputs: Array, *, state: Any, dt: Any, mask: Any, solver: Solver, throw: bool
    ) -> tuple[Array, Solution]:
        """What a cell gives to the mixer, and its solution."""
        solution = solve(cell, inputs, state=state, dt=dt, mask=mask, solver=solver, throw=throw)
        return cell.read(solution.states, inputs), solution


def _backwards(dt: Any, mask: Array | None) -> Any:
    """The time between steps when they are gone through from the last to the first: that of the next valid step, and 1 for
    the last of them."""
    if dt is None or jnp.ndim(dt) == 0:
        return dt
    length = dt.shape[0]
    places = jnp.arange(length).reshape(-1, *(1,) * (dt.ndim - 1))
    valid = jnp.broadcast_to(places if mask is None else jnp.where(mask, places, length), dt.shape)
    here_or_later = lax.cummin(valid, reverse=True)
    after = jnp.concatenate([here_or_later[1:], jnp.full_like(here_or_later[:1], length)])
    found = jnp.take_along_axis(dt, jnp.minimum(after, length - 1), 0)
    return jnp.flip(jnp.where(after < length, found, jnp.ones_like(found)), 0)
