"""Iterations on the whole sequence: DEER, its quasi form, Jacobi, and (with the Kalman smoother) ELK.

Given states y with the residual r_t = F(y_{t-1}) − y_t, linearise every step at them and solve for a change δ:

    δ_t = J_t δ_{t-1} + r_t                        Newton: DEER; J_t replaced by its diagonal: quasi; by 0: Jacobi
    min Σ |δ_t − J_t δ_{t-1} − r_t|² + λ |δ_t|²    Levenberg–Marquardt: ELK

Solving for the change, not for the states, makes each iteration a step of iterative refinement: what a scan over a
long sequence loses to rounding is lost from δ, and the last δ is small.

ELK's damping is chosen by growth: a step that would make the largest state more than ten times as large is not taken but damped
more. The textbook rule, that every step must reduce the residual, fails here: on the way to the solution the later states are
far off while the earlier ones are already exact.

Convergence is that of the residual `y_t − F(y_{t-1})`, never of the last change: a residual of the size of rounding means that
y is the result of a sequential sweep with other roundings (the rule is in `tolerance.py`). Every sample iterates on its own. A
converged sample is frozen, so that a slow sample does not affect the others.
"""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float, Inexact, Int

from .jacobian import as_vectors, linearise
from .kalman import smooth_dense, smooth_diagonal
from .recurrence import linear_recurrence, previous
from .solution import Status
from .system import Piece, update
from .tolerance import backward_error, default_rtol, relative, scale, within

START = 1e-2  # of an adaptive damping λ
_LESS, _MORE, _LEAST, _MOST = 0.1, 4.0, 1e-9, 1e9
_GROWTH = 10.0  # of the largest state in one iteration: a larger step is not taken but damped


class Iterate(eqx.Module):
    """A candidate for the states, linearised, with its residual for each sample."""

    states: Inexact[Array, "time batch state"]
    new: Inexact[Array, "time batch state"]
    jacobian: Inexact[Array, "time batch *structure"] | None
    residual: Float[Array, " batch"]
    finite: Bool[Array, " batch"]
    done: Bool[Array, " batch"]


class Progress(eqx.Module):
    """The state of the iteration, with a status of −1 for samples that are not finished."""

    at: Iterate
    damping: Float[Array, " batch"]
    status: Int[Array, " batch"]
    iterations: Int[Array, " batch"]
    count: Int[Array, ""]


class Rule(NamedTuple):
    """Rule of an iteration: the settings of a solver.

    - `linear`: linearise every step; otherwise its value alone is used.
    - `quasi`: keep only the diagonal of the Jacobian.
    - `damping`: λ; `None` is an undamped step.
    - `adaptive`: change λ from iteration to iteration, for each sample.
    - `rtol`, `atol`, `max_steps`: the tolerances and the largest number of iterations.
    """

    linear: bool
    quasi: bool
    damping: float | None
    adaptive: bool
    rtol: float | None
    atol: float
    max_steps: int


def iterate(cell: Any, piece: Piece, initial: Array, guess: Array, rule: Rule) -> tuple[Array, Array, Array, Array]:
    """States, status, iterations and relative residual; all but the states for each sample."""
    damped, adaptive, quasi, atol = rule.damping is not None, rule.adaptive, rule.quasi, rule.atol
    structure = "diagonal" if quasi else cell.structure
    real = jnp.finfo(initial.dtype)
    rtol = default_rtol(real.dtype) if rule.rtol is None else rule.rtol
    drive = cell.drive(piece.inputs)
    # An initial state of zeros is a constant, and XLA would evaluate the first iteration on it while compiling.
    initial, guess = lax.optimization_barrier((initial, guess))
    vectors, flat = as_vectors(structure)

    def examine(states, last: Iterate | None = None) -> Iterate:
        def step(x):
            return update(cell, x, drive, piece.dt, piece.mask)

        before = previous(states, initial)
        new, jacobian = linearise(step, before, cell.structure, quasi) if rule.linear else (step(before), None)
        size = scale(states, before, jacobian, rtol)
        if last is None:
            error = jnp.abs(new - states)
        else:
            moved = previous(jnp.abs(states - last.states))
            close = jnp.all(within(moved, jnp.abs(before), rtol, atol), -1)
            error = backward_error(states, new, last.new, close)
        finite = jnp.all(jnp.abs(new - states) < jnp.inf, (0, 2))  # not by a maximum, which may lose NaN on its way
        return Iterate(
            states=states,
            new=new,
            jacobian=jacobian,
            residual=jnp.where(finite, jnp.max(relative(error, size), (0, 2)), jnp.inf),
            finite=finite,
            done=finite & jnp.all(within(error, size, rtol, atol), (0, 2)),
        )

    def propose(at: Iterate, damping) -> Array:
        if at.jacobian is None:
            return at.new
        gap = vectors(at.new - at.states)
        zero = jnp.zeros_like(gap[0])
        if not damped:
            change = linear_recurrence(at.jacobian, gap, zero)
        else:
            smooth = smooth_diagonal if structure == "diagonal" else smooth_dense
            damping = damping.reshape(-1, *(1,) * (gap.ndim - 2))
            change = smooth(at.jacobian, gap, jnp.zeros_like(gap), zero, damping)
        return at.states + flat(change)

    def body(now: Progress) -> Progress:
        active = now.status < 0
        trial = examine(propose(now.at, now.damping), now.at)
        better = trial.finite & (_reach(trial) <= _GROWTH * _reach(now.at)) if adaptive else trial.finite
        take = active & better
        damping = jnp.where(better, jnp.maximum(now.damping * _LESS, _LEAST), now.damping * _MORE)
        at = _select(take, trial, now.at)
        count = now.count + 1
        status = now.status
        verdicts = [(at.done, Status.SUCCESS)]
        if adaptive:
            verdicts.append((damping > _MOST, Status.STALLED))
        else:
            verdicts.append((~trial.finite, Status.DIVERGED))
        verdicts.append((count >= rule.max_steps, Status.MAX_STEPS))
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
    begin = Progress(
        at=start,
        damping=jnp.full(batch, rule.damping or 0.0, real.dtype),
        status=jnp.where(start.done, int(Status.SUCCESS), -1),
        iterations=jnp.zeros(batch, jnp.int32),
        count=jnp.zeros((), jnp.int32),
    )
    end = lax.while_loop(lambda now: jnp.any(now.status < 0), body, begin)
    return end.at.states, end.status, end.iterations, end.at.residual


def _reach(at: Iterate):
    """For each sample, the largest state that an iterate holds or leads to."""
    return jnp.maximum(jnp.max(jnp.abs(at.states), (0, 2)), jnp.max(jnp.abs(at.new), (0, 2)))


def _select(take: Array, new: Iterate, old: Iterate) -> Iterate:
    def pick(a, b):
        lead = (slice(None),) if a.ndim == 1 else (None, slice(None), *(None,) * (a.ndim - 2))
        return jnp.where(take[lead], a, b)

    return jax.tree.map(pick, new, old)
