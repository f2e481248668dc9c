"""The linear cells: evaluation, outputs, initial eigenvalues, the kernel of S4D, and errors."""

import math

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from cases import LINEAR, Case, distance, normal
from jax import lax

from lrcssm import DEER, Sequential, cells, check_structure, solve
from lrcssm.cells.s5 import hippo
from lrcssm.models import Context
from lrcssm.models.time import Recurrent

KEY = jax.random.key(0)


def complex_rows(c):
    """C from [Re C; −Im C]."""
    c = np.asarray(c)
    return c[: len(c) // 2] - 1j * c[len(c) // 2 :]


# --- every way of evaluating ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[] if name == "LinOSS" else pytest.mark.slow) for name in LINEAR]
)
def test_parallel_is_sequential_is_step_by_step(name):
    """Outputs of a layer and the gradient of all parameters, inputs and the first state, with irregular steps."""
    case = Case(name, 11, dt="steps", masked=True)
    cotangent = normal(np.random.default_rng(1), case.inputs.shape, jnp.float64)

    def by_step(cell, inputs, state):
        def step(x, now):
            drive, h, valid = now
            x = jnp.where(valid[:, None], cell.step(x, drive, h[:, None]), x)
            return x, x

        return lax.scan(step, state, (cell.drive(inputs), case.dt, case.mask))[1]

    def by(solver):
        return lambda cell, inputs, state: (
            solve(cell, inputs, state=state, dt=case.dt, mask=case.mask, solver=solver, throw=False).states
        )

    @jax.jit
    def all_ways(*given):
        def evaluate(states_of):
            def total(cell, inputs, state):
                return jnp.sum(cotangent * cell.read(states_of(cell, inputs, state), inputs))

            return jax.value_and_grad(total, (0, 1, 2))(*given)

        return [evaluate(states_of) for states_of in (by_step, by(Sequential(chunk=4)), by(DEER()))]

    flat = lambda tree: np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(tree)])
    want, *others = map(flat, all_ways(case.cell, case.inputs, case.state))
    assert all(distance(got, want) < 1e-10 for got in others)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["S6", "S4D"])
