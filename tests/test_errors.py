"""Every error states what was given, what was expected and what to do, in one sentence."""

import subprocess
import sys

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from cases import SOLVERS, Case

from lrcssm import (
    DEER,
    ELK,
    Auto,
    Jacobi,
    ModelConfig,
    SequenceModel,
    Sequential,
    Sharded,
    SolveError,
    Status,
    cells,
    solve,
)  # fmt: skip
from lrcssm.data import Cases
from lrcssm.training import TrainingConfig, evaluate, fit, make_mesh, predict


class Own(cells.LRC):
    """A cell with a mistake chosen by the test."""

    mistake: str = eqx.field(static=True, default="")

    def __init__(self, mistake):
        super().__init__(3, 4, key=jax.random.key(0))
        self.mistake = mistake

    def drive(self, inputs):
        drive = super().drive(inputs)
        if self.mistake == "matrix":
            return inputs @ jnp.ones((5, 4))
        return jax.tree.map(lambda d: d.sum(0), drive) if self.mistake == "axis" else drive

    def step(self, state, drive, dt=1.0):
        if self.mistake == "bool":
            return state if state[0] > 0 else -state
        new = super().step(state, drive, 1.0 if self.mistake == "no time" else dt)
        if self.mistake == "shapes":
            return new + jnp.ones(7)
        return (new, new) if self.mistake == "pair" else new


class WithoutTime(Own):
    def step(self, state, drive):
        return state


CELL = cells.LRC(3, 4, key=jax.random.key(0))
INPUTS = jnp.ones((5, 2, 3))


def sentence(error):
    text = str(error.value)
    assert text.endswith(".") and "\n" not in text and len(text) < 400
    return text


@pytest.mark.parametrize(
    ("kind", "words", "call"),
    [
        (ValueError, "no time step", lambda: solve(CELL, jnp.ones((0, 2, 3)))),
        (ValueError, "no sample", lambda: solve(CELL, jnp.ones((5, 0, 3)))),
        (ValueError, "(time, ..., features)", lambda: solve(CELL, jnp.ones(5))),
        (ValueError, "5 features for LRC(input_dim=3)", lambda: solve(CELL, jnp.ones((4, 5)))),
        (TypeError, "dtype int64", lambda: solve(CELL, jnp.ones((5, 3), jnp.int64))),
        (TypeError, "array of real or complex", lambda: solve(CELL, "a file name")),
        (TypeError, "cast the inputs or", lambda: solve(CELL, INPUTS.astype(jnp.float32))),
        (TypeError, "state.astype(jnp.float64)", lambda: solve(CELL, INPUTS, state=jnp.ones((2, 4), jnp.float32))),
        (ValueError, "expected (2, 4)", lambda: solve(CELL, INPUTS, state=jnp.ones((2, 3)))),
        (ValueError, "expected (2, 4)", lambda: solve(CELL, INPUTS, state=jnp.ones((3, 4)))),
        (ValueError, "(time, ...) = (5, 2)", lambda: solve(CELL, INPUTS, mask=jnp.ones((5,), bool))),
        (TypeError, "booleans", lambda: solve(CELL, INPUTS, mask=jnp.ones((5, 2)))),
        (ValueError, "(time,) or (time, ...) = (5, 2)", lambda: solve(CELL, INPUTS, dt=jnp.ones(2))),
        (ValueError, "dt for Own, whose step does not depend", lambda: solve(Own("no time"), INPUTS, dt=0.5)),
        (ValueError, "dt for a function", lambda: solve(lambda x, u, dt: x, INPUTS, state=jnp.ones(3), dt=0.5)),
        (ValueError, "give one of auto, sequential", lambda: solve(CELL, INPUTS, solver="newton")),
        (TypeError, "cast dt to float64", lambda: solve(CELL, INPUTS, dt=jnp.ones((5, 2), jnp.float32))),
        (ValueError, "guess of shape (5, 4)", lambda: solve(CELL, INPUTS, guess=jnp.ones((5, 4)))),
        (TypeError, "a function", lambda: solve(3, INPUTS)),
        (ValueError, "state=", lambda: solve(lambda x, u: x, INPUTS)),
        (ValueError, "(state, input, dt)", lambda: solve(lambda x, u: x, INPUTS, state=jnp.ones(3), dt=0.5)),
        (TypeError, "both must be the same", lambda: solve(lambda x, u: x[:1], INPUTS, state=jnp.ones(3))),
        (TypeError, "(state, input)", lambda: solve(lambda x: x, INPUTS, state=jnp.ones(3))),
        (TypeError, "state of shape (4,), input of shape (3,)", lambda: solve(jnp.add, INPUTS, state=jnp.ones(4))),
        (TypeError, "parameters (state, drive, dt)", lambda: solve(WithoutTime(""), INPUTS)),
        (ValueError, "Own.drive takes inputs of shape (5, 2, 3) to", lambda: solve(Own("axis"), INPUTS)),
        (TypeError, "Own.drive failed on inputs of shape (5, 2, 3)", lambda: solve(Own("matrix"), INPUTS)),
        (TypeError, "Own.step failed on state of shape (4,), drive of", lambda: solve(Own("shapes"), INPUTS)),
        (TypeError, "gives a tuple", lambda: solve(Own("pair"), INPUTS)),
        (ValueError, "a dt of -0.5", lambda: solve(CELL, INPUTS, dt=-0.5)),
        (ValueError, "a dt of -0.5", lambda: jax.jit(lambda u: solve(CELL, u, dt=-0.5).final)(INPUTS)),
        (ValueError, "a dt of inf", lambda: solve(CELL, INPUTS, dt=jnp.asarray(jnp.inf))),
        (ValueError, "a dt of nan", lambda: solve(CELL, INPUTS, dt=jnp.ones((5, 2)).at[3, 1].set(jnp.nan))),
        (ValueError, "rtol=-1", lambda: DEER(rtol=-1.0)),
        (ValueError, "max_steps=0", lambda: Jacobi(max_steps=0)),
        (ValueError, "trust=0", lambda: ELK(trust=0.0)),
        (ValueError, "chunk=0", lambda: Sequential(chunk=0)),
    ],
)
def test_arguments(kind, words, call):
    with pytest.raises(kind) as error:
        call()
    assert words in sentence(error)


