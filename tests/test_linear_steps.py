"""Steps of the linear cells: discretisations by hand, and the growth of states."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from cases import Case, distance, normal

from lrcssm import cells, solve
from lrcssm.stability import certify, diagnose

KEY = jax.random.key(0)


def with_values(cell, **values):
    """The cell with some of its parameters replaced."""
    for name, value in values.items():
        new = jnp.asarray(np.broadcast_to(value, getattr(cell, name).shape), cell.d.dtype)
        cell = eqx.tree_at(lambda c, name=name: getattr(c, name), cell, new)
    return cell


# --- discretisations by hand ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("discretisation", "dt", "velocity", "position"),
    [
        # Δ = σ(0) = 1/2, A = 2, B u = 1; velocity 1 and position 2 before.
        ("im", 1.0, -1 / 3, 11 / 6),  # S = 3/2: z = (1 + (−4 + 1)/2) / S, y = 2 + z/2
        ("im", 2.0, -2 / 3, 4 / 3),  # the step is 1, S = 3
        ("imex", 1.0, -1 / 2, 7 / 4),
        ("imex", 2.0, -2.0, 0.0),
        ("damped", 1.0, -1 / 4, 15 / 8),  # G = 2, S = 2
        ("damped", 2.0, -2 / 3, 4 / 3),  # the step is 1, S = 3
    ],
)
def test_a_step_of_linoss_by_hand(discretisation, dt, velocity, position):
    cell = cells.LinOSS(1, 1, discretisation=discretisation, key=KEY)
    cell = with_values(cell, a=2.0, step_logit=0.0, b=[[1.0, 3.0]])
    cell = with_values(cell, g=2.0) if discretisation == "damped" else cell
    state = jnp.array([1.0, 0.0, 2.0, 0.0])
    new = cell.step(state, cell.drive(jnp.ones(1)), dt)
    np.testing.assert_allclose(new[::2], [velocity, position], rtol=1e-12)
    # The imaginary part starts at rest and is pushed three times as hard: z = 3 Δ / S, y = Δ z.
    step = dt / 2
    s = {"im": 1 + 2 * step**2, "imex": 1.0, "damped": 1 + 2 * step}[discretisation]
    np.testing.assert_allclose(new[1::2], [3 * step / s, 3 * step**2 / s], rtol=1e-12)


def test_a_step_of_s6_by_hand():
    cell = with_values(
        cells.S6(1, 2, key=KEY), w_delta=0.0, b_step=0.0, w_b=[[1.0, 3.0]], w_c=[[0.5, 1.0]], d=0.25,
    )  # fmt: skip
    # Δ = log 2 and A = −1, −2, so that a half and a quarter are kept; u = 2: B = (2, 6), C = (1, 2).
    u = jnp.array([2.0])
    new = cell.step(jnp.array([4.0, 8.0]), cell.drive(u))
    np.testing.assert_allclose(new, [2 + 2.772588722239781, 2 + 8.317766166719343], rtol=1e-12)
    np.testing.assert_allclose(cell.read(new, u), [4.772588722239781 + 2 * 10.317766166719343 + 0.5], rtol=1e-12)
    new = cell.step(jnp.array([4.0, 8.0]), cell.drive(u), 2.0)  # Δ = log 4
    np.testing.assert_allclose(new, [1 + 5.545177444479562, 0.5 + 16.635532333438686], rtol=1e-12)


def test_a_step_of_s5_by_hand():
    values = {"lambda_re": -2.0, "lambda_im": 0.0, "log_step": np.log(0.5), "b": [[1.0, 0.0]]}
    for discretisation, wanted in (
        ("zoh", [2 * 0.36787944117144233 + 3 * 0.31606027941427883]),  # Λ̄ = 1/e, B̄ = (1 − 1/e)/2
        ("bilinear", [2 * (1 / 3) + 3 * (1 / 3)]),  # Λ̄ = (1 − ½)/(1 + ½), B̄ = ½/(1 + ½)
    ):
        cell = with_values(cells.S5(1, 2, discretisation=discretisation, key=KEY), **values)
        np.testing.assert_allclose(cell.step(jnp.array([2.0 + 0j]), cell.drive(jnp.array([3.0]))), wanted, rtol=1e-12)
    unstable = with_values(cell, lambda_re=5.0)  # kept at −10⁻⁴
    assert 0 < 1 - float(jnp.abs(unstable.step(jnp.ones(1, complex), jnp.zeros(1, complex)))[0]) < 1e-4


@pytest.mark.slow
@pytest.mark.parametrize("name", ["LRU", "S5", "S6", "S4D"])
def test_two_half_steps_are_a_whole_one(name):
    """Without input for the LRU and S6; with one that is held for those that hold it."""
    case = Case(name, 1)
    u = case.inputs[0] if name in ("S5", "S4D") else jnp.zeros_like(case.inputs[0])
    drive = case.cell.drive(u)
    if name == "S6":
        assert jnp.all(drive[1] == 0)
    whole = case.cell.step(case.state, drive)
    half = case.cell.step(case.cell.step(case.state, drive, 0.5), drive, 0.5)
    assert distance(half, whole) < 1e-12


# --- stability --------------------------------------------------------------------------------------------------------


@jax.jit
def coefficients(cell, dt):
    """The 2×2 matrices of a step, by columns: the responses to the velocity and to the position."""
    first = jnp.repeat(jnp.array([1.0, 0.0]), 2 * cell.state_dim)
    nothing = jnp.zeros(2 * cell.state_dim)
    return cell.step(first, nothing, dt), cell.step(1 - first, nothing, dt)


def spectral_radii(cell, dt):
    """The larger modulus of the two roots of λ² − trace λ + determinant."""
    (a, c), (b, d) = (np.asarray(column).reshape(2, -1) for column in coefficients(cell, jnp.asarray(dt)))
    root = np.emath.sqrt((a + d) ** 2 / 4 - (a * d - b * c))
    return np.maximum(np.abs((a + d) / 2 + root), np.abs((a + d) / 2 - root))


def test_damped_oscillators_are_stable_whatever_their_parameters():
    rng = np.random.default_rng(0)
    cell = cells.LinOSS(2, 500, discretisation="damped", key=KEY)
    wild = with_values(
        cell, a=rng.normal(size=500) * 100, g=rng.normal(size=500) * 30, step_logit=rng.normal(size=500) * 3
    )
    for dt in (0.01, 1.0, 30.0):
        # Where both eigenvalues meet, rounding moves them by its square root.
        assert np.all(spectral_radii(wild, dt) <= 1 + 1e-6)
    at_start = spectral_radii(cell, 1.0)
    assert np.all((at_start > 0.9 - 1e-9) & (at_start < 1 + 1e-9))
    even = (np.arange(1000) + 0.5) / 1000
    assert np.max(np.abs(np.sort(at_start**2) - (0.81 + even * 0.19))) < 0.02
    narrow = spectral_radii(cells.LinOSS(2, 500, discretisation="damped", r_min=0.5, r_max=0.6, key=KEY), 1.0)
    assert np.all((narrow > 0.5 - 1e-9) & (narrow < 0.6 + 1e-9))


def test_which_oscillators_keep_their_energy():
    values = {"a": np.random.default_rng(0).uniform(0.01, 3, 50), "step_logit": 0.5}
    radii = [spectral_radii(with_values(cells.LinOSS(2, 50, discretisation=d, key=KEY), **values), 1.0)
             for d in ("im", "imex")]  # fmt: skip
    np.testing.assert_allclose(radii[1], 1, atol=1e-10)
    s = 1 + values["a"] / (1 + np.exp(-0.5)) ** 2
    np.testing.assert_allclose(radii[0], np.tile(s**-0.5, 2), rtol=1e-10)


@pytest.mark.parametrize("discretisation", ["im", "imex", "damped"])
def test_steps_of_oscillators_are_trained(discretisation):
    cell = cells.LinOSS(1, 1, discretisation=discretisation, key=KEY)
    state, u = jnp.ones(4), jnp.ones(1)
    found = jax.jit(jax.grad(lambda c: jnp.sum(c.step(state, c.drive(u), 0.5) ** 2)))(cell)
    assert found.step_logit != 0 and found.a != 0


@pytest.mark.slow
def test_certificate_of_s6():
    cell = cells.S6(3, 4, key=KEY)
    cell = with_values(cell, w_delta=10 * np.asarray(cell.w_delta), w_b=3 * np.asarray(cell.w_b))
    assert "No certificate" in str(certify(cell))
    found = certify(cell, 2.0, dt=(0.5, 2.0))
    assert jnp.all(found.contractive)
    rng = np.random.default_rng(0)
    direction = rng.normal(size=(300, 20, 3))
    inputs = jnp.asarray(2 * direction / np.linalg.norm(direction, axis=-1, keepdims=True))
    dt = jnp.asarray(rng.choice([0.5, 2.0], (300, 20)))

    @jax.jit
    def run(cell):
        states = solve(cell, inputs, dt=dt, throw=False).states
        step = lambda x: cell.step(x, cell.drive(inputs), dt[..., None])
        return states, jax.jvp(step, (states,), (jnp.ones_like(states),))[1]

    states, keep = run(cell)
    assert jnp.all(jnp.abs(states) <= found.state_bound)
    assert jnp.all((keep >= found.jacobian_low) & (keep <= found.jacobian_high))
    # The bounds are not idle: these inputs come near to them.
    assert jnp.max(jnp.abs(states) / found.state_bound) > 0.2


@pytest.mark.parametrize("name", ["LRU", "S5", "LinOSS", "S4D"])
def test_no_certificate_where_units_turn(name):
    assert not jnp.any(certify(cells.ALL[name](3, 4, key=KEY), 1.0).exists)


@pytest.mark.slow
def test_diagnosis_of_a_complex_cell():
    cell = cells.LRU(2, 5, key=KEY)
    inputs = normal(np.random.default_rng(0), (20, 2), jnp.float64)
    found = diagnose(cell, inputs, solve(cell, inputs))
    np.testing.assert_allclose(found.lyapunov, -np.exp(np.asarray(cell.nu)), rtol=1e-10)
