"""Iterations on the whole sequence: DEER, its quasi form, Jacobi, and (with the Kalman smoother) ELK.

Given states y, linearise every step at them and solve for new ones:

    x_t = F(y_{t-1}) + J_t (x_{t-1} − y_{t-1})          Newton: DEER; J_t replaced by its diagonal: quasi; by 0: Jacobi
    min Σ |x_t − J_t x_{t-1} − b_t|² + λ |x_t − y_t|²    Levenberg–Marquardt: ELK, with b_t = F(y_{t-1}) − J_t y_{t-1}

Convergence is that of the residual `y_t − F(y_{t-1})`, never of the last change: a residual of the size of rounding
means that y is what a sequential sweep with other roundings would give. Every sample has its own iteration: when it
is done it is frozen, so that a slow sample changes nothing for the others.
"""

from typing import Any

import equinox as eqx
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float, Inexact, Int

from .jacobian import as_vectors, linearise
from .kalman import smooth_dense, smooth_diagonal
from .recurrence import apply_matrix, linear_recurrence, previous
from .solution import Status
from .solvers import DEER, ELK, Jacobi
from .system import Piece, update

_START, _LESS, _MORE, _LEAST, _MOST = 1e-2, 0.1, 4.0, 1e-9, 1e9  # of the damping λ


class Iterate(eqx.Module):
    """A candidate for the states, linearised, with a verdict for each sample."""

    states: Inexact[Array, "time batch state"]
    new: Inexact[Array, "time batch state"]
    jacobian: Inexact[Array, "time batch *structure"] | None
    residual: Float[Array, " batch"]
    merit: Float[Array, " batch"]
    done: Bool[Array, " batch"]


class Progress(eqx.Module):
    at: Iterate
    damping: Float[Array, " batch"]
    status: Int[Array, " batch"]
    iterations: Int[Array, " batch"]
    count: Int[Array, ""]


def iterate(
    cell: Any, piece: Piece, initial: Array, guess: Array, solver: DEER | ELK | Jacobi
) -> tuple[Array, Array, Array, Array]:
    """States, status, iterations and relative residual; all but the states for each sample."""
    zeroth = isinstance(solver, Jacobi)
    damped = isinstance(solver, ELK)
    adaptive = isinstance(solver, ELK) and solver.trust is None
    quasi = not isinstance(solver, Jacobi) and solver.quasi
    structure = "diagonal" if quasi else cell.structure
    real = jnp.finfo(initial.dtype)
    rtol = 64 * float(real.eps) if solver.rtol is None else solver.rtol
    max_steps = solver.max_steps or (1000 if damped else piece.length + 1 if zeroth else 100)
    drive = cell.drive(piece.inputs)
    vectors, flat = as_vectors(structure)

    def examine(states) -> Iterate:
        def step(x):
            return update(cell, x, drive, piece.dt, piece.mask)

        before = previous(states, initial)
        new, jacobian = (step(before), None) if zeroth else linearise(step, before, cell.structure, quasi)
        gap = jnp.abs(new - states)
        scale = jnp.max(jnp.abs(states), (0, 2))
        worst = jnp.max(gap, (0, 2))
        return Iterate(
            states=states,
            new=new,
            jacobian=jacobian,
            residual=worst / jnp.maximum(scale, real.tiny),
            merit=jnp.sum(gap**2, (0, 2)),
            done=worst <= rtol * scale + max(solver.atol, float(real.tiny)),
        )

    def propose(at: Iterate, damping) -> Array:
        if at.jacobian is None:
            return at.new
        before = vectors(previous(at.states, initial))
        matrices = structure != "diagonal"
        offset = vectors(at.new) - (apply_matrix(at.jacobian, before) if matrices else at.jacobian * before)
        if not damped:
            return flat(linear_recurrence(at.jacobian, offset, vectors(initial)))
        smooth = smooth_dense if matrices else smooth_diagonal
        damping = damping.reshape(-1, *(1,) * (offset.ndim - 2))
        return flat(smooth(at.jacobian, offset, vectors(at.states), vectors(initial), damping))

    def body(now: Progress) -> Progress:
        active = now.status < 0
        trial = examine(propose(now.at, now.damping))
        finite = jnp.isfinite(trial.merit)
        better = finite & ((trial.merit < now.at.merit) | trial.done) if adaptive else finite
        take = active & better
        damping = jnp.where(better, jnp.maximum(now.damping * _LESS, _LEAST), now.damping * _MORE)
        at = _select(take, trial, now.at)
        count = now.count + 1
        status = now.status
        verdicts = [(at.done, Status.SUCCESS)]
        if adaptive:
            verdicts.append((damping > _MOST, Status.STALLED))
        else:
            verdicts.append((~finite, Status.DIVERGED))
        verdicts.append((count >= max_steps, Status.MAX_STEPS))
        for condition, verdict in reversed(verdicts):
            status = jnp.where(active & condition, int(verdict), status)
        return Progress(
            at=at,
            damping=damping if adaptive else now.damping,
            status=status,
            iterations=jnp.where(active, count, now.iterations),
            count=count,
        )

    start = examine(guess)
    batch = initial.shape[0]
    damping = _START if adaptive or not isinstance(solver, ELK) else 1.0 / (solver.trust or 1.0)
    begin = Progress(
        at=start,
        damping=jnp.full(batch, damping, real.dtype),
        status=jnp.where(start.done, int(Status.SUCCESS), -1),
        iterations=jnp.zeros(batch, jnp.int32),
        count=jnp.zeros((), jnp.int32),
    )
    end = lax.while_loop(lambda now: jnp.any(now.status < 0), body, begin)
    return end.at.states, end.status, end.iterations, end.at.residual


def _select(take: Array, new: Iterate, old: Iterate) -> Iterate:
    def pick(a, b):
        lead = (slice(None),) if a.ndim == 1 else (None, slice(None), *(None,) * (a.ndim - 2))
        return jnp.where(take[lead], a, b)

    fields = ("states", "new", "jacobian", "residual", "merit", "done")
    chosen = {f: None if getattr(new, f) is None else pick(getattr(new, f), getattr(old, f)) for f in fields}
    return Iterate(**chosen)
