"""The interface between a recurrence and the engine that evaluates it over time."""

import abc
from typing import Any, ClassVar, Literal, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, DTypeLike, Float, Inexact, PRNGKeyArray

from ..errors import InvalidValue


class Envelope(NamedTuple):
    """Bounds for each unit of a step of the form `x ← ρ λ x + (1 − λ) r`, for all states within `state`: a share λ of
    the state is kept, and the rest moves to r. `lrcssm.stability` computes certificates from them."""

    state: Float[Array, " state"]  # |x| ≤ state before a step implies it after the step, if λ is within [0, 1]
    keep_low: Float[Array, " state"]  # ≤ λ
    keep_high: Float[Array, " state"]  # ≥ λ
    rest: Float[Array, " state"]  # ≥ |r|
    keep_slope: Float[Array, " state"]  # |∂λ/∂x| ≤ (1 − λ) · keep_slope
    rest_slope: Float[Array, " state"]  # |∂r/∂x| ≤ rest_slope
    rho: float = 1.0


class Cell(eqx.Module):
    """A recurrence `x_t = F(x_{t-1}, u_t)`, split into a drive, which depends on the input alone, and a step.

    Subclasses define `input_dim`, `state_dim`, `drive` and `step`, and declare the structure of the Jacobian ∂F/∂x:
    `"diagonal"`, `"block2"` (the state has two halves, and each pair of units depends on itself only) or `"dense"`.
    `lrcssm.check_structure` verifies the declaration. `affine` declares that `step` is affine in the state, so that one
    iteration of Newton's method is exact. `expands` declares that the states are much larger than the output of `read`, so
    that a model should not keep those of all steps.

    The state is a vector on the last axis. The engine calls `drive` once for many steps and `step` once for each.
    """

    structure: ClassVar[Literal["diagonal", "block2", "dense"]] = "diagonal"
    affine: ClassVar[bool] = False
    expands: ClassVar[bool] = False
    input_dim: eqx.AbstractVar[int]
    state_dim: eqx.AbstractVar[int]

    @abc.abstractmethod
    def drive(self, inputs: Inexact[Array, "... input"]) -> Any:
        """All terms that depend on the input alone, `(..., input)` to a pytree of arrays with the same leading axes."""

    @abc.abstractmethod
    def step(self, state: Inexact[Array, "... state"], drive: Any, dt: Any = 1.0) -> Inexact[Array, "... state"]:
        """The next state."""

    def initial_state(self, batch_shape: tuple[int, ...] = ()) -> Inexact[Array, "... state"]:
        """The state before the first step; zero by default."""
        return jnp.zeros((*batch_shape, self.state_dim), _dtype(self))

    def read(
        self, state: Inexact[Array, "... state"], inputs: Inexact[Array, "... input"]
    ) -> Inexact[Array, "... out"]:
        """Features for the next layer; the state by default."""
        del inputs
        return state

    def envelope(
        self, initial: Float[Array, " state"], input_bound: float | int | None, dt: tuple[float, float]
    ) -> Envelope | None:
        """Bounds that follow from the parameters alone, or `None` if there are none.

        **Arguments:**

        - `initial`: the largest |x_0| of each unit.
        - `input_bound`: the largest Euclidean norm of an input; `None` for no bound.
        - `dt`: the shortest and the longest step.
        """
        del initial, input_bound, dt
        return None


def _dtype(cell: Cell):
    return np.result_type(*(a.dtype for a in jax.tree.leaves(eqx.filter(cell, eqx.is_inexact_array))))


def parameter_count(tree: Any) -> int:
    """Count the real numbers in the floating-point arrays; a complex one counts as two."""
    arrays = jax.tree.leaves(eqx.filter(tree, eqx.is_inexact_array))
    return sum(array.size * (2 if jnp.iscomplexobj(array) else 1) for array in arrays)


def choose(owner: str, field: str, given: Any, options: tuple[str, ...]) -> None:
    """Raise `InvalidValue` if an argument is not one of the options."""
    if given not in options:
        texts = [f'"{option}"' for option in options]
        raise InvalidValue(f"{owner} got {field}={given!r}; give {', '.join(texts[:-1])} or {texts[-1]}.")


