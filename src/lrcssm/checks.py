"""What the author of a cell runs on it: is its Jacobian what it declares, and do all solvers agree on it?"""

import dataclasses
import sys
import time
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, PRNGKeyArray

from .engine import DEER, ELK, Jacobi, Sequential, Solver, Status, solve


@dataclasses.dataclass(frozen=True)
class StructureReport:
    """What `check_structure` found. True (as a condition) if the declaration is right."""

    declared: str
    found: str
    declared_affine: bool
    found_affine: bool
    outside: float

    def __bool__(self) -> bool:
        return self.outside == 0.0 and (self.found_affine or not self.declared_affine)

    def __str__(self) -> str:
        order = ("diagonal", "block2", "dense")
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
    """Compares the Jacobian structure that a cell declares with that of its true, dense Jacobian.

    ```python
    import jax, lrcssm

    cell = lrcssm.cells.LRC(3, 8, key=jax.random.key(0))
    report = lrcssm.check_structure(cell)
    print(report)  # Declared structure="diagonal", and the Jacobian is diagonal.
    assert report
    ```

    **Arguments:**

    - `cell`: the cell; it must say its `input_dim`.
    - `state`: states to look at, `(..., state)`; random ones of size `scale` if not given.
    - `samples`: how many random states and inputs to look at.
    - `key`: for the random states and inputs.

    **Returns:**

    A `StructureReport`: print it, or use it as a condition.
    """
    if not hasattr(cell, "input_dim") or not hasattr(cell, "structure"):
        raise TypeError(f"check_structure got a {type(cell).__name__}; give a cell that has input_dim and structure.")
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
    dense = jax.vmap(jax.jacfwd(lambda x, d: cell.step(x, d, 1.0), holomorphic=jnp.iscomplexobj(one)))
    jacobian = jnp.abs(dense(state, cell.drive(inputs)))  # samples, state, state
    moved = jnp.abs(dense(state[::-1], cell.drive(inputs)) - dense(state, cell.drive(inputs)))
    largest = float(jnp.max(jacobian)) or 1.0
    size = one.shape[-1]
    diagonal = jnp.eye(size, dtype=bool)
    inside = {"diagonal": diagonal, "dense": jnp.ones((size, size), bool)}
    if size % 2 == 0:
        unit = jnp.arange(size) % (size // 2)
        inside["block2"] = unit[:, None] == unit
    outside = {name: float(jnp.max(jnp.where(mask, 0, jacobian))) / largest for name, mask in inside.items()}
    found = next(name for name in ("diagonal", "block2", "dense") if outside.get(name) == 0)
    return StructureReport(
        declared=cell.structure,
        found=found,
        declared_affine=bool(getattr(cell, "affine", False)),
        found_affine=float(jnp.max(moved)) <= 8 * float(jnp.finfo(one.dtype).eps) * largest,
        outside=outside.get(cell.structure, 1.0),
    )


@dataclasses.dataclass(frozen=True)
class Agreement:
    """One line of `check_agreement`: how a solver did against the sequential sweep."""

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
    """Runs every solver on a cell and prints how far each is from the sequential sweep, in states and gradients.

    ```python
    import jax, lrcssm

    cell = lrcssm.cells.LRC(3, 8, key=jax.random.key(0))
    rows = lrcssm.check_agreement(cell, jax.random.normal(jax.random.key(1), (50, 3)))
    assert all(row.difference < 1e-4 for row in rows)
    ```

    **Arguments:**

    - `cell`, `inputs`, `state`, `dt`, `mask`: as for `lrcssm.solve`.
    - `solvers`: which ones; without it, all, the quasi forms only for a cell whose Jacobian is not diagonal.
    - `file`: where the table goes; standard output if not given.

    **Returns:**

    A list of `Agreement`, in the order of the table. Differences are relative to the largest value.
    """
    if solvers is None:
        exact = getattr(cell, "structure", "dense") == "diagonal"
        quasi = () if exact else (DEER(quasi=True), ELK(quasi=True))
        solvers = (Sequential(), DEER(), ELK(), *quasi, Jacobi())
    arrays, static = eqx.partition(cell, eqx.is_array)

    def run(arrays, inputs, solver):
        def total(inputs):
            solution = solve(
                eqx.combine(arrays, static), inputs, state=state, dt=dt, mask=mask, solver=solver, throw=False
            )
            return jnp.sum(jnp.abs(solution.states) ** 2), solution

        return jax.grad(total, has_aux=True)(inputs)

    inputs = jnp.asarray(inputs)
    run = eqx.filter_jit(run)
    gradient, truth = run(arrays, inputs, Sequential())
    rows = []
    for solver in solvers:
        jax.block_until_ready(run(arrays, inputs, solver))
        start = time.perf_counter()
        got, solution = jax.block_until_ready(run(arrays, inputs, solver))
        elapsed = time.perf_counter() - start
        rows.append(
            Agreement(
                solver=solver,
                status=Status(int(jnp.max(solution.status))),
                iterations=int(jnp.max(solution.iterations)),
                residual=float(jnp.max(solution.residual)),
                difference=_difference(solution.states, truth.states),
                gradient_difference=_difference(got, gradient),
                milliseconds=1e3 * elapsed,
            )
        )
    print(_table(rows), file=file or sys.stdout)
    return rows


def _difference(got: Array, want: Array) -> float:
    return float(jnp.max(jnp.abs(got - want)) / jnp.maximum(jnp.max(jnp.abs(want)), jnp.finfo(want.dtype).tiny))


def _table(rows: list[Agreement]) -> str:
    lines = [f"{'solver':<18}{'status':<20}{'iterations':>10}{'residual':>11}{'states':>11}{'gradient':>11}{'ms':>10}"]
    for row in rows:
        name = type(row.solver).__name__
        name = f"quasi-{name}" if getattr(row.solver, "quasi", False) else name
        lines.append(
            f"{name:<18}{row.status.name.lower():<20}{row.iterations:>10}{row.residual:>11.1e}{row.difference:>11.1e}"
            f"{row.gradient_difference:>11.1e}{row.milliseconds:>10.2f}"
        )
    lines.append("states, gradient: largest difference from the sequential sweep, relative to the largest value")
    lines += sorted({f"{row.status.name.lower()}: {row.status.message}" for row in rows if not row.status.ok})
    return "\n".join(lines)
