"""What a cell is: the contract between a recurrence and the engine that evaluates it over time."""

import abc
from typing import Any, ClassVar, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, DTypeLike, Inexact, PRNGKeyArray


class Cell(eqx.Module):
    """A recurrence `x_t = F(x_{t-1}, u_t)`, split into what depends on the input alone and the rest.

    Subclasses give `input_dim`, `state_dim`, `drive` and `step`, and say in `structure` what the Jacobian ∂F/∂x looks
    like: `"diagonal"`, `"block2"` (the state is two halves, and each unit's pair sees only itself) or `"dense"`.
    `lrcssm.check_structure` compares that with the truth. `affine` says that `step` is affine in the state, in which
    case Newton's method is exact after one iteration.

    The state is a vector on the last axis. The engine calls `drive` once for many steps and `step` once for each.
    """

    structure: ClassVar[Literal["diagonal", "block2", "dense"]] = "diagonal"
    affine: ClassVar[bool] = False
    input_dim: eqx.AbstractVar[int]
    state_dim: eqx.AbstractVar[int]

    @abc.abstractmethod
    def drive(self, inputs: Inexact[Array, "... input"]) -> Any:
        """All terms that depend on the input alone, `(..., input)` to a pytree of arrays with the same leading axes."""

    @abc.abstractmethod
    def step(self, state: Inexact[Array, "... state"], drive: Any, dt: Any = 1.0) -> Inexact[Array, "... state"]:
        """The next state."""

    def initial_state(self, batch_shape: tuple[int, ...] = ()) -> Inexact[Array, "... state"]:
        """The state before the first step: zero unless a cell says otherwise."""
        return jnp.zeros((*batch_shape, self.state_dim), _dtype(self))

    def read(
        self, state: Inexact[Array, "... state"], inputs: Inexact[Array, "... input"]
    ) -> Inexact[Array, "... out"]:
        """What the next layer sees: the state itself unless a cell says otherwise."""
        del inputs
        return state


def _dtype(cell: Cell):
    return jnp.result_type(*(a.dtype for a in jax.tree.leaves(eqx.filter(cell, eqx.is_inexact_array))))


def linear(inputs: Inexact[Array, "... n"], weight: Inexact[Array, "n m"]) -> Inexact[Array, "... m"]:
    """`inputs @ weight` with all leading axes folded into one: XLA's gradient with respect to the weight contracts one
    long axis at twice the speed of two."""
    return (inputs.reshape(-1, inputs.shape[-1]) @ weight).reshape(*inputs.shape[:-1], weight.shape[1])


def uniform(key: PRNGKeyArray, shape: tuple[int, ...], dtype: DTypeLike, limit: float) -> Inexact[Array, "..."]:
    """Numbers from ±limit; of a complex dtype, real and imaginary part each."""
    if not jnp.issubdtype(dtype, jnp.complexfloating):
        return jax.random.uniform(key, shape, dtype, -limit, limit)
    parts = jax.random.uniform(key, (2, *shape), jnp.finfo(dtype).dtype, -limit, limit)
    return jax.lax.complex(parts[0], parts[1])
