"""Checks for authors of cells: the declared Jacobian structure, and the agreement of all solvers."""

import dataclasses
import functools
import sys
import time
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, PRNGKeyArray

from .engine import DEER, ELK, Jacobi, Sequential, Solver, Status
from .engine.arguments import Arguments, prepare
from .engine.recurrence import previous
from .engine.solve import solve_prepared
from .engine.system import update
from .errors import InvalidType, InvalidValue


@dataclasses.dataclass(frozen=True)
class StructureReport:
    """The result of `check_structure`. True (as a condition) if the declaration is right."""

    declared: str
    found: str
    declared_affine: bool
    found_affine: bool
    outside: float
    holomorphic: bool = True

    def __bool__(self) -> bool:
        return self.outside == 0.0 and self.holomorphic and (self.found_affine or not self.declared_affine)

    def __str__(self) -> str:
        order = ("diagonal", "block2", "dense")
        if not self.holomorphic:
            return (
                "The step is not holomorphic in its complex state, so no complex Jacobian describes it and gradients are "
                "wrong; write it without conjugates, moduli, real and imaginary parts, or make a real state of two halves."
            )
        if self.outside:
            return (
                f'Declared structure="{self.declared}", but the Jacobian is {self.found}: entries outside of the '
                f'structure are as large as {self.outside:.2g} of the largest; declare structure="{self.found}".'
            )
        if self.declared_affine and not self.found_affine:
            return "Declared affine=True, but the Jacobian changes with the state; declare affine=False."
        text = f'Declared structure="{self.declared}", and the Jacobian is {self.found}'
        if order.index(self.found) < order.index(self.declared):
            text += f'; declare structure="{self.found}" to have it solved faster'
        if self.found_affine and not self.declared_affine:
            text += "; the step is affine in the state, so affine=True may be declared"
        return text + "."


def check_structure(
    cell: Any, *, state: Any = None, samples: int = 16, scale: float = 1.0, key: PRNGKeyArray | None = None
) -> StructureReport:
    """Compare the Jacobian structure that a cell declares with its true, dense Jacobian. For a complex state, also check that
    `step` is holomorphic.

    ```python
    import jax, lrcssm

    cell = lrcssm.cells.LRC(3, 8, key=jax.random.key(0))
    report = lrcssm.check_structure(cell)
    print(report)  # Declared structure="diagonal", and the Jacobian is diagonal.
    assert report
    ```

    **Arguments:**

    - `cell`: the cell; it must have `input_dim`.
    - `state`: states at which to evaluate the Jacobian, `(..., state)`; by default random ones of size `scale`.
    - `samples`: number of random states and inputs.
    - `key`: for the random states and inputs.

    **Returns:**

    A `StructureReport`: print it, or use it as a condition.
    """
    if not hasattr(cell, "input_dim") or not hasattr(cell, "structure"):
        raise InvalidType(f"check_structure got a {type(cell).__name__}; give a cell that has input_dim and structure.")
    keys = jax.random.split(jax.random.key(0) if key is None else key)
    one = cell.initial_state()
    if state is None:
        state = scale * jax.random.normal(keys[0], (samples, *one.shape), one.dtype)
    else:
        state = jnp.asarray(state, one.dtype).reshape(-1, one.shape[-1])
    # Where some parameters are real, so are the inputs.
    parameters = [a for a in jax.tree.leaves(eqx.filter(cell, eqx.is_inexact_array)) if not jnp.iscomplexobj(a)]
    kind = one.real.dtype if parameters else one.dtype
    inputs = scale * jax.random.normal(keys[1], (len(state), cell.input_dim), kind)
    report = _compare(cell, state, cell.drive(inputs), 1.0)
    if report is None:
        raise InvalidValue(
            f"check_structure got a {type(cell).__name__} whose Jacobian is not finite at some of {len(state)} states; give "
            "states that the cell can be in as state=, or a smaller scale."
        )
    return report