def test_a_mistake_that_jax_explains_is_left_to_it():
    with pytest.raises(jax.errors.TracerBoolConversionError):
        solve(Own("bool"), INPUTS)


def test_times_that_are_fine():
    """Zero times, unknown times at masked steps, and traced times, which are checked by the status."""
    still = solve(CELL, INPUTS, state=jnp.ones(4), dt=0)
    assert jnp.all(still.states == 1)
    mask = jnp.ones((5, 2), bool).at[3, 1].set(False)
    assert jnp.all(solve(CELL, INPUTS, dt=jnp.ones((5, 2)).at[3, 1].set(jnp.nan), mask=mask).ok)
    status = jax.jit(lambda dt: solve(CELL, INPUTS, dt=dt, throw=False).status)(jnp.asarray(jnp.nan))
    assert jnp.all(status == Status.NONFINITE_ARGUMENT)


@pytest.mark.parametrize("solver", [DEER(), ELK(), Jacobi()])
def test_nan_in_the_guess(solver):
    guess = jnp.zeros((5, 2, 4)).at[2, 1].set(jnp.nan)
    solution = solve(CELL, INPUTS, guess=guess, solver=solver, throw=False)
    assert solution.status.tolist() == [Status.SUCCESS, Status.NONFINITE_ARGUMENT]
    assert "the guess" in solution.message


@pytest.mark.usefixtures("defaults")
@pytest.mark.parametrize("sequence", [1, 2])
def test_a_failed_solve_in_validation_is_one_sentence(sequence):
    """On one device as on two, where an error of one of them would leave the other waiting."""
    model = SequenceModel(
        ModelConfig(input_dim=1, output_dim=2, hidden_dim=4, state_dim=3, num_blocks=1), jax.random.key(0)
    )
    cases = Cases.of(np.ones((4, 6, 1)), np.array([0, 1, 0, 1]))
    spoilt = Cases((np.full((6, 1), 3.4e38, np.float32), *cases.series[1:]), cases.targets)
    mesh = make_mesh(1, sequence)
    solver = Auto() if sequence == 1 else Sharded(mesh)
    for call in (
        lambda: predict(model, spoilt, solver=solver),
        lambda: evaluate(model, spoilt, solver=solver),
        lambda: fit(model, cases, spoilt, TrainingConfig(steps=2, check_every=1), mesh=mesh),
    ):
        with pytest.raises(SolveError) as error:
            call()
        assert "infinity" in sentence(error)


