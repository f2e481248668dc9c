"""Linear recurrences over time.

    x_t = A_t x_{t-1} + b_t        t = 1..T, from x_0            (forward)
    x_t = A_t x_{t+1} + b_t        t = T..1, from x_{T+1}        (reverse)

`A_t` is a diagonal (an array of the shape of `b_t`) or a square matrix (one axis more). 2×2 blocks are matrices with
the units on a batch axis. Real or complex; time is axis 0, everything between time and the features is batch.

Both ways of evaluating are here: one step after the other, or all at once by an associative scan of the affine maps `(A, b)`,
whose composition is `(A₂A₁, A₂b₁ + b₂)`. Written as the linear system `M x = b` with `M` block bidiagonal, the gradient is the
transposed system, which is again a recurrence, in the other direction: `custom_linear_solve` uses both, so that neither mode of
differentiation stores intermediate results.
"""

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Inexact

from ..errors import InvalidType, InvalidValue
from .prefix import prefixes


@functools.partial(jax.jit, static_argnames=("reverse", "parallel"))
def linear_recurrence(
    transition: Inexact[Array, "time *rest"],
    offset: Inexact[Array, "time *more"],
    initial: Inexact[Array, "..."] | None = None,
    *,
    reverse: bool = False,
    parallel: bool = True,
) -> Inexact[Array, "time *more"]:
    """Evaluate `x_t = A_t x_{t-1} + b_t` for all t.

    ```python
    import jax.numpy as jnp
    from lrcssm import linear_recurrence

    x = linear_recurrence(jnp.full((5, 3), 0.5), jnp.ones((5, 3)), jnp.zeros(3))
    print(x[:, 0])  # [1.     1.5    1.75   1.875  1.9375]
    ```

    **Arguments:**

    - `transition`: `A`, of the shape of `offset` (diagonal) or `offset.shape + (features,)` (matrices).
    - `offset`: `b`, of shape `(time, ..., features)`.
    - `initial`: the state before the first step (after the last one if `reverse`), broadcast to `(..., features)`;
        zero if not given.
    - `reverse`: run from the last step to the first.
    - `parallel`: an associative scan, of depth O(log T), in place of T steps.

    **Returns:**

    The states of all steps, of the shape of `offset`.
    """
    matrices = _check(transition, offset)
    if initial is not None:
        edge = -1 if reverse else 0
        start = jnp.broadcast_to(initial, offset.shape[1:])
        offset = offset.at[edge].add(_times(transition[edge], start, matrices))

    if not parallel:
        return recurrence_of_maps(lambda a, x: _times(a, x, matrices), transition, offset, reverse=reverse)

    def system(x):
        return x - _times(transition, following(x) if reverse else previous(x), matrices)

    def solve(_, b):
        return _prefixes(transition, b, matrices, reverse)

    def solve_transposed(_, b):  # w_t = b_t + A_{t+1}ᵀ w_{t+1}: plain transposes, no conjugates
        transposed = jnp.swapaxes(transition, -1, -2) if matrices else transition
        return _prefixes(previous(transposed) if reverse else following(transposed), b, matrices, not reverse)

    return lax.custom_linear_solve(system, offset, solve, solve_transposed)


def recurrence_of_maps(
    apply: Callable[[Any, Array], Array], given: Any, offset: Inexact[Array, "time *more"], *, reverse: bool = False
) -> Inexact[Array, "time *more"]:
    """Evaluate `x_t = A_t x_{t-1} + b_t` from zero, one step after the other, where `A_t x` is `apply(given_t, x)`: linear
    in x, and no matrix has to be built.

    **Arguments:**

    - `apply`: the product.
    - `given`: a pytree of arrays with time on axis 0.
    - `offset`, `reverse`: as for `linear_recurrence`.
    """

    def system(x):
        return x - jax.vmap(apply)(given, following(x) if reverse else previous(x))

    def solve(_, b):
        def step(x, now):
            x = apply(now[0], x) + now[1]
            return x, x

        return lax.scan(step, jnp.zeros_like(b[0]), (given, b), reverse=reverse)[1]

    def solve_transposed(_, b):
        def step(carry, now):  # carrying A_{t+1}ᵀ w_{t+1} spares a shifted copy of A
            w = carry + now[1]
            (carry,) = jax.linear_transpose(lambda x: apply(now[0], x), w)(w)
            return carry, w

        return lax.scan(step, jnp.zeros_like(b[0]), (given, b), reverse=not reverse)[1]

    return lax.custom_linear_solve(system, offset, solve, solve_transposed)


def _check(transition, offset) -> bool:
    if transition.dtype != offset.dtype:
        raise InvalidType(
            f"linear_recurrence got a transition of dtype {transition.dtype} and an offset of dtype {offset.dtype}; "
            "both must have the same dtype, so cast one of them."
        )
    if transition.shape == offset.shape:
        return False
    if offset.ndim > 1 and transition.shape == (*offset.shape, offset.shape[-1]):
        return True
    raise InvalidValue(
        f"linear_recurrence got a transition of shape {transition.shape} for an offset of shape {offset.shape}; "
        "give the offset's shape for diagonals, or one more axis of the last one's size for matrices."
    )


def _times(a, x, matrices):
    return apply_matrix(a, x) if matrices else a * x


def apply_matrix(a: Inexact[Array, "... n n"], x: Inexact[Array, "... n"]) -> Inexact[Array, "... n"]:
    """The product of matrices and vectors on the last axes."""
    return multiply_matrices(a, x[..., None])[..., 0]


def multiply_matrices(a: Inexact[Array, "... n n"], b: Inexact[Array, "... n m"]) -> Inexact[Array, "... n m"]:
    """The product of matrices on the last axes; small ones as plain arithmetic, which fuses and needs no kernel each."""
    n = a.shape[-1]
    if n > 4:
        return a @ b
    out = a[..., :, 0, None] * b[..., None, 0, :]
    for k in range(1, n):
        out = out + a[..., :, k, None] * b[..., None, k, :]
    return out


def _prefixes(transition, offset, matrices, reverse):
    def compose(first, second):
        a1, b1 = first
        a2, b2 = second
        a = multiply_matrices(a2, a1) if matrices else a2 * a1
        return a, _times(a2, b1, matrices) + b2

    return prefixes(compose, (transition, offset), reverse)[1]


def previous(states: Inexact[Array, "time *rest"], first: Inexact[Array, "*rest"] | None = None) -> Array:
    """The state that each step starts from: `x_0, x_1, ..., x_{T-1}`, with zero for `x_0` if it is not given."""
    first = jnp.zeros_like(states[0]) if first is None else first
    return jnp.concatenate([first[None], states[:-1]])


def following(values: Inexact[Array, "time *rest"]) -> Inexact[Array, "time *rest"]:
    """The value of the next step: `y_2, ..., y_T, 0`."""
    return jnp.concatenate([values[1:], jnp.zeros_like(values[:1])])