def _compare(cell: Any, states: Array, drive: Any, dt: Any) -> StructureReport | None:
    """Compare at some states, `(samples, state)`, each with its drive and maybe its dt; `None` if a Jacobian is not finite."""
    each = (0, 0, 0 if jnp.ndim(dt) else None)

    @functools.partial(jax.jit, static_argnums=1)
    def columns(states, factor):
        def one(x, d, dt):
            tangents = factor * jnp.eye(size, dtype=x.dtype)
            return jax.vmap(lambda v: jax.jvp(lambda x: cell.step(x, d, dt), (x,), (v,))[1], out_axes=1)(tangents)

        return jax.vmap(one, each)(states, drive, dt)  # samples, state, state

    size, rounding = states.shape[-1], float(jnp.finfo(states.dtype).eps)
    dense = columns(states, 1)
    moved = jnp.abs(columns(states[::-1], 1) - dense)
    jacobian = jnp.abs(dense)
    largest = float(jnp.max(jacobian)) or 1.0
    if not largest < float("inf"):
        return None
    holomorphic = True
    if jnp.iscomplexobj(states):
        turned = jnp.max(jnp.abs(columns(states, 1j) - 1j * dense))
        holomorphic = float(turned) <= 64 * rounding * largest
    inside = {"diagonal": jnp.eye(size, dtype=bool), "dense": jnp.ones((size, size), bool)}
    if size % 2 == 0:
        unit = jnp.arange(size) % (size // 2)
        inside["block2"] = unit[:, None] == unit
    outside = {name: float(jnp.max(jnp.where(mask, 0, jacobian))) / largest for name, mask in inside.items()}
    found = next(name for name in ("diagonal", "block2", "dense") if outside.get(name) == 0)
    return StructureReport(
        declared=cell.structure,
        found=found,
        declared_affine=bool(getattr(cell, "affine", False)),
        found_affine=float(jnp.max(moved)) <= 8 * rounding * largest,
        outside=outside.get(cell.structure, 1.0),
        holomorphic=holomorphic,
    )


@dataclasses.dataclass(frozen=True)
class Agreement:
    """One line of `check_agreement`: a solver against a plain `lax.scan` and its derivative."""

    solver: Solver
    status: Status
    iterations: int
    residual: float
    difference: float
    gradient_difference: float
    milliseconds: float


def check_agreement(
    cell: Any,
    inputs: Any,
    *,
    state: Any = None,
    dt: Any = None,
    mask: Any = None,
    solvers: tuple[Solver, ...] | None = None,
    file: Any = None,
) -> list[Agreement]:
    """Run every solver on a cell and print how far its states and gradients (with respect to parameters, inputs, dt and initial
    state) are from a plain `lax.scan` over the cell's step. A wrong declaration of the Jacobian is reported first.

    ```python
    import jax, lrcssm

    cell = lrcssm.cells.LRC(3, 8, key=jax.random.key(0))
    rows = lrcssm.check_agreement(cell, jax.random.normal(jax.random.key(1), (50, 3)))
    assert all(row.difference < 1e-4 and row.gradient_difference < 1e-4 for row in rows)
    ```

    **Arguments:**

    - `cell`, `inputs`, `state`, `dt`, `mask`: as for `lrcssm.solve`.
    - `solvers`: the solvers; by default all, the quasi forms only for cells whose Jacobian is not diagonal.
    - `file`: where the table goes; standard output if not given.

    **Returns:**

    A list of `Agreement`, in the order of the table. Differences are relative to the largest value.
    """
    arguments = prepare(cell, inputs, state, dt, mask, None)
    structure = arguments.cell.structure
    if solvers is None:
        quasi = () if structure == "diagonal" else (DEER(quasi=True), ELK(quasi=True))
        solvers = (Sequential(), DEER(), ELK(), *quasi, Jacobi())
    truth, gradient = _differentiated(lambda arguments: (_plain(arguments),))(arguments)
    report = _compare_along(arguments, truth[0])
    if report is not None and not report:
        print(report, file=file or sys.stdout)
    rows = []
    for solver in solvers:

        def found(arguments, solver=solver):
            solution = solve_prepared(arguments, solver, False)
            return solution.states, solution

        run = _differentiated(found)
        jax.block_until_ready(run(arguments))
        start = time.perf_counter()
        (states, solution), got = jax.block_until_ready(run(arguments))
        elapsed = time.perf_counter() - start
        rows.append(
            Agreement(
                solver=solver,
                status=Status(int(jnp.max(solution.status))),
                iterations=int(jnp.max(solution.iterations)),
                residual=float(jnp.max(solution.residual)),
                difference=_difference(states, arguments.restore(truth[0])),
                gradient_difference=float(np.max([*map(_difference, _parts(got), _parts(gradient))])),
                milliseconds=1e3 * elapsed,
            )
        )
    print(_table(rows), file=file or sys.stdout)
    return rows


def _plain(arguments: Arguments) -> Array:
    """States by a plain `lax.scan` over the cell's step, differentiated by JAX without use of the structure."""
    cell, piece = arguments.cell, arguments.piece
    moving = piece.dt is not None and piece.dt.ndim > 0

    def step(state, now):
        inputs, dt, mask = now
        state = update(cell, state, cell.drive(inputs), dt if moving else piece.dt, mask)
        return state, state

    return lax.scan(step, arguments.initial, (piece.inputs, piece.dt if moving else None, piece.mask))[1]


def _differentiated(function: Callable) -> Callable:
    """Results of `function(arguments)`, states first, and the gradient of Σ|states|² with respect to all of its arguments."""

    @eqx.filter_jit
    def run(arguments):
        numbers, rest = eqx.partition(arguments, eqx.is_inexact_array)

        def total(numbers):
            results = function(eqx.combine(numbers, rest))
            return jnp.sum(jnp.abs(results[0]) ** 2), results

        gradient, results = jax.grad(total, has_aux=True)(numbers)
        return results, gradient

    return run


def _compare_along(arguments: Arguments, states: Array, samples: int = 16) -> StructureReport | None:
    """Structure of the Jacobian at some states of a trajectory."""
    cell, piece = arguments.cell, arguments.piece
    before = previous(states, arguments.initial)
    length, batch, size = before.shape
    which = jnp.unique(jnp.linspace(0, length * batch - 1, samples).astype(int))
    at, inputs = before.reshape(-1, size)[which], piece.inputs.reshape(length * batch, -1)[which]
    dt = 1.0 if piece.dt is None else piece.dt.reshape(-1)[which] if piece.dt.ndim else piece.dt
    return _compare(cell, at, cell.drive(inputs), dt)


def _parts(gradient: Any) -> list[list[Array]]:
    """Parts of a gradient, each scaled by its own largest entry: parameters, inputs, dt and initial state."""
    piece = gradient.piece
    return [jax.tree.leaves(part) for part in (gradient.cell, piece.inputs, piece.dt, gradient.initial)]


def _difference(got: Any, want: Any) -> float:
    """Largest difference relative to the largest expected entry; NaN if there is any."""
    pairs = list(zip(jax.tree.leaves(got), jax.tree.leaves(want), strict=True))
    apart = np.max([np.max(np.abs(a - b), initial=0.0) for a, b in pairs] or [0.0])
    size = np.max([np.max(np.abs(b), initial=0.0) for _, b in pairs] or [0.0])
    return float(apart / np.maximum(size, np.finfo(size.dtype).tiny))


def _table(rows: list[Agreement]) -> str:
    lines = [f"{'solver':<18}{'status':<20}{'iterations':>10}{'residual':>11}{'states':>11}{'gradient':>11}{'ms':>10}"]
    for row in rows:
        name = type(row.solver).__name__
        name = f"quasi-{name}" if getattr(row.solver, "quasi", False) else name
        lines.append(
            f"{name:<18}{row.status.name.lower():<20}{row.iterations:>10}{row.residual:>11.1e}{row.difference:>11.1e}"
            f"{row.gradient_difference:>11.1e}{row.milliseconds:>10.2f}"
        )
    lines.append("states, gradient: largest difference from a plain scan and its derivative, over the largest value")
    lines += sorted({f"{row.status.name.lower()}: {row.status.message}" for row in rows if not row.status.ok})
    return "\n".join(lines)
