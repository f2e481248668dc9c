"""A solve succeeds only if each unit is right at each step, for any scale of other units and steps."""

import types

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import reference
from cases import SOLVERS, normal
from truth import truth_and_reach, wrong

from lrcssm import DEER, ELK, Auto, Jacobi, Sequential, Sharded, Status, cells, solve
from lrcssm.engine import sharded
from lrcssm.engine.tolerance import scale, within
from lrcssm.training import make_mesh

EPS = float(np.finfo(np.float32).eps)


class CoRNN(cells.Cell):
    """Coupled oscillators: 2×2 blocks, declared as something else."""

    structure = "diagonal"
    w: jax.Array
    v: jax.Array
    input_dim: int = eqx.field(static=True)
    state_dim: int = eqx.field(static=True)

    def __init__(self):
        self.input_dim, self.state_dim = 3, 8
        rng = np.random.default_rng(0)
        self.w, self.v = normal(rng, (2, 4), jnp.float32), normal(rng, (3, 4), jnp.float32)

    def drive(self, inputs):
        return inputs @ self.v

    def step(self, state, drive, dt=1.0):
        y, z = jnp.split(state, 2, -1)
        z = z + 0.1 * dt * (jnp.tanh(self.w[0] * y + self.w[1] * z + drive) - 2.0 * y - z)
        return jnp.concatenate([y + 0.1 * dt * z, z], -1)


def cornn(p, x, u, dt):
    y, z = x[..., :4], x[..., 4:]
    z = z + 0.1 * dt * (np.tanh(p.w[0] * y + p.w[1] * z + u @ p.v) - 2.0 * y - z)
    return np.concatenate([y + 0.1 * dt * z, z], -1)


def check(cell, step, inputs, state, solver, guess=None):
    """Assert that there is no wrong success; returns the status."""
    found = solve(cell, inputs, state=state, solver=solver, guess=guess, throw=False)
    run = lambda t, x: reference.loop(step, cell, np.asarray(inputs[t : t + 1]), x)[0]
    truth, reach = truth_and_reach(run, np.asarray(state), len(inputs), EPS)
    status = Status(int(jnp.max(found.status)))
    assert not status.ok or not np.any(wrong(np.asarray(found.states), truth, reach, EPS)), status
    return status


@pytest.mark.parametrize("solver", ["ELK", *(pytest.param(s, marks=pytest.mark.slow) for s in SOLVERS if s != "ELK")])
def test_a_wrong_declaration(solver):
    inputs = normal(np.random.default_rng(1), (100, 3), jnp.float32)
    status = check(CoRNN(), cornn, inputs, jnp.zeros(8, jnp.float32), SOLVERS[solver])
    assert status.ok == (solver not in ("ELK", "quasi-ELK"))


@pytest.mark.parametrize(
    "solver", [DEER(quasi=True), ELK(quasi=True, max_steps=120), Auto(parallel=True, newton=DEER(quasi=True))], ids=str
)
def test_the_diagonal_of_an_oscillator_is_not_enough(solver):
    cell = cells.LinOSS(3, 6, dtype=jnp.float32, key=jax.random.key(0))
    inputs = normal(np.random.default_rng(1), (1000, 3), jnp.float32)
    found = solve(cell, inputs, solver=solver, throw=False)
    assert Status(int(found.status)) in (Status.DIVERGED, Status.MAX_STEPS, Status.FELL_BACK)
    assert bool(found.ok) == isinstance(solver, Auto)


@pytest.mark.parametrize("solver", [DEER(), ELK(), Jacobi()], ids=["DEER", "ELK", "Jacobi"])
def test_a_guess_near_overflow(solver):
    cell = cells.LRC(3, 4, dtype=jnp.float32, key=jax.random.key(0))
    inputs = normal(np.random.default_rng(1), (40, 3), jnp.float32)
    for guess in (1e38, -3e38, 1e20):
        state = jnp.zeros(4, jnp.float32)
        status = check(cell, reference.lrc, inputs, state, solver, jnp.full((40, 4), guess, jnp.float32))
        assert status == Status.SUCCESS


@pytest.mark.parametrize("name", ["DEER", "ELK", "Jacobi", "Sharded"])
def test_a_large_unit_excuses_no_other(name):
    """Some units of this GRU forget a state of 1e6 at once, others keep it."""
    solver = Sharded(make_mesh(1, 2), Sequential()) if name == "Sharded" else SOLVERS[name]
    cell = cells.GRU(3, 8, dtype=jnp.float32, key=jax.random.key(0))
    inputs = normal(np.random.default_rng(1), (60, 2, 3), jnp.float32)
    state = jnp.full((2, 8), 1e6, jnp.float32)
    sizes = np.max(np.abs(reference.loop(reference.gru, cell, inputs, state)[1:]), (0, 1))
    assert np.sum(sizes > 1e5) and np.sum(sizes < 2)
    assert check(cell, reference.gru, inputs, state, solver) == Status.SUCCESS