def as_factor(dt: Any, state: Inexact[Array, "..."]) -> Any:
    """`dt` as a factor of the state: in its dtype, unless it is a plain number."""
    return dt if isinstance(dt, float | int) else dt.astype(state.dtype)


def with_halves(
    state: Inexact[Array, "... two_n"], first: Inexact[Array, "... n"], second: Inexact[Array, "... n"]
) -> Inexact[Array, "... two_n"]:
    """Write `[first, second]` into a state. XLA would fuse a concatenation with the computation of its parts and then branch for
    every number, which on a CPU is five times as slow."""
    state = lax.dynamic_update_slice_in_dim(state, first, 0, -1)
    return lax.dynamic_update_slice_in_dim(state, second, first.shape[-1], -1)


def linear(inputs: Inexact[Array, "... n"], weight: Inexact[Array, "n m"]) -> Inexact[Array, "... m"]:
    """`inputs @ weight` with all leading axes folded into one: XLA's gradient with respect to the weight contracts one
    long axis at twice the speed of two."""
    folded = inputs.reshape(-1, inputs.shape[-1])
    # Set by `jax.default_matmul_precision`, which not every backend heeds.
    wanted = jax.config.jax_default_matmul_precision  # pyright: ignore[reportAttributeAccessIssue]
    if wanted == "bfloat16" and folded.dtype == weight.dtype == jnp.float32:
        product = _half(folded, weight)
    else:
        product = folded @ weight
    return product.reshape(*inputs.shape[:-1], weight.shape[1])


@jax.custom_jvp
def _half(a, b):
    """A product whose factors are rounded to bfloat16; its sums are in float32."""
    return lax.dot(a.astype(jnp.bfloat16), b.astype(jnp.bfloat16), preferred_element_type=jnp.float32)


@_half.defjvp
def _half_jvp(primals, tangents):
    (a, b), (da, db) = primals, tangents
    # Here what comes out is rounded too: so the transpose of these products has rounded factors, as it should.
    rounded = lambda a, b: lax.dot(a.astype(jnp.bfloat16), b.astype(jnp.bfloat16)).astype(jnp.float32)
    return _half(a, b), rounded(da, b) + rounded(a, db)


def uniform(
    key: PRNGKeyArray, shape: tuple[int, ...], dtype: DTypeLike, limit: float, low: float | None = None
) -> Inexact[Array, "..."]:
    """Numbers from ±`limit`, or from `low` to `limit`; of a complex dtype, real and imaginary part each."""
    low = -limit if low is None else low
    if not jnp.issubdtype(dtype, jnp.complexfloating):
        return jax.random.uniform(key, shape, dtype, low, limit)
    parts = jax.random.uniform(key, (2, *shape), jnp.finfo(dtype).dtype, low, limit)
    return lax.complex(parts[0], parts[1])


def signs(key: PRNGKeyArray, shape: tuple[int, ...], dtype: DTypeLike) -> Inexact[Array, "..."]:
    """+1 or −1."""
    return jnp.where(jax.random.bernoulli(key, shape=shape), 1, -1).astype(dtype)


def spread_rates(units: int, max_time: float | int, dtype: DTypeLike) -> Float[Array, " state"]:
    """The share `1 − exp(−1/τ)` of the state that a unit loses in a step, for time constants τ that are spread evenly
    in their logarithm from 1 to `max_time`: the quantiles of the log-uniform distribution."""
    if not max_time >= 1:
        raise InvalidValue(f"max_time is {max_time!r}; give the longest time constant in steps, at least 1.")
    quantiles = (np.arange(units) + 0.5) / units
    return jnp.asarray(-np.expm1(-(max_time**-quantiles)), dtype)


def logit(share: Float[Array, "..."]) -> Float[Array, "..."]:
    """The inverse of the logistic function."""
    return jnp.log(share) - jnp.log1p(-share)