def test_a_layer_that_keeps_no_states_gives_the_same(name):
    """`expands`: outputs, the last state and gradients, over several pieces of time with a shorter one at the end."""
    layer = Recurrent(cells.ALL[name](64, 64, dtype=jnp.float64, key=KEY))
    length = 2 * (2**17 // layer.cell.initial_state().size) + 5
    assert layer.cell.expands and layer.size == 64
    inputs = normal(np.random.default_rng(0), (length, 64), jnp.float64)

    def in_pieces(cell):
        return Recurrent(cell)(inputs, None, Context(throw=False))[:2]

    def at_once(cell):
        found = solve(cell, inputs, throw=False)
        return cell.read(found.states, inputs), found.final

    @jax.jit
    def both(cell):
        total = lambda way: lambda cell: (lambda y, x: (jnp.sum(y**2), (y, x)))(*way(cell))
        return [jax.grad(total(way), has_aux=True)(cell) for way in (in_pieces, at_once)]

    for got, want in zip(*map(jax.tree.leaves, both(layer.cell)), strict=True):
        assert distance(got, want) < 1e-10


@pytest.mark.slow
def test_affine_cells_take_one_newton_iteration():
    case = Case("LinOSS damped", 40)
    assert check_structure(case.cell).found_affine
    assert jnp.all(solve(case.cell, case.inputs, solver=DEER(rtol=1e-12)).iterations == 1)


# --- what is read -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["LRU", "S5", "LinOSS", "S6", "S4D"])
def test_what_is_read(name):
    case = Case(name, 3)
    cell, inputs = case.cell, np.asarray(case.inputs)
    states = case.states()
    if name == "S6":
        b = states.reshape(3, 2, 3, 4)
        want = np.stack([np.sum(b[..., h, :] * (inputs @ np.asarray(cell.w_c)), -1) for h in range(3)], -1)
    elif name == "S4D":
        c = np.asarray(cell.c[0]) + 1j * np.asarray(cell.c[1])
        want = np.stack([2 * np.real(states[..., 2 * h : 2 * h + 2] @ c[h]) for h in range(3)], -1)
    elif name == "LinOSS":
        y = states[..., 8:12] + 1j * states[..., 12:]
        want = np.real(y @ complex_rows(cell.c))
    else:
        want = (2 if name == "S5" else 1) * np.real(states @ complex_rows(cell.c))
    got = cell.read(jnp.asarray(states), case.inputs)
    assert got.dtype == jnp.float64 and distance(got, want + np.asarray(cell.d) * inputs) < 1e-12


def test_numbers_of_parameters():
    """Of 5 features and 8 states, as published; a complex parameter counts as two."""
    h, n, half = 5, 8, 4
    wanted = {
        "LRU": 3 * n + 4 * n * h + h,
        "S5": 3 * half + 4 * half * h + h,
        "LinOSS": 2 * n + 4 * n * h + h,
        "S6": n * h + h * (1 + 2 * n) + h + 2 * h,
        "S4D": h + 4 * half * h + h,
        "LiquidS4": h + 6 * half * h + h,
    }
    size = lambda *given, **options: sum(
        math.prod(leaf.shape) for leaf in jax.tree.leaves(eqx.filter_eval_shape(*given, key=KEY, **options))
    )
    for name, count in wanted.items():
        assert size(cells.ALL[name], h, n) == count, name
    assert size(cells.LinOSS, h, n, discretisation="damped") == wanted["LinOSS"] + n
    assert size(cells.S6, 32, 4) == 32 * 4 + 32 * (2 + 8) + 2 * 32 + 2 * 32


# --- at the start -----------------------------------------------------------------------------------------------------


def test_eigenvalues_of_lru():
    cell = cells.LRU(2, 4000, r_min=0.4, r_max=0.9, max_phase=1.5, key=KEY)
    modulus, angle = np.exp(-np.exp(np.asarray(cell.nu))), np.exp(np.asarray(cell.theta))
    assert np.all((modulus >= 0.4) & (modulus <= 0.9) & (angle > 0) & (angle <= 1.5))
    even = (np.arange(4000) + 0.5) / 4000
    # Uniform over the area: the square of the modulus and the angle are uniform.
    assert np.max(np.abs(np.sort(modulus**2) - (0.16 + even * (0.81 - 0.16)))) < 0.02
    assert np.max(np.abs(np.sort(angle) - 1.5 * even)) < 0.04
    np.testing.assert_allclose(np.exp(np.asarray(cell.gamma)) ** 2, 1 - modulus**2, rtol=1e-10)
    step = np.asarray(cell.step(jnp.ones(4000, complex), jnp.zeros(4000, complex)))
    np.testing.assert_allclose(step, modulus * np.exp(1j * angle), rtol=1e-10)
    extreme = cells.LRU(2, 4000, key=KEY)  # radii from 0 to 1
    assert all(np.all(np.isfinite(getattr(extreme, name))) for name in ("nu", "theta", "gamma"))


@pytest.mark.slow
def test_scale_of_the_matrices():
    """The published variances, each within some percent."""
    spread = lambda a: float(np.std(np.asarray(a)))
    lru = cells.LRU(50, 80, key=KEY)
    assert spread(lru.b) == pytest.approx(1 / 10, rel=0.05) and spread(lru.c) == pytest.approx(80**-0.5, rel=0.05)
    s5 = cells.S5(50, 80, key=KEY)
    # A unitary basis keeps the size of a matrix: half of the columns have half of the sum of squares.
    assert spread(s5.b) == pytest.approx((2 * 80) ** -0.5, rel=0.05)
    assert spread(s5.c) == pytest.approx((50 * 80) ** -0.5, rel=0.05)
    linoss = cells.LinOSS(50, 80, key=KEY)
    assert float(jnp.max(jnp.abs(linoss.b))) == pytest.approx(50**-0.5, rel=0.01)
    assert float(jnp.max(jnp.abs(linoss.c))) == pytest.approx(80**-0.5, rel=0.01)
    s6 = cells.S6(64, 16, key=KEY)
    steps = np.log1p(np.exp(np.asarray(s6.b_step)))
    assert np.all((steps > 0.000999) & (steps < 0.1001)) and np.std(np.log(steps)) > 1
    assert float(jnp.max(jnp.abs(s6.w_c))) == pytest.approx(1 / 8, rel=0.01)
    assert float(jnp.max(jnp.abs(s6.w_step))) == pytest.approx(1 / 2, rel=0.01)
    np.testing.assert_allclose(np.exp(np.asarray(s6.a)), np.tile(np.arange(1, 17), (64, 1)))


def legs(size):
    """HiPPO-LegS, entry by entry, and its normal part."""
    a = np.zeros((size, size))
    for n in range(size):
        for k in range(n):
            a[n, k] = -np.sqrt(2 * n + 1) * np.sqrt(2 * k + 1)
        a[n, n] = -(n + 1)
    p = np.sqrt(np.arange(size) + 0.5)
    return a + np.outer(p, p)


def test_s5_starts_from_the_eigenvalues_of_hippo():
    found = np.linalg.eigvals(legs(8))  # of a general matrix: no symmetry is used
    negative = found[found.imag < 0]
    wanted = negative[np.argsort(negative.imag)]
    assert len(wanted) == 4 and distance(hippo(8)[0], wanted) < 1e-10
    cell = cells.S5(2, 24, blocks=3, key=KEY)
    assert distance(np.asarray(cell.lambda_re) + 1j * np.asarray(cell.lambda_im), np.tile(wanted, 3)) < 1e-10


def test_s5_is_the_full_real_system():
    """Half of the complex states are those of the real, dense system, and with their conjugates they give its outputs."""
    cell = cells.S5(2, 8, blocks=2, dt_min=0.05, dt_max=0.05, key=KEY)
    inputs = normal(np.random.default_rng(0), (30, 2), jnp.float64)
    states = solve(cell, inputs).states
    b, own, basis = np.asarray(cell.b), np.asarray(states), hippo(4)[1]
    b = b[:, :4] + 1j * b[:, 4:]
    # exp(Δ S) and its mean over the step by their series.
    keep, gain, term = np.eye(4), np.zeros((4, 4)), np.eye(4)
    for k in range(1, 30):
        gain = gain + term * 0.05 / k
        term = term @ legs(4) * 0.05 / k
        keep = keep + term
    np.testing.assert_allclose(basis.conj().T @ basis, np.eye(2), atol=1e-12)
    for block in (slice(0, 2), slice(2, 4)):
        push = gain @ (2 * np.real(basis @ b[:, block].T))  # B in the time domain is real: a half and its conjugate
        x = np.zeros(4)
        for t in range(30):
            x = keep @ x + push @ np.asarray(inputs[t])
            np.testing.assert_allclose(basis.conj().T @ x, own[t, block], atol=1e-12)
    c = complex_rows(cell.c)
    full = np.concatenate([own, own.conj()], -1) @ np.concatenate([c, c.conj()])
    assert np.max(np.abs(full.imag)) < 1e-12
    want = full.real + np.asarray(cell.d) * np.asarray(inputs)
    assert distance(cell.read(states, inputs), want) < 1e-12


def test_eigenvalues_of_s4d():
    lin, inv = (cells.S4D(3, 4, init=init, key=KEY) for init in ("lin", "inv"))
    np.testing.assert_allclose(np.exp(np.asarray(lin.nu)), 0.5)
    np.testing.assert_allclose(lin.omega, np.tile([0, 3.141592653589793], (3, 1)))
    np.testing.assert_allclose(inv.omega, np.tile([3.819718634205488, 0.42441318157838753], (3, 1)))


# --- S4D by its kernel ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("init", ["lin", pytest.param("inv", marks=pytest.mark.slow)])
def test_the_kernel_of_s4d_is_its_recurrence(init):
    cell = cells.S4D(3, 6, init=init, key=KEY)
    inputs = np.asarray(normal(np.random.default_rng(0), (40, 3), jnp.float64))
    kernel = np.asarray(cell.kernel(40))
    want = np.stack([np.convolve(inputs[:, h], kernel[:, h])[:40] for h in range(3)], -1) + np.asarray(cell.d) * inputs
    assert distance(cell.read(solve(cell, inputs).states, jnp.asarray(inputs)), want) < 1e-10


@pytest.mark.slow
def test_the_kernel_in_single_precision():
    cell = cells.S4D(8, 64, dtype=jnp.float32, key=KEY)
    wide = jax.tree.map(lambda a: a.astype(jnp.float64), cell)
    assert cell.kernel(20000).dtype == jnp.float32
    assert distance(cell.kernel(20000), wide.kernel(20000)) < 2e-5


# --- mistakes ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: cells.LRU(2, 3, r_min=0.9, r_max=0.5, key=KEY), "LRU got r_min=0.9 and r_max=0.5; give 0 <= r_min"),
        (lambda: cells.LRU(2, 3, max_phase=0, key=KEY), "LRU got max_phase=0; give a positive angle"),
        (lambda: cells.LRU(2, 3, dtype=jnp.complex64, key=KEY), "LRU got dtype=complex64; give that of its real"),
        (lambda: cells.S5(2, 5, key=KEY), "S5 got state_dim=5; give an even number"),
        (lambda: cells.S5(2, 6, blocks=2, key=KEY), "S5 got blocks=2 for state_dim=6; each block has"),
        (
            lambda: cells.S5(2, 6, dt_min=0.1, dt_max=0.01, key=KEY),
            "S5 got dt_min=0.1 and dt_max=0.01; give 0 < dt_min",
        ),
        (lambda: cells.S4D(2, 0, key=KEY), "S4D got state_dim=0; give an even number"),
        (lambda: cells.LiquidS4(2, 3, key=KEY), "LiquidS4 got state_dim=3; give an even number"),
        (lambda: cells.S6(2, 3, rank=0, key=KEY), "S6 got rank=0; give a whole number of at least 1, or None"),
        (lambda: cells.LinOSS(2, 3, r_min=0, key=KEY), "LinOSS got r_min=0 and r_max=1.0; give 0 < r_min"),
    ],
)
def test_mistakes_are_explained(make, words):
    with pytest.raises(ValueError, match=words):
        make()
