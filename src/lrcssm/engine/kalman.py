r"""The damped linear problem over time, solved exactly and in parallel.

A damped (Levenberg-Marquardt) Newton step asks for the minimiser over $x_1, \dots, x_T$ of

$$\sum_t |x_t - J_t x_{t-1} - b_t|^2 + \lambda |x_t - y_t|^2, \qquad x_0 \text{ given},$$

where $y$ is the current guess. It is the posterior mean of a linear-Gaussian model with
process covariance $I$ that observes $y_t = x_t$ with covariance $I / \lambda$: a Kalman
smoother. With $P$ the filtered covariance and a minus for "predicted",

    filter    m⁻_t = J_t m_{t-1} + b_t        P⁻_t = J_t P_{t-1} J_tᴴ + I
              m_t  = m⁻_t + r_t               r_t  = λ P_t (y_t - m⁻_t)
    smoother  x_t  = m_t + δ_t                δ_t  = G_t (δ_{t+1} + r_{t+1}),   δ_T = 0
                                              G_t  = P_t J_{t+1}ᴴ (P⁻_{t+1})⁻¹

Both run as associative scans, of depth O(log T). The filter scans elements (A, b, C, η, Λ)
(Särkkä & García-Fernández, 2021): over a stretch of time that starts from the state z, its
last state is N(A z + b, C) and its guesses have the likelihood exp(2 Re ηᴴz - zᴴΛz). One step is,
with κ = λ / (1 + λ),

    A = (1-κ) J_t    b = (1-κ) b_t + κ y_t    C = (1-κ) I    η = κ J_tᴴ (y_t - b_t)    Λ = κ J_tᴴ J_t

and two neighbouring stretches join, with M = I + Λ₂ C₁, to

    A = A₂ M⁻ᴴ A₁    b = A₂ M⁻ᴴ (b₁ + C₁ η₂) + b₂    C = A₂ M⁻ᴴ C₁ A₂ᴴ + C₂
    η = A₁ᴴ M⁻¹ (η₂ - Λ₂ b₁) + η₁                    Λ = A₁ᴴ M⁻¹ Λ₂ A₁ + Λ₁

For λ > 0 everything stays bounded however large the product of the J_t is: C ≤ 1/λ,
Λ_t ≤ |J_t|² and |A|² ≤ |J|²/λ. For λ = 0 the answer is the plain recurrence x_t = J_t x_{t-1} + b_t.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Float, Inexact


def smooth_diagonal(
    jacobian: Inexact[Array, "time *state"],
    offset: Inexact[Array, "time *state"],
    guess: Inexact[Array, "time *state"],
    initial: Inexact[Array, "*state"],
    damping: ArrayLike,
) -> Inexact[Array, "time *state"]:
    """Solves the damped problem for every entry of the state on its own.

    **Arguments:**

    - `jacobian`: the factors $J_t$, time first.
    - `offset`: the terms $b_t$, so that the undamped step is $x_t = J_t x_{t-1} + b_t$.
    - `guess`: the values $y_t$ that the damping pulls towards. Finite, even where it has no weight.
    - `initial`: the known state $x_0$, without the time axis.
    - `damping`: $\\lambda \\ge 0$, broadcastable against `initial`.

    **Returns:**

    The minimiser $x_1, \\dots, x_T$, of the shape and dtype of `offset`.
    """
    jacobian, offset = _fold_initial(jacobian, offset, jacobian[0] * initial)
    damping = jnp.broadcast_to(_as_real(damping, offset), initial.shape)
    keep, pull, variance = _weights(damping)

    elements = (
        _times(keep, jacobian),
        _times(keep, offset) + _times(pull, guess),
        jnp.broadcast_to(variance, offset.shape),
        _times(pull, jacobian.conj() * (guess - offset)),
        _sandwich(jacobian, pull),
    )
    _, mean, variance, _, _ = jax.lax.associative_scan(_join_diagonal, elements)

    jacobian, before = jacobian[1:], variance[:-1]
    gain = _times(before / (_sandwich(jacobian, before) + 1), jacobian.conj())
    predicted = jacobian * mean[:-1] + offset[1:]
    pulled = _times(damping * variance[1:], guess[1:] - predicted)
    gain, shift = _only_where(damping > 0, gain, gain * pulled)
    _, correction = jax.lax.associative_scan(
        lambda later, now: (now[0] * later[0], now[0] * later[1] + now[1]),
        (gain, shift),
        reverse=True,
    )
    return mean + _append_zero(correction)


def smooth_dense(
    jacobian: Inexact[Array, "time *batch dim dim"],
    offset: Inexact[Array, "time *batch dim"],
    guess: Inexact[Array, "time *batch dim"],
    initial: Inexact[Array, "*batch dim"],
    damping: ArrayLike,
) -> Inexact[Array, "time *batch dim"]:
    """Solves the damped problem with full matrices $J_t$.

    **Arguments:**

    - `jacobian`: the matrices $J_t$, time first, then any batch axes.
    - `offset`: the terms $b_t$, so that the undamped step is $x_t = J_t x_{t-1} + b_t$.
    - `guess`: the values $y_t$ that the damping pulls towards. Finite, even where it has no weight.
    - `initial`: the known state $x_0$, without the time axis.
    - `damping`: $\\lambda \\ge 0$, one per sample: broadcastable against `initial[..., :1]`.

    **Returns:**

    The minimiser $x_1, \\dots, x_T$, of the shape and dtype of `offset`.
    """
    jacobian, offset = _fold_initial(jacobian, offset, _apply(jacobian[0], initial))
    damping = jnp.broadcast_to(_as_real(damping, offset), (*initial.shape[:-1], 1))
    keep, pull, variance = _weights(damping)
    eye = jnp.eye(offset.shape[-1], dtype=offset.dtype)
    adjoint = _adjoint(jacobian)

    elements = (
        _times(keep[..., None], jacobian),
        _times(keep, offset) + _times(pull, guess),
        jnp.broadcast_to(_times(variance[..., None], eye), jacobian.shape),
        _times(pull, _apply(adjoint, guess - offset)),
        _times(pull[..., None], _matmul(adjoint, jacobian)),
    )
    _, mean, variance, _, _ = jax.lax.associative_scan(_join_dense, elements)

    jacobian = jacobian[1:]
    spread = _matmul(jacobian, variance[:-1])
    gain = _adjoint(_solve(_hermitian(_matmul(spread, adjoint[1:])) + eye, spread))
    predicted = _apply(jacobian, mean[:-1]) + offset[1:]
    pulled = _times(damping, _apply(variance[1:], guess[1:] - predicted))
    damped = damping > 0
    (gain,) = _only_where(damped[..., None], gain)
    (shift,) = _only_where(damped, _apply(gain, pulled))
    _, correction = jax.lax.associative_scan(
        lambda later, now: (_matmul(now[0], later[0]), _apply(now[0], later[1]) + now[1]),
        (gain, shift),
        reverse=True,
    )
    return mean + _append_zero(correction)


def _join_diagonal(first, second):
    A1, b1, C1, eta1, Lambda1 = first
    A2, b2, C2, eta2, Lambda2 = second
    M = 1 + C1 * Lambda2
    # Divided before they are multiplied, and never squared: A alone may be as large as 1/√λ.
    A1_M, Lambda2_M, C1_M = _times(1 / M, A1), Lambda2 / M, C1 / M
    return (
        A2 * A1_M,
        A2 * (_times(1 / M, b1) + _times(C1_M, eta2)) + b2,
        _sandwich(A2, C1_M) + C2,
        A1.conj() * (_times(1 / M, eta2) - _times(Lambda2_M, b1)) + eta1,
        _sandwich(A1, Lambda2_M) + Lambda1,
    )


def _join_dense(first, second):
    A1, b1, C1, eta1, Lambda1 = first
    A2, b2, C2, eta2, Lambda2 = second
    M = _matmul(Lambda2, C1) + jnp.eye(b1.shape[-1], dtype=b1.dtype)
    # One factorisation serves all five: A₂ M⁻ᴴ is the adjoint of M⁻¹ A₂ᴴ.
    right = [_adjoint(A2), _matmul(Lambda2, A1), (eta2 - _apply(Lambda2, b1))[..., None]]
    solved = _solve(M, jnp.concatenate(right, axis=-1))
    dim = b1.shape[-1]
    A2_M = _adjoint(solved[..., :dim])
    Lambda2_A1 = solved[..., dim : 2 * dim]
    innovation = solved[..., -1]
    A1_adjoint = _adjoint(A1)
    return (
        _matmul(A2_M, A1),
        _apply(A2_M, b1 + _apply(C1, eta2)) + b2,
        _hermitian(_matmul(_matmul(A2_M, C1), _adjoint(A2))) + C2,
        _apply(A1_adjoint, innovation) + eta1,
        _hermitian(_matmul(A1_adjoint, Lambda2_A1)) + Lambda1,
    )


def _fold_initial(jacobian, offset, first):
    # x_0 is known, so its share J_1 x_0 is part of the first offset, and the first step then
    # has the same formulas as all others, with J_1 = 0.
    return jacobian.at[0].set(0), offset.at[0].add(first)


def _weights(damping):
    keep = 1 / (1 + damping)  # 1 - κ, without the cancellation
    pull = damping / (1 + damping)  # κ, finite for every finite λ
    # Without damping the minimiser does not depend on the process covariance. Zero keeps it
    # from growing with the square of the states, and so from overflowing long before them.
    variance = jnp.where(damping > 0, keep, 0)
    return keep, pull, variance


def _only_where(damped, *values):
    # Without damping the smoother corrects nothing; selecting the zeros, rather than computing
    # them, keeps a recurrence that overflows at a late step from spoiling the earlier ones.
    return tuple(jnp.where(damped, value, 0) for value in values)


def _append_zero(correction):
    return jnp.concatenate([correction, jnp.zeros_like(correction, shape=(1, *correction.shape[1:]))])


def _as_real(damping, like) -> Float[Array, "..."]:
    return jnp.asarray(damping).astype(like.real.dtype)


def _times(real, value):
    # Under strict promotion a real array may not meet a complex one.
    return real.astype(value.dtype) * value


def _sandwich(value, real):
    # |value|² real, in an order in which 0 and 1/λ are safe weights for a very large value.
    if jnp.iscomplexobj(value):
        return value.real * (value.real * real) + value.imag * (value.imag * real)
    return value * (value * real)


def _adjoint(matrix):
    return jnp.swapaxes(matrix.conj(), -1, -2)


def _hermitian(matrix):
    # Rounding makes a covariance lose its symmetry, and the error grows from join to join.
    return (matrix + _adjoint(matrix)) / 2


def _matmul(left, right):
    # Accelerators shorten float32 products by default; covariances do not survive that.
    return jnp.matmul(left, right, precision=jax.lax.Precision.HIGHEST)


def _apply(matrix, vector):
    return _matmul(matrix, vector[..., None])[..., 0]


def _solve(matrix, right):
    return jnp.linalg.solve(matrix, right)