def test_a_failed_solve_over_devices_ends():
    """Outside of jit with an error, inside with NaN for the sample that failed; neither waits for another device."""
    solver, inputs = Sharded(make_mesh(1, 2), Sequential()), INPUTS.at[4, 1].set(jnp.nan)
    with pytest.raises(SolveError, match=r"\(1 of 2 samples\)"):
        solve(CELL, inputs, solver=solver)
    states = jax.jit(lambda u: solve(CELL, u, solver=solver).states)(inputs)
    assert jnp.all(jnp.isnan(states[:, 1])) and jnp.all(jnp.isfinite(states[:, 0]))


@pytest.mark.usefixtures("defaults")
def test_why_training_failed():
    """Weights that the optimiser made NaN are not the data's fault; data that hold NaN are."""
    model = SequenceModel(
        ModelConfig(input_dim=1, output_dim=2, hidden_dim=4, state_dim=3, num_blocks=1), jax.random.key(0)
    )
    cases = Cases.of(np.ones((4, 6, 1)), np.array([0, 1, 0, 1]))
    with pytest.raises(FloatingPointError) as error:
        fit(model, cases, None, TrainingConfig(steps=4, check_every=4, learning_rate=1e38))
    assert "learning_rate=1e+38 is too large" in sentence(error) and "clean" not in str(error.value)
    spoilt = Cases((np.full((6, 1), np.nan, np.float32), *cases.series[1:]), cases.targets)
    with pytest.raises(FloatingPointError) as error:
        fit(model, spoilt, None, TrainingConfig(steps=1))
    assert "series hold NaN" in sentence(error) and "learning_rate" not in str(error.value)


