"""The test of convergence: a backward error, for each unit and each step on its own.

States are accepted if at every step and for every unit i

    |x_t − F(z)|_i ≤ rtol · s_t,i + atol      for a z with |z − x_{t−1}|_j ≤ rtol · |x_{t−1}|_j + atol for all units j
    s_t,i = |x_t|_i + min((|A_t| |x_{t−1}|)_i, rtol^(−1/2) · m_t,i)

z is x_{t−1} itself, or the state that the iterate before had there. A_t is the matrix with which the solver linearised the
step: |A_t| |x_{t−1}| is what enters the sum that F computes, whose rounding cannot be undone. m_t,i is the larger one of
|x_t|_i and |x_{t−1}|_i, or of the norms of x_t and x_{t−1} if A_t has matrices.

No other step enters, and another unit only as far as the matrix couples them, so that a large state only allows for its own
rounding. The second choice of z serves steps whose intermediate results are much larger than their states: there x_t cannot be
reproduced from an x_{t−1} that still moves in its last digit. The minimum keeps the allowance of A_t below √rtol · m_t, however
large A_t is, and a scale that is not finite accepts nothing.
"""

import jax.numpy as jnp
from jaxtyping import Array, Bool, DTypeLike, Float, Inexact

from .jacobian import pair, unpair

ROUNDINGS = 8
"""The default `rtol`, in units of rounding of the state's dtype."""


def default_rtol(dtype: DTypeLike) -> float:
    """The default relative tolerance for states of a dtype."""
    return ROUNDINGS * float(jnp.finfo(dtype).eps)


def scale(
    states: Inexact[Array, "*lead state"],
    before: Inexact[Array, "*lead state"],
    transition: Inexact[Array, "*lead_and_structure"] | None,
    rtol: float,
) -> Float[Array, "*lead state"]:
    """The size s_t that a residual is measured by; infinite where no residual is small.

    **Arguments:**

    - `states`, `before`: x_t and x_{t-1}.
    - `transition`: A_t: diagonals, 2×2 blocks or matrices; `None` is zero.
    - `rtol`: the relative tolerance, by which the share of A_t is bounded.
    """
    now, then = jnp.abs(states), jnp.abs(before)
    if transition is None:
        return now
    largest, entries = jnp.maximum(now, then), jnp.abs(transition)
    if transition.ndim == then.ndim:
        entering = entries * then
    else:
        largest = jnp.max(largest, -1, keepdims=True)
        if transition.ndim == then.ndim + 2:  # 2×2 blocks
            entering = unpair(jnp.sum(entries * pair(then)[..., None, :], -1))
        else:
            entering = jnp.sum(entries * then[..., None, :], -1)
    bound = max(1.0, rtol**-0.5) if rtol > 0 else 1.0
    return now + jnp.where(jnp.isnan(entering), 0, jnp.minimum(entering, bound * largest))


def within(
    distance: Float[Array, "*shape"], size: Float[Array, "*shape"], rtol: float, atol: float
) -> Bool[Array, "*shape"]:
    """Compare distances with the tolerance. NaN is not within it, and nothing is where the size is not finite."""
    floor = max(atol, float(jnp.finfo(distance.dtype).tiny))
    return (distance <= rtol * size + floor) & (size < jnp.inf)


def backward_error(
    states: Inexact[Array, "time batch state"],
    new: Inexact[Array, "time batch state"],
    other: Inexact[Array, "time batch state"],
    close: Bool[Array, "time batch"],
) -> Float[Array, "time batch state"]:
    """The distance from x_t to F(x_{t-1}), or to another value F(z) if that is nearer and z is `close`."""
    direct = jnp.abs(new - states)
    return jnp.where(close[..., None], jnp.minimum(direct, jnp.abs(other - states)), direct)


def relative(error: Float[Array, "*shape"], size: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """An error in units of its size; infinite where the size is."""
    return jnp.where(size < jnp.inf, error / jnp.maximum(size, jnp.finfo(size.dtype).tiny), jnp.inf)
