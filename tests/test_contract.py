"""Masks, chunks of time and single steps, as the contract of `solve` promises."""

import hypothesis
import hypothesis.strategies as st
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from cases import CELLS, SOLVERS, Case, distance, every

from lrcssm import Sequential, solve


@every()
def test_padding_changes_not_one_bit(solver, cell):
    case = Case(cell, 9, masked=True, dt="steps")

    @jax.jit
    def run(cell, filling):
        inputs = jnp.where(case.mask[..., None], case.inputs, filling)
        dt = jnp.where(case.mask, case.dt, filling)

        def total(cell, inputs, dt, state):
            solution = solve(cell, inputs, state=state, dt=dt, mask=case.mask, solver=SOLVERS[solver], throw=False)
            return jnp.sum(jnp.real(case.cotangent * solution.states)), solution

        return jax.grad(total, (0, 1, 2, 3), has_aux=True)(cell, inputs, dt, case.state)

    clean = run(case.cell, 0.5)
    assert jnp.all(clean[1].ok)
    for filling in (jnp.nan, jnp.inf):
        for a, b in zip(jax.tree.leaves(clean), jax.tree.leaves(run(case.cell, filling)), strict=True):
            np.testing.assert_array_equal(a, b)
    inputs_gradient = clean[0][1]
    assert jnp.all(jnp.where(case.mask[..., None], 0, inputs_gradient) == 0)


@pytest.mark.parametrize("solver", SOLVERS)
def test_a_masked_tail_keeps_the_last_real_state(solver):
    case = Case("LRC paper", 20)
    want = case.states()
    mask = jnp.arange(20)[:, None] < jnp.array([20, 13])
    states = solve(case.cell, case.inputs, state=case.state, mask=mask, solver=SOLVERS[solver], throw=False).states
    assert distance(states[:13], want[:13]) < 1e-12 and distance(states[:, 0], want[:, 0]) < 1e-12
    assert distance(states[13:, 1], jnp.broadcast_to(states[12, 1], (7, 4))) < 1e-12


@every()
def test_whole_is_chunks_is_single_steps(solver, cell):
    case = Case(cell, 6, masked=True, dt="steps")
    whole = solve(case.cell, case.inputs, **case.options, solver=SOLVERS[solver]).states
    for size in (3, 1):
        state, parts = case.state, []
        run = jax.jit(
            lambda u, x, h, m: solve(case.cell, u, state=x, dt=h, mask=m, solver=SOLVERS[solver], throw=False)
        )
        for start in range(0, 6, size):
            now = slice(start, start + size)
            solution = run(case.inputs[now], state, case.dt[now], case.mask[now])
            assert jnp.all(solution.ok)
            parts.append(solution.states)
            state = solution.final
        assert distance(jnp.concatenate(parts), whole) < 1e-11
    state = case.state
    for t in range(6):
        new = case.cell.step(state, case.cell.drive(case.inputs[t]), case.dt[t][:, None])
        state = jnp.where(case.mask[t][:, None], new, state)
        assert distance(state, whole[t]) < 1e-11


@pytest.mark.slow
@hypothesis.settings(max_examples=6)
@hypothesis.given(
    length=st.integers(1, 40),
    chunk=st.integers(1, 45),
    batch=st.lists(st.integers(1, 3), max_size=2),
    masked=st.booleans(),
    dt=st.sampled_from([None, "scalar", "steps"]),
    cell=st.sampled_from(sorted(CELLS)),
)
def test_any_chunk_gives_the_same(length, chunk, batch, masked, dt, cell):
    """Also when the last chunk is shorter, or longer than the sequence."""
    case = Case(cell, length, batch=tuple(batch), masked=masked, dt=dt)
    solution = solve(case.cell, case.inputs, **case.options, solver=Sequential(chunk=chunk))
    assert distance(solution.states, case.states()) < 1e-11
    assert solution.status.shape == tuple(batch)


def test_the_state_may_be_one_for_all_samples():
    case = Case("LRC paper", 5)
    states = solve(case.cell, case.inputs, state=case.state[0]).states
    assert distance(states, solve(case.cell, case.inputs, state=jnp.stack([case.state[0]] * 2)).states) == 0