def test_arguments_of_a_wrong_type():
    """In a separate process without type checks, as users have it."""
    program = """
import jax, jax.numpy as jnp, lrcssm
cell = lrcssm.cells.LRC(3, 4, key=jax.random.key(0))
for call in (
    lambda: lrcssm.solve(cell, jnp.ones((5, 3)), solver=lrcssm.DEER),
    lambda: lrcssm.solve(cell, jnp.ones((5, 3)), solver=3),
    lambda: lrcssm.cells.LRC(3, 4, form="papr", key=jax.random.key(0)),
    lambda: lrcssm.Sharded(None),
    lambda: lrcssm.stability.certify(lambda x, u: x),
):
    try:
        call()
    except (TypeError, ValueError) as error:
        print(error)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    lines = done.stdout.splitlines()
    assert len(lines) == 5
    assert "add the parentheses" in lines[0] and "Auto(), Sequential()" in lines[1] and '"released"' in lines[2]
    assert "jax.sharding.Mesh" in lines[3] and "certify got a function" in lines[4]


@pytest.mark.parametrize("solver", SOLVERS)
def test_nan_in_the_inputs(solver):
    case = Case("LRC paper", 12)
    inputs = case.inputs.at[7, 1, 0].set(jnp.nan)
    with pytest.raises(SolveError) as error:
        solve(case.cell, inputs, solver=SOLVERS[solver])
    assert "(1 of 2 samples)" in sentence(error) and "mask=" in str(error.value)
    solution = solve(case.cell, inputs, solver=SOLVERS[solver], throw=False)
    assert solution.status[1] == Status.NONFINITE_ARGUMENT and solution.status[0].item() in (0, 1)
    assert not solution.ok[1] and solution.ok[0]
    assert jnp.all(jnp.isfinite(solution.states[:, 0]))


@pytest.mark.parametrize("solver", [pytest.param(s, marks=[pytest.mark.slow] * (s == "ELK")) for s in SOLVERS])
def test_a_cell_that_diverges(solver):
    def step(x, u):
        return 3 * x + x**2 + u

    inputs = jnp.ones((40, 2))
    with pytest.raises(SolveError) as error:
        solve(step, inputs, state=jnp.ones(2), solver=SOLVERS[solver])
    sentence(error)
    status = Status(int(solve(step, inputs, state=jnp.ones(2), solver=SOLVERS[solver], throw=False).status))
    assert not status.ok
    if solver in ("Sequential", "Auto"):
        assert status == Status.UNSTABLE


def test_errors_under_jit():
    case = Case("LRC paper", 12)
    inputs = case.inputs.at[7, 1, 0].set(jnp.nan)

    @eqx.filter_jit
    def run(inputs):
        return solve(case.cell, inputs).final

    with pytest.raises(RuntimeError, match="NaN or infinity"):
        jax.block_until_ready(run(inputs))
    with pytest.raises(RuntimeError, match="NaN or infinity"):
        jax.block_until_ready(eqx.filter_grad(lambda u: jnp.sum(run(u)))(inputs))


@pytest.mark.parametrize("solver", ["Sequential", "DEER", "Auto", "Sharded"])
def test_arguments_are_judged_even_if_states_are_finite(solver):
    """An infinite input saturates this cell: its states are finite, and its gradients would be NaN."""
    chosen = Sharded(make_mesh(1, 2), Sequential()) if solver == "Sharded" else SOLVERS[solver]
    run = jax.jit(lambda inputs, dt: solve(CELL, inputs, dt=dt, solver=chosen, throw=False).status)
    for infinite in (jnp.inf, -jnp.inf):
        status = run(INPUTS.at[3, 1, 0].set(infinite), jnp.asarray(1.0))
        assert status.tolist() == [Status.SUCCESS, Status.NONFINITE_ARGUMENT]
    assert run(INPUTS, jnp.asarray(jnp.inf)).tolist() == 2 * [Status.NONFINITE_ARGUMENT]
    assert run(INPUTS, jnp.asarray(-1.0)).tolist() == 2 * [Status.NEGATIVE_DT]
    steps = jnp.ones((5, 2)).at[4, 0].set(-1e-3)
    status = jax.jit(lambda dt: solve(CELL, INPUTS, dt=dt, solver=chosen, throw=False).status)(steps)
    assert status.tolist() == [Status.NEGATIVE_DT, Status.SUCCESS]
    if solver != "Sharded":
        with pytest.raises(RuntimeError, match="negative"):
            jax.block_until_ready(jax.jit(lambda dt: solve(CELL, INPUTS, dt=dt, solver=chosen).final)(steps))


def test_parameters_are_judged_even_if_states_are_finite():
    cell = eqx.tree_at(lambda c: c.a_x, CELL, CELL.a_x.at[0].set(jnp.inf))
    for solver in ("sequential", "deer"):
        assert jnp.all(solve(cell, INPUTS, solver=solver, throw=False).status == Status.NONFINITE_ARGUMENT)


def test_times_for_all_samples_alike():
    times = jnp.asarray([0.5, 1.0, 2.0, 0.1, 0.3])
    alike, each = (solve(CELL, INPUTS, dt=dt).states for dt in (times, jnp.tile(times[:, None], 2)))
    assert jnp.all(alike == each) and not jnp.allclose(alike, solve(CELL, INPUTS).states)


def test_every_cell_depends_on_its_times():
    """Models give dt to any cell, so that each one must take it."""
    for make in cells.ALL.values():
        cell = make(3, 4, key=jax.random.key(0))
        assert jnp.all(solve(cell, INPUTS, dt=jnp.full(5, 0.5)).ok)


def test_a_solver_by_its_name():
    for name, kind in {"auto": "Sequential", "sequential": "Sequential", "deer": "DEER", "elk": "ELK"}.items():
        assert solve(CELL, INPUTS, solver=name).solver.startswith(kind)


def test_elk_stalls_where_every_step_overflows():
    """The sentence of the status describes ELK's rule, which is about growth: here no step is small enough."""
    step = lambda x, u: jnp.where(x == 1, 2 * u, jnp.inf)
    found = solve(step, jnp.ones((5, 1)), state=jnp.ones(1), solver=ELK(), throw=False)
    assert Status(int(found.status)) == Status.STALLED and int(found.iterations) < 30
    assert found.message.startswith("Every damped step makes the states more than ten times as large or not finite")


def test_too_few_steps_are_reported():
    case = Case("LRC paper", 24)
    for solver in (DEER(max_steps=1), Jacobi(max_steps=3)):
        with pytest.raises(SolveError, match="raise max_steps"):
            solve(case.cell, case.inputs, solver=solver)
        solution = solve(case.cell, case.inputs, solver=solver, throw=False)
        assert jnp.all(solution.status == Status.MAX_STEPS) and jnp.all(solution.residual > 1e-12)


def test_auto_falls_back_and_says_so():
    case = Case("LRC paper", 24)
    solution = solve(case.cell, case.inputs, state=case.state, solver=Auto(parallel=True, newton=DEER(max_steps=1)))
    assert jnp.all(solution.status == Status.FELL_BACK)
    assert "step by step" in solution.message and solution.solver.startswith("Auto: DEER")
    want = case.states()
    assert jnp.max(jnp.abs(solution.states - want)) < 1e-12


def test_every_status_has_a_sentence():
    for status in Status:
        assert status.message.endswith(".") and "\n" not in status.message
    assert [s.ok for s in Status] == [True, True] + [False] * 7