def test_a_large_unit_excuses_no_other_over_eight_devices():
    """Two devices are exact after one iteration, whatever the tolerance; these are eight, which one device plays."""
    cell = cells.GRU(3, 8, dtype=jnp.float32, key=jax.random.key(5))
    inputs, state = normal(np.random.default_rng(5), (16, 2, 3), jnp.float32), jnp.full((2, 8), 1e6, jnp.float32)

    def solved(cell, inputs, state, dt, mask):
        found = solve(cell, inputs, state=state, dt=dt, mask=mask, solver=Sequential(), throw=False)
        return found.states, found.final, found.status

    how = types.SimpleNamespace(sequence="sequence")
    part = lambda inputs: sharded._shoot(solved, (cell, inputs, None, None), state, cell.structure, how, 8)
    states, _, status, _, _ = jax.jit(jax.vmap(part, axis_name="sequence"))(inputs.reshape(8, 2, 2, 3))
    step = lambda t, x: reference.loop(reference.gru, cell, np.asarray(inputs[t : t + 1]), x)[0]
    truth, reach = truth_and_reach(step, np.asarray(state), 16, EPS)
    assert np.all(status == Status.SUCCESS)
    assert not np.any(wrong(np.asarray(states).reshape(truth.shape), truth, reach, EPS))


def test_parts_that_do_not_meet_are_no_success(monkeypatch):
    """The last look at the shard boundaries: a unit that is off there fails, however large another one is."""
    begin = jnp.asarray([[[1e6, 1.0]], [[1e6, 1.0]]], jnp.float32)
    for off, met in ((1e-7, True), (1e-3, False)):
        ends = begin.at[0, 0, 1].add(off)
        found = sharded._mismatch((begin, ends), (begin, ends), jnp.zeros((2, 1, 2), jnp.float32), 1e-6, 1e-5)
        assert bool(found[1][0]) == met
        np.testing.assert_allclose(found[0], off, rtol=0.3)
    monkeypatch.setattr(sharded, "_mismatch", lambda *given: (jnp.ones(2, jnp.float32), jnp.asarray([True, False])))
    cell = cells.GRU(3, 5, dtype=jnp.float32, key=jax.random.key(0))
    solver = Sharded(make_mesh(1, 2), Sequential())
    found = solve(cell, jnp.ones((7, 2, 3), jnp.float32), solver=solver, throw=False)
    assert found.status.tolist() == [Status.SUCCESS, Status.APART]


@pytest.mark.parametrize("name", ["DEER", "ELK", "Jacobi"])
def test_a_spike_excuses_nothing_before_it(name):
    cell = cells.S5(3, 8, dtype=jnp.float32, key=jax.random.key(0))
    inputs = normal(np.random.default_rng(1), (60, 3), jnp.float32).at[40].set(1e8)
    assert check(cell, reference.s5, inputs, cell.initial_state(), SOLVERS[name]) == Status.SUCCESS


def test_states_that_pass_through_zero_converge():
    """The intermediate results of this step are much larger than its state, which no tolerance of the state alone allows."""
    step = lambda x, u: x + (jnp.tanh(u + 0.1 * x) - x)
    inputs = jnp.asarray(1e-4 * np.sin(np.arange(200))[:, None], jnp.float32).at[::20].set(3.0)
    x, want = 5.0, []
    for u in np.asarray(inputs, float)[:, 0]:
        x = np.tanh(u + 0.1 * x)
        want.append(x)
    for solver in (DEER(), ELK(), Jacobi()):
        found = solve(step, inputs, state=jnp.full(1, 5, jnp.float32), solver=solver)
        assert found.ok
        np.testing.assert_allclose(found.states[:, 0], want, atol=2e-6)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("structure", ["diagonal", "block2", "dense"])
def test_no_scale_is_vacuous(structure, dtype):
    """For all sizes of states and matrices, a success allows at most a residual of √rtol of the group's largest state."""
    rng = np.random.default_rng(0)
    rtol, units = 8 * float(np.finfo(dtype).eps), 4
    top = np.log10(np.finfo(dtype).max)
    shape = {"diagonal": (units,), "block2": (units // 2, 2, 2), "dense": (units, units)}[structure]

    def draw(*shape):
        values = rng.choice([-1, 1], shape) * 10 ** rng.uniform(-top, top, shape)
        return jnp.asarray(rng.choice([values, values, 0 * values, values * np.inf, values * np.nan]), dtype)

    for _ in range(300):
        states, before = (np.nan_to_num(draw(5, units)) for _ in range(2))
        size = scale(jnp.asarray(states), jnp.asarray(before), draw(5, *shape), rtol)
        largest = np.maximum(np.max(np.abs(states), -1), np.max(np.abs(before), -1))
        bad = jnp.asarray(np.maximum(largest, 4 * np.finfo(dtype).tiny)[:, None] * np.ones(size.shape[-1]) * 0.5, dtype)
        assert not jnp.any(within(bad, size, rtol, 0.0))
    for distance, size in ((np.inf, 1.0), (np.nan, 1.0), (1.0, np.inf), (0.0, np.inf), (0.0, np.nan), (np.inf, np.inf)):
        assert not within(jnp.full(1, distance, dtype), jnp.full(1, size, dtype), rtol, 0.0)[0]
