"""`solve`: check the arguments, bring them into one layout, run a solver, attach the gradient."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.core
import jax.numpy as jnp

from .arguments import Arguments, prepare
from .solution import Solution, SolveError
from .solvers import Auto, Solver, as_solver


def solve(
    cell: Any | Callable,
    inputs: Any,
    *,
    state: Any = None,
    dt: Any = None,
    mask: Any = None,
    guess: Any = None,
    solver: Solver | str = Auto(),
    throw: bool = True,
) -> Solution:
    """Evaluate a recurrence `x_t = F(x_{t-1}, u_t)` at all steps of a sequence.

    ```python
    import jax, jax.numpy as jnp, lrcssm

    cell = lrcssm.cells.LRC(3, 8, key=jax.random.key(0))
    inputs = jax.random.normal(jax.random.key(1), (1000, 5, 3))  # time, batch, features
    solution = lrcssm.solve(cell, inputs)
    print(solution.states.shape)  # (1000, 5, 8)
    ```

    Differentiable with respect to the cell's parameters, `inputs`, `dt` and `state`, in forward and reverse mode and to any
    order. The derivative is implicit, so its cost does not depend on the number of iterations.

    **Arguments:**

    - `cell`: a cell, or a function `(state, input) -> state` (or `(state, input, dt) -> state`) of one state vector.
    - `inputs`: `(time, ..., features)`.
    - `state`: the state before the first step, `(..., state)`, or `(state,)` for all samples. The default is the
        cell's initial state; required for a function.
    - `dt`: the non-negative duration of each step: a scalar, `(time,)` for all samples, or `(time, ...)`; 1 by default. An
        error for cells whose step does not depend on `dt`.
    - `mask`: `(time, ...)`, true for observed steps. Other steps leave the state unchanged, and their inputs, even NaN, have
        no effect.
    - `guess`: states to start the iteration from, `(time, ..., state)`: a warm start for the parallel solvers.
    - `solver`: `Auto()`, `Sequential()`, `DEER()`, `ELK()`, `Jacobi()`, or `Sharded(mesh)` for many devices; or the name of one
        with its defaults: `"auto"`, `"sequential"`, `"deer"`, `"elk"`.
    - `throw`: raise `SolveError` if the solve fails. With `throw=False`, check `Solution.status`. Inside `jit` the
        compiled program raises, except with `Sharded`, where the states of failed samples are NaN.

    **Returns:**

    A [`Solution`][lrcssm.Solution]; `solution.states` is `(time, ..., state)` and `solution.final` the last state.
    """
    solver = as_solver(solver)
    return solve_prepared(prepare(cell, inputs, state, dt, mask, guess), solver, throw)


def solve_prepared(arguments: Arguments, solver: Solver, throw: bool) -> Solution:
    """`solve` for arguments that have been checked."""
    traced = is_traced(arguments)
    solution = _compiled(arguments, solver.resolve(arguments.cell.structure), throw and traced)
    if throw and not traced:
        check_solution(solution)
    return solution


@eqx.filter_jit
def _compiled(arguments: Arguments, solver: Solver, raise_inside: bool) -> Solution:
    return solver.solution(arguments, raise_inside)


def is_traced(tree: Any) -> bool:
    """True if a function of some arrays is being transformed or compiled, so that their numbers are not known."""
    return any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves(tree))


def check_solution(solution: Solution) -> None:
    """Raise `SolveError` if a solve has failed; does nothing while it is traced."""
    if jnp.any(~solution.ok):
        raise SolveError(_sentence(solution))


def _sentence(solution: Solution) -> str:
    bad = int(jnp.sum(~solution.ok))
    which = f" ({bad} of {solution.status.size} samples)" if solution.status.size > 1 else ""
    return f"{solution.solver}{which}: {solution.message}"
