"""Every solver on every cell gives the states of a float64 numpy loop."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from cases import CELLS, CORE, EACH, FAMILY, KINDS, REAL_ONLY, SOLVERS, Case, distance, every, normal, tolerance

from lrcssm import DEER, ELK, Auto, Jacobi, Sequential, Status, solve

DTYPES = {"f32": jnp.float32, "f64": jnp.float64}
LENGTHS = [(dtype, length) for dtype in DTYPES for length in (1, 2, 3, 17, 1000, 20000)]
QUICK = {("f64", 17), ("f32", 1000)}
FAMILY_LENGTHS = [("f64", 1), ("f64", 17), ("f64", 1000), ("f32", 1000)]


@pytest.mark.parametrize(
    ("dtype", "length"), [pytest.param(*pair, marks=[] if pair in QUICK else pytest.mark.slow) for pair in LENGTHS]
)
@every(
    quick=[
        *((solver, "dense toy") for solver in ("Sequential", "quasi-ELK", "Auto")),
        ("Sequential", "block toy"),
        ("Jacobi", "LRC paper"),
    ],
    leave_out=FAMILY,
)
def test_states(solver, cell, length, dtype):
    check_states(solver, cell, length, dtype)


@pytest.mark.parametrize(
    ("dtype", "length"),
    [pytest.param(*pair, marks=[] if pair == ("f64", 17) else pytest.mark.slow) for pair in FAMILY_LENGTHS],
)
# Those of `EACH` are tested by the gradients too, which compare states on the way.
@every(
    quick=[*(("Sequential", cell) for cell in FAMILY if cell not in EACH), *(("DEER", cell) for cell in KINDS)],
    leave_out=CORE,
)
def test_states_of_the_family(solver, cell, length, dtype):
    if cell == "LTC Euler" and length > 17:
        pytest.skip("Euler's step of an LTC is not bounded: over a long sequence it overflows, as its page says")
    check_states(solver, cell, length, dtype)


def check_states(solver, cell, length, dtype):
    case = Case(cell, length, DTYPES[dtype])
    solution = solve(case.cell, case.inputs, **case.options, solver=SOLVERS[solver])
    assert distance(solution.states, case.states()) < tolerance(DTYPES[dtype])
    assert solution.states.dtype == case.state.dtype
    assert solution.status.shape == solution.iterations.shape == solution.residual.shape == (2,)
    assert jnp.all(solution.status == Status.SUCCESS)


@pytest.mark.parametrize(
    "dtype", [jnp.complex64, pytest.param(jnp.complex128, marks=pytest.mark.slow)], ids=["c64", "c128"]
)
@every(leave_out=REAL_ONLY)
def test_complex(solver, cell, dtype):
    case = Case(cell, 60, dtype)
    solution = solve(case.cell, 0.3 * case.inputs, **case.options, solver=SOLVERS[solver])
    assert distance(solution.states, case.states(0.3 * case.inputs)) < tolerance(dtype)


@every()
def test_jit_vmap_and_batch_axes(solver, cell):
    solver = SOLVERS[solver]
    case = Case(cell, 6, batch=(2, 3))
    want = case.states()

    @jax.jit
    def one(inputs, state):
        return solve(case.cell, inputs, state=state, solver=solver, throw=False).states

    assert distance(one(case.inputs, case.state), want) < 1e-10
    mapped = jax.vmap(jax.vmap(one, (1, 0), 1), (1, 0), 1)(case.inputs, case.state)
    assert distance(mapped, want) < 1e-10


@pytest.mark.parametrize(("dt", "masked"), [pytest.param("scalar", False, marks=pytest.mark.slow), ("steps", True)])
@every()
def test_dt_and_mask(solver, cell, dt, masked):
    case = Case(cell, 8, dt=dt, masked=masked)
    solution = solve(case.cell, case.inputs, **case.options, solver=SOLVERS[solver])
    assert distance(solution.states, case.states()) < 1e-10


@pytest.mark.slow
@pytest.mark.parametrize("solver", SOLVERS)
def test_many_cells_under_vmap(solver, getkey):
    make, _ = CELLS["LRC paper"]
    keys = jax.random.split(getkey(), 3)
    stack = eqx.filter_vmap(lambda key: make(3, 4, key=key))(keys)
    inputs = normal(np.random.default_rng(0), (12, 2, 3), jnp.float64)
    states = eqx.filter_vmap(lambda cell: solve(cell, inputs, solver=SOLVERS[solver], throw=False).states)(stack)
    for i, key in enumerate(keys):
        assert distance(states[i], solve(make(3, 4, key=key), inputs, solver=Sequential()).states) < 1e-10


@pytest.mark.slow
@pytest.mark.parametrize("solver", [DEER(), ELK(), Jacobi(), Auto(parallel=True)], ids=str)
def test_a_slow_sample_does_not_change_the_others(solver):
    case = Case("LRC paper", 64, jnp.float32, batch=(3,))
    truth = solve(case.cell, case.inputs, state=case.state, solver=Sequential()).states
    guess = (truth + 1e-4).at[:, 1].set(5.0)  # one sample starts far away
    together = solve(case.cell, case.inputs, state=case.state, guess=guess, solver=solver)
    alone = solve(case.cell, case.inputs[:, :1], state=case.state[:1], guess=guess[:, :1], solver=solver)
    assert together.iterations[1] > together.iterations[0] == alone.iterations[0]
    assert distance(together.states[:, :1], alone.states) < 1e-6


@pytest.mark.slow
def test_newton_at_the_initial_scale_takes_at_most_four_iterations(getkey):
    make, _ = CELLS["LRC paper"]
    for dtype in (jnp.float32, jnp.float64):
        cell = make(64, 64, dtype=dtype, key=getkey())
        inputs = normal(np.random.default_rng(0), (20000, 1, 64), dtype)
        assert jnp.max(solve(cell, inputs, solver=DEER()).iterations) <= 4


@pytest.mark.slow
@pytest.mark.parametrize("solver", [DEER(), ELK(), Jacobi()], ids=str)
def test_warm_start(solver):
    case = Case("LRC paper", 64, jnp.float32)
    cold = solve(case.cell, case.inputs, state=case.state, solver=solver)
    warm = solve(case.cell, case.inputs, state=case.state, solver=solver, guess=cold.states)
    assert jnp.all(warm.iterations == 0)
    near = solve(case.cell, case.inputs, state=case.state, solver=solver, guess=cold.states + 1e-4)
    assert jnp.all(near.iterations < cold.iterations)
    assert distance(near.states, case.states()) < 1e-5


def test_a_plain_function_is_a_cell():
    case = Case("dense toy", 8)
    want = case.states()
    for solver in (Sequential(), DEER(), DEER(quasi=True), Jacobi(), Auto()):
        solution = solve(
            lambda x, u: jnp.tanh(x @ case.cell.w + u @ case.cell.v), case.inputs, state=case.state, solver=solver
        )
        assert distance(solution.states, want) < 1e-10
    with_dt = Case("dense toy", 30, dt="steps")
    solution = solve(lambda x, u, dt: with_dt.cell.step(x, u @ with_dt.cell.v, dt), with_dt.inputs, **with_dt.options)
    assert distance(solution.states, with_dt.states()) < 1e-10


def test_an_affine_cell_needs_one_newton_iteration(getkey):
    """A second one only where a unit is so near to zero that the rounding of the scan counts there."""
    a = jax.random.uniform(getkey(), (4,), minval=0.1, maxval=0.9)
    inputs, x, want = jax.random.normal(getkey(), (500, 4)), np.ones(4), []
    for u in np.asarray(inputs):
        x = np.asarray(a) * x + u
        want.append(x)
    once = solve(lambda x, u: a * x + u, inputs, state=jnp.ones(4), solver=DEER(max_steps=1), throw=False)
    assert distance(once.states, np.array(want)) < 1e-14
    for name in ("S5", "LinOSS"):
        case = Case(name, 300)
        solution = solve(case.cell, case.inputs, state=case.state, solver=DEER(), throw=False)
        assert jnp.all(solution.iterations <= 2) and distance(solution.states, case.states()) < 1e-13
