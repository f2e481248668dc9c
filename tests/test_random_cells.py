"""No silent failure: random cells at 1 to 10 times the initial scale, long sequences, every solver."""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from cases import SOLVERS

from lrcssm import Status, cells, solve

UNITS = 4
SHARES = {20: 600, 300: 380, 2000: 20}  # length -> how many of a thousand cells


def random_cells(form, count, key):
    keys = jax.random.split(key, 2 * count)
    stack = eqx.filter_vmap(lambda k: cells.LRC(3, UNITS, form=form, dtype=jnp.float32, key=k))(keys[:count])
    scales = jnp.linspace(1, 10, count, dtype=jnp.float32)
    return jax.tree.map(lambda p: p * scales.reshape(-1, *(1,) * (p.ndim - 1)), stack), scales


# On a diagonal cell a quasi solver is the solver itself.
@pytest.mark.parametrize(
    ("solver", "total"),
    [("DEER", 100), *(pytest.param(name, 1000, marks=pytest.mark.slow) for name in SOLVERS if "quasi" not in name)],
)
def test_no_silent_failure(solver, total, getkey, capsys):
    counts, worst = np.zeros(len(Status), int), 0.0
    chosen = SOLVERS[solver]
    if hasattr(chosen, "max_steps"):
        chosen = dataclasses.replace(chosen, max_steps=100)
    for i, (length, share) in enumerate(SHARES.items()):
        share = share * total // 1000
        stack, _ = random_cells("paper" if i % 2 else "released", share, jax.random.key(length))
        inputs = jax.random.normal(getkey(), (share, length, 3), jnp.float32)

        @eqx.filter_jit
        @eqx.filter_vmap
        def run(cell, inputs):
            solution = solve(cell, inputs, solver=chosen, throw=False)
            before = jnp.concatenate([jnp.zeros((1, UNITS), jnp.float32), solution.states[:-1]])
            gap = jnp.abs(cell.step(before, cell.drive(inputs)) - solution.states)
            size = jnp.maximum(jnp.max(jnp.abs(solution.states), 1), jnp.max(jnp.abs(before), 1))
            size = jnp.maximum(size, jnp.mean(jnp.max(jnp.abs(solution.states), 1)))
            return solution.status, jnp.max(jnp.max(gap, 1) / size), solution.states

        status, residual, states = run(stack, inputs)
        counts += np.bincount(np.asarray(status), minlength=len(Status))
        good = np.asarray(status) <= Status.FELL_BACK
        # Twice the solver's tolerance, because rounding differs between one program and another.
        assert np.all(np.asarray(residual)[good] <= 16 * np.finfo(np.float32).eps)
        worst = max(worst, np.max(np.asarray(residual)[good], initial=0))
        assert np.all(np.isfinite(np.asarray(states)[good]))
    with capsys.disabled():
        shown = ", ".join(f"{status.name.lower()} {counts[status]}" for status in Status if counts[status])
        print(f"\n{solver}: {total} random cells: {shown}; largest residual of a success {worst:.1e}")
    assert counts.sum() == total
    if solver in ("Sequential", "Auto"):
        assert counts[Status.SUCCESS] + counts[Status.FELL_BACK] == total
