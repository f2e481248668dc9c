"""`solve`: the one verb. Checks what it is given, brings it into one layout, runs a solver, attaches the gradient."""

import dataclasses
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.core
import jax.numpy as jnp
from jax import lax
from jax.ad_checkpoint import checkpoint_name
from jaxtyping import Array

from .adjoint import attach
from .arguments import Arguments, prepare
from .newton import iterate
from .sharded import over_devices
from .solution import Solution, SolveError, Status
from .solvers import DEER, Auto, Local, Sequential, Sharded, Solver
from .system import Piece, chunk_length, held, sweep
from .verdict import guard, judge


def solve(
    cell: Any | Callable,
    inputs: Any,
    *,
    state: Any = None,
    dt: Any = None,
    mask: Any = None,
    guess: Any = None,
    solver: Solver = Auto(),
    throw: bool = True,
) -> Solution:
    """Evaluates a recurrence `x_t = F(x_{t-1}, u_t)` at all steps of a sequence.

    ```python
    import jax, jax.numpy as jnp, lrcssm

    cell = lrcssm.cells.LRC(3, 8, key=jax.random.key(0))
    inputs = jax.random.normal(jax.random.key(1), (1000, 5, 3))  # time, batch, features
    solution = lrcssm.solve(cell, inputs)
    print(solution.states.shape)  # (1000, 5, 8)
    ```

    Differentiable with respect to the cell's parameters, `inputs`, `dt` and `state`, in forward and reverse mode and
    as often as you like; the derivative is implicit, so its cost does not depend on the solver's iterations.

    **Arguments:**

    - `cell`: a cell, or a function `(state, input) -> state` (or `(state, input, dt) -> state`) of one state vector.
    - `inputs`: `(time, ..., features)`.
    - `state`: the state before the first step, `(..., state)` or `(state,)` for all samples alike. Without it, the
        cell's own initial state. A function needs it.
    - `dt`: the time that each step takes, not negative: a scalar or `(time, ...)`; 1 if not given.
    - `mask`: `(time, ...)`, true where a step is real. Other steps leave the state as it is, and what their inputs hold
        changes nothing, NaN included.
    - `guess`: states to start the iteration from, `(time, ..., state)`: a warm start for the parallel solvers.
    - `solver`: `Auto()`, `Sequential()`, `DEER()`, `ELK()`, `Jacobi()`, or `Sharded(mesh)` for many devices.
    - `throw`: raise `SolveError` if the states may not be used. With `throw=False` look at `Solution.status`.

    **Returns:**

    A [`Solution`][lrcssm.Solution]; `solution.states` is `(time, ..., state)` and `solution.final` the last state.
    """
    return solve_prepared(prepare(cell, inputs, state, dt, mask, guess), solver, throw)


def solve_prepared(arguments: Arguments, solver: Solver, throw: bool) -> Solution:
    """`solve` for arguments that have been checked."""
    traced = is_traced(arguments)
    structure = arguments.cell.structure
    if isinstance(solver, Sharded):
        chosen = dataclasses.replace(solver, solver=_chosen(solver.solver, structure))
        solution = _solve_sharded(arguments, chosen, throw and traced)
    else:
        solution = _solve(arguments, _chosen(solver, structure), throw and traced)
    if throw and not traced:
        check_solution(solution)
    return solution


def is_traced(tree: Any) -> bool:
    """Whether a function of some arrays is being transformed or compiled, so that it cannot look at their numbers."""
    return any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves(tree))


def check_solution(solution: Solution) -> None:
    """Raises `SolveError` if the states of a solution may not be used; not while it is traced."""
    if jnp.any(~solution.ok):
        raise SolveError(_sentence(solution))


def _chosen(solver: Local, structure: str) -> Local:
    """Makes up `Auto`'s mind, which depends on the backend."""
    if not isinstance(solver, Auto):
        if not isinstance(solver, Local):
            raise TypeError(
                f"solve got solver={solver!r}; give one of Auto(), Sequential(), DEER(), ELK(), Jacobi() or Sharded(mesh)"
                + (" (an instance: add the parentheses)." if isinstance(solver, type) else ".")
            )
        return solver
    parallel = jax.default_backend() != "cpu" if solver.parallel is None else solver.parallel
    if not parallel:
        return Sequential()
    return Auto(True, solver.newton or DEER(quasi=structure == "dense"))


STATES = "lrcssm: states"
"""What `jax.checkpoint` knows the states by. To find them again may take longer than everything else in a model."""


@eqx.filter_jit
def _solve(arguments: Arguments, solver: Local, raise_inside: bool) -> Solution:
    cell, piece, initial = arguments.cell, arguments.piece, arguments.initial
    still: tuple[Any, Piece, Array] = held((cell, piece, initial))
    chunk = chunk_length(piece.length, initial.size)
    if isinstance(solver, Sequential):
        name = "Sequential"
        chunk = solver.chunk or chunk
        states, status = sweep(*still, chunk, name if raise_inside else None)
        iterations = jnp.zeros(initial.shape[0], jnp.int32)
        residual = jnp.zeros(initial.shape[0], states.real.dtype)
        matrices = parallel = False
    else:
        newton = solver.newton if isinstance(solver, Auto) else solver
        assert newton is not None
        name = f"Auto: {newton}" if isinstance(solver, Auto) else str(newton)
        guess = (
            jnp.broadcast_to(still[2], (piece.length, *initial.shape)) if arguments.guess is None else arguments.guess
        )
        states, status, iterations, residual = iterate(*still, held(guess), newton)
        if isinstance(solver, Auto):
            bad = status > Status.FELL_BACK
            states = lax.cond(
                jnp.any(bad), lambda: jnp.where(bad[:, None], sweep(*still, chunk)[0], states), lambda: states
            )
            status = jnp.where(bad, int(Status.FELL_BACK), status)
            residual = jnp.where(bad, 0, residual)
        status = judge(status, states, *still, arguments.guess)
        if raise_inside:
            states = guard(states, status, name)
        # A quasi solver is chosen where T·D² is too much, so its exact gradient must not build that either.
        matrices = not getattr(newton, "quasi", False)
        parallel = matrices or cell.structure == "diagonal"
        chunk = piece.length if parallel else chunk
    states = attach(
        checkpoint_name(states, STATES), cell, piece, initial, chunk=chunk, parallel=parallel, matrices=matrices
    )
    return Solution(
        states=arguments.restore(states),
        status=arguments.restore(status),
        iterations=arguments.restore(iterations),
        residual=arguments.restore(residual),
        solver=name,
    )


@eqx.filter_jit
def _solve_sharded(arguments: Arguments, solver: Sharded, raise_inside: bool) -> Solution:
    if arguments.guess is not None:
        raise ValueError("solve got a guess, which Sharded cannot use; leave it out.")

    def run(cell, inputs, state, dt, mask):
        part = Arguments(cell, Piece(inputs, dt, mask), state, None, state.shape[:1])
        found = _solve(part, solver.solver, False)
        return found.states, found.final, found.status

    piece, name = arguments.piece, str(solver)
    states, _, status, iterations, residual = over_devices(
        run, arguments.cell, piece.inputs, arguments.initial, piece.dt, piece.mask, solver
    )
    if raise_inside:
        states = guard(states, status, name)
    restore = arguments.restore
    return Solution(restore(states), restore(status), restore(iterations), restore(residual), name)


def _sentence(solution: Solution) -> str:
    bad = int(jnp.sum(~solution.ok))
    which = f" ({bad} of {solution.status.size} samples)" if solution.status.size > 1 else ""
    return f"{solution.solver}{which}: {solution.message}"
