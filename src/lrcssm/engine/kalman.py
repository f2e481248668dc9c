"""The damped linear problem over time, solved exactly and in parallel.

A damped (Levenberg–Marquardt) Newton step is the minimiser, over x_1 .. x_T and with x_0 given, of

    Σ_t |x_t − J_t x_{t−1} − b_t|² + λ |x_t − y_t|²

where y is the current guess. It is the posterior mean of a linear-Gaussian model with process covariance I that
observes y_t = x_t with covariance I/λ: a Kalman smoother. With P⁻ the predicted and P the filtered covariance,

    filter      P⁻_t = J_t P_{t−1} J_tᴴ + I         F_t = (I + λ P⁻_t)⁻¹       P_t = P⁻_t F_t
                m⁻_t = J_t m_{t−1} + b_t            m_t = F_t m⁻_t + K_t y_t   K_t = λ P⁻_t F_t = I − F_t
    smoother    δ_t  = G_t (δ_{t+1} + r_{t+1})      r_t = K_t (y_t − m⁻_t)     G_t = P_t J_{t+1}ᴴ (P⁻_{t+1})⁻¹
                x_t  = m_t + δ_t                    δ_T = 0

Three associative scans, each of depth O(log T), give P, then m, then δ. P comes first because it does not depend on
the data; given P, the means are plain linear recurrences. The scan for P joins elements (A, C, Λ) (Särkkä and
García-Fernández, 2021): over a stretch of time that starts from a state z, the last state has the mean Az + const and
the covariance C, and the guesses inform about z with the precision Λ. One step is, with κ = λ/(1+λ),

    A = (1−κ) J_t          C = (1−κ) I                      Λ = κ J_tᴴ J_t

and two neighbouring stretches join, with M = I + Λ₂ C₁, to

    A = A₂ M⁻ᴴ A₁          C = A₂ M⁻ᴴ C₁ A₂ᴴ + C₂           Λ = A₁ᴴ M⁻¹ Λ₂ A₁ + Λ₁

For λ > 0 all stays bounded, however large the product of the J_t: C ≤ 1/λ, Λ ≤ |J|² and |A|² ≤ |J|²/λ, where J is
the first one of the stretch. For λ = 0 the solution is the recurrence x_t = J_t x_{t−1} + b_t.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Inexact

from .prefix import prefixes
from .recurrence import apply_matrix, following, linear_recurrence, previous


def smooth_diagonal(
    jacobian: Inexact[Array, "time *state"],
    offset: Inexact[Array, "time *state"],
    guess: Inexact[Array, "time *state"],
    initial: Inexact[Array, "*state"],
    damping: ArrayLike,
) -> Inexact[Array, "time *state"]:
    """Solve the damped problem for every entry of the state on its own.

    **Arguments:**

    - `jacobian`: the factors `J`, time first.
    - `offset`: `b`; the undamped step is `x_t = J_t x_{t-1} + b_t`.
    - `guess`: `y`, which the damping pulls towards; finite, even where there is no damping.
    - `initial`: the known state `x_0`, without the time axis.
    - `damping`: `λ ≥ 0`, finite, broadcastable against `initial`.

    **Returns:**

    The minimiser, of the shape and dtype of `offset`.
    """
    jacobian, offset = _fold_initial(jacobian, offset, jacobian[0] * initial)
    damping = _real_like(damping, offset)
    damped = damping > 0
    square = jacobian.real**2 + jacobian.imag**2 if jnp.iscomplexobj(jacobian) else jacobian**2
    # The variances of undamped entries are of no consequence: as zeros they cannot overflow.
    square = jnp.where(damped, square, 0)
    keep, pull = 1 / (1 + damping), damping / (1 + damping)  # 1 − κ without its cancellation, κ without overflow
    variance = jnp.broadcast_to(jnp.where(damped, keep, 0), square.shape)
    elements = square * keep**2, variance, square * pull
    variance = prefixes(_join_diagonal, elements)[1]

    before = previous(variance)
    prior = square * before + 1
    total = keep + pull * prior  # (I + λ P⁻) / (1 + λ)
    # Under strict promotion a real array may not meet a complex one.
    keep, pull, back = (real.astype(offset.dtype) for real in (keep / total, pull * prior / total, before / prior))
    return _means(jacobian, offset, guess, keep, pull, back * jacobian.conj(), damped)


def smooth_dense(
    jacobian: Inexact[Array, "time *batch dim dim"],
    offset: Inexact[Array, "time *batch dim"],
    guess: Inexact[Array, "time *batch dim"],
    initial: Inexact[Array, "*batch dim"],
    damping: ArrayLike,
) -> Inexact[Array, "time *batch dim"]:
    """Solve the damped problem with full matrices.

    **Arguments:**

    - `jacobian`: the matrices `J`, time first, then any batch axes.
    - `offset`: `b`; the undamped step is `x_t = J_t x_{t-1} + b_t`.
    - `guess`: `y`, which the damping pulls towards; finite, even where there is no damping.
    - `initial`: the known state `x_0`, without the time axis.
    - `damping`: `λ ≥ 0`, finite, one for each sample: broadcastable against `initial[..., :1]`.

    **Returns:**

    The minimiser, of the shape and dtype of `offset`.
    """
    # Accelerators shorten float32 products by default; covariances do not survive that.
    with jax.default_matmul_precision("highest"):
        jacobian, offset = _fold_initial(jacobian, offset, apply_matrix(jacobian[0], initial))
        damping = jnp.broadcast_to(_real_like(damping, offset), (*initial.shape[:-1], 1))
        damped = damping > 0
        scale = damping[..., None].astype(offset.dtype)  # (*batch, 1, 1)
        eye = jnp.eye(offset.shape[-1], dtype=offset.dtype)
        # The covariances of undamped samples are of no consequence: as zeros they cannot overflow.
        active = jnp.where(damped[..., None], jacobian, 0)
        keep, pull = 1 / (1 + scale), scale / (1 + scale)  # 1 − κ without its cancellation, κ without overflow
        covariance = jnp.broadcast_to(jnp.where(damped[..., None], keep * eye, 0), jacobian.shape)
        precision = pull * (_adjoint(active) @ active)
        covariance = prefixes(_join_dense, (keep * active, covariance, precision))[1]

        spread = active @ previous(covariance)  # J_t P_{t-1}
        prior = _hermitian(spread @ _adjoint(active)) + eye
        # By LU and not Cholesky: where 1/λ is beyond the precision of the dtype, rounding may leave a covariance
        # slightly indefinite, which costs accuracy here and would cost everything there.
        right = jnp.concatenate([jnp.broadcast_to(keep * eye, prior.shape), pull * prior], axis=-1)
        keep, pull = jnp.split(jnp.linalg.solve(keep * eye + pull * prior, right), 2, axis=-1)
        gain = _adjoint(jnp.linalg.solve(prior, spread))
        return _means(jacobian, offset, guess, keep, pull, gain, damped)


def _means(jacobian, offset, guess, keep, pull, gain, damped):
    """The solution, given F_t, K_t and G_{t-1}: diagonals or matrices, like `jacobian`."""
    if jacobian.ndim > offset.ndim:
        compose, apply = jnp.matmul, apply_matrix
    else:
        compose = apply = jnp.multiply
    mean = linear_recurrence(compose(keep, jacobian), apply(keep, offset) + apply(pull, guess))
    # From K_t and not as m_t - m⁻_t, which is all rounding for a small λ.
    predicted = apply(jacobian, previous(mean)) + offset
    shift = apply(gain, apply(pull, guess - predicted))
    # Selected and not computed zeros: an undamped recurrence that overflows late must not spoil its early steps.
    shift = jnp.where(damped, shift, 0)
    return mean + linear_recurrence(following(gain), following(shift), reverse=True)


def _join_diagonal(first, second):
    # The first entry is |A|²: all are then real and positive, even for a complex state, and nothing cancels.
    A1, C1, Λ1 = first
    A2, C2, Λ2 = second
    inverse = 1 / (1 + Λ2 * C1)
    return (A2 * inverse) * (A1 * inverse), A2 * (inverse * C1) + C2, A1 * (inverse * Λ2) + Λ1


def _join_dense(first, second):
    A1, C1, Λ1 = first
    A2, C2, Λ2 = second
    M = Λ2 @ C1 + jnp.eye(C1.shape[-1], dtype=C1.dtype)
    # One factorisation serves all: A₂ M⁻ᴴ is the adjoint of M⁻¹ A₂ᴴ.
    right = jnp.concatenate([_adjoint(A2), Λ2 @ A1], axis=-1)
    A2_M, Λ2_A1 = jnp.split(jnp.linalg.solve(M, right), 2, axis=-1)
    A2_M = _adjoint(A2_M)
    return (
        A2_M @ A1,
        _hermitian(A2_M @ C1 @ _adjoint(A2)) + C2,
        _hermitian(_adjoint(A1) @ Λ2_A1) + Λ1,
    )


def _fold_initial(jacobian, offset, first):
    # x_0 is known, so its share J_1 x_0 belongs to the first offset; with J_1 = 0 the first step then follows the
    # same formulas as all others.
    return jacobian.at[0].set(0), offset.at[0].add(first)


def _real_like(damping, value):
    return jnp.asarray(damping).astype(value.real.dtype)


def _adjoint(matrix):
    return jnp.swapaxes(matrix.conj(), -1, -2)


def _hermitian(matrix):
    # Rounding makes a covariance lose its symmetry, and the loss grows from join to join.
    return (matrix + _adjoint(matrix)) / 2
