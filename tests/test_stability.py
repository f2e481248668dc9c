"""Certificates hold, contraction survives training, and the diagnosis of a trajectory is right."""

import equinox as eqx
import hypothesis
import hypothesis.strategies as st
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from cases import CELLS, Case, normal
from sklearn.datasets import load_digits

from lrcssm import DEER, Sequential, cells, solve
from lrcssm.stability import certify, diagnose, time_constants

CERTIFIED = {
    "LRC": {},
    "LRC released": {"form": "released"},
    "LRC symmetric": {"elastance": "symmetric"},
    "LRC A(u) b(x,u), implicit": {"state_dependence": "b", "integrator": "implicit"},
    "LRC A(u) b(u), exponential": {"state_dependence": "none", "integrator": "exponential"},
    "LRC spread": {"init": "spread", "elastance_input": False},
    "LRC tanh-clamp": {"rho": 0.99},
    "LRC released tanh-clamp": {"rho": 0.99, "form": "released"},
    "LRC negative-softplus-exponential": {"rho": 0.99, "contraction": "negative-softplus-exponential"},
    "STC": {},
    "STC tanh-clamp": {"rho": 0.99},
    "LTC": {},
    "LTC negative-softplus-exponential": {"rho": 0.99},
    "GRU": {},
    "MGU": {},
}


def make(name, key, units=8):
    return cells.ALL[name.split()[0]](3, units, key=key, **CERTIFIED[name])


def jacobian(cell, state, inputs, dt=1.0):
    """The next states and ∂x'/∂x of a diagonal cell."""
    drive = cell.drive(inputs)
    return jax.jvp(lambda x: cell.step(x, drive, dt), (state,), (jnp.ones_like(state),))


def many(name, count, rng):
    """Cells side by side, with parameters at 0.1 to 10 times their scale; drawn by numpy, which compiles nothing."""
    scales = 10 ** rng.uniform(-1, 1, count)

    def draw(leaf):
        shape = (count, *leaf.shape)
        spread = rng.uniform(0.5, 2, shape) * leaf if "spread" in name else rng.uniform(-1, 1, shape) / 8**0.5
        return jnp.asarray(spread * scales.reshape(-1, *(1,) * leaf.ndim))

    return jax.tree.map(draw, make(name, jax.random.key(0)))


@eqx.filter_jit
def violations(stack, bound, x, u):
    """Number of states and Jacobians outside of their certificates, and the largest |J|."""

    def one(cell, x, u):
        found = certify(cell, bound)
        x = x * jnp.where(found.exists, found.state_bound, 1.0) * (1 - 1e-14)  # not beyond the bound before its slack
        new, slope = jacobian(cell, x, u)
        outside = (jnp.abs(new) > found.state_bound) | (slope < found.jacobian_low) | (slope > found.jacobian_high)
        return jnp.sum(outside), jnp.max(jnp.abs(slope))

    outside, largest = eqx.filter_vmap(one)(stack, x, u)
    return jnp.sum(outside), jnp.max(largest)


@pytest.mark.parametrize(
    ("name", "bounded"),
    [
        pytest.param(name, bounded, marks=[pytest.mark.slow] * (bounded and name not in ("LRC", "LRC released", "GRU")))
        for name in CERTIFIED
        for bounded in (False, True)
    ],
)
def test_no_cell_leaves_its_certificate(name, bounded):
    """340 cells for each example, parameters at 0.1 to 10 times their scale, states up to their bounds: more than
    10,000 cells in all, each with 20 states and inputs."""

    @hypothesis.settings(max_examples=3)
    @hypothesis.given(seed=st.integers(0, 2**31 - 1))
    def check(seed):
        rng = np.random.default_rng(seed)
        count = 340
        x = jnp.asarray(rng.choice([-1, 1, rng.uniform(-1, 1)], (count, 20, 8)))
        u = rng.normal(size=(count, 20, 3))
        if bounded:
            u = u / np.linalg.norm(u, axis=-1, keepdims=True) * rng.uniform(0, 2, (count, 20, 1))
        else:
            u = u * 10 ** rng.uniform(-1, 2, (count, 20, 1))
        outside, largest = violations(many(name, count, rng), 2.0 if bounded else None, x, jnp.asarray(u))
        assert int(outside) == 0
        if "rho" in CERTIFIED[name]:
            assert float(largest) <= CERTIFIED[name]["rho"]

    check()


@pytest.mark.slow
def test_share_of_certified_units_at_the_start(capsys):
    lines = []
    for name in CERTIFIED:
        cell = make(name, jax.random.key(0), units=256)
        shares = [float(jnp.mean(certify(cell, bound).contractive)) for bound in (None, 3**0.5)]
        lines.append(f"{name:<36} any input {100 * shares[0]:5.1f} %   |u| ≤ √3 {100 * shares[1]:5.1f} %")
        assert shares[1] > 0.9, name
        if "rho" in CERTIFIED[name]:
            assert shares[0] == 1, name
    with capsys.disabled():
        print("\nunits certified to contract at the initial parameters:", *lines, sep="\n")


@pytest.mark.slow
@pytest.mark.parametrize("name", ["LRC tanh-clamp", "LRC released tanh-clamp", "LRC negative-softplus-exponential"])
@jax.numpy_dtype_promotion("standard")  # optax counts in integers
def test_training_does_not_break_the_contraction(name):
    """200 steps of Adam, at a learning rate that moves every parameter far, on handwritten digits row by row."""
    images, labels = load_digits(return_X_y=True)
    inputs = jnp.asarray(images.reshape(-1, 64).T[:, :200, None] / 8 - 1, jnp.float32)  # one pixel at a time
    targets = jnp.asarray(labels[:200])
    options = CERTIFIED[name]
    cell = cells.LRC(1, 16, dtype=jnp.float32, key=jax.random.key(0), **options)
    model = cell, jnp.zeros((16, 10), jnp.float32)
    optimiser = optax.adam(0.05)

    def loss(model):
        cell, head = model
        final = solve(cell, inputs, solver=Sequential(), throw=False).final
        return jnp.mean(optax.softmax_cross_entropy_with_integer_labels(20 * final @ head, targets))

    @eqx.filter_jit
    def train(model, state):
        value, gradient = eqx.filter_value_and_grad(loss)(model)
        updates, state = optimiser.update(gradient, state)
        return eqx.apply_updates(model, updates), state, value

    def largest(cell):
        assert jnp.all(certify(cell).contractive)
        return float(jnp.max(diagnose(cell, inputs, solve(cell, inputs)).largest))

    assert largest(cell) <= options["rho"]
    state = optimiser.init(eqx.filter(model, eqx.is_inexact_array))
    values = []
    for _ in range(200):
        model, state, value = train(model, state)
        values.append(float(value))
    assert values[-1] < 0.7 * values[0]
    moved = jnp.max(jnp.abs(model[0].a_x - cell.a_x))
    assert moved > 0.5
    assert largest(model[0]) <= options["rho"] * (1 + 1e-6)


def test_without_rho_the_paper_s_claim_fails():
    """λ < 1 for all states and inputs, and yet a Jacobian above 1."""
    cell = jax.tree.map(lambda a: 10 * a, cells.LRC(3, 16, form="released", key=jax.random.key(0)))
    inputs = normal(np.random.default_rng(0), (2000, 3), jnp.float64)
    solution = solve(cell, inputs)
    found = diagnose(cell, inputs, solution)
    assert float(found.largest) > 1.05
    rate, _ = kept_rates(cell, solution.states, inputs)
    assert jnp.all((rate > 0) & (rate < 1))  # so that λ = 1 − rate is below 1


def kept_rates(cell, states, inputs):
    """α and β of the steps, from the cell's two conductances."""
    f, z = cell.drive(inputs)
    before = jnp.concatenate([jnp.zeros_like(states[:1]), states[:-1]])
    y = jax.nn.sigmoid(cell.a_x * (before - cell.b_x))
    e = jax.nn.sigmoid(cell.w_x * before + cell.v)
    return e * jax.nn.sigmoid(f + cell.g_leak + cell.g_x * y), z


@pytest.mark.parametrize("name", ["LRC paper", "LSTM", "dense toy"])
def test_diagnosis_against_numpy(name):
    case = Case(name, 30, masked=name == "LRC paper", dt="steps")
    solution = solve(case.cell, case.inputs, **case.options, solver=Sequential())
    found = diagnose(case.cell, case.inputs, solution, **case.options)
    states = np.asarray(solution.states)
    before = np.concatenate([np.asarray(case.state)[None], states[:-1]])
    size = states.shape[-1]
    for sample in range(2):
        # Jacobians by central differences of the independent loop's step
        steps = []
        for t in range(30):
            columns = []
            for j in range(size):
                ends = []
                for h in (1e-6, -1e-6):
                    moved = before[t, sample].copy()
                    moved[j] += h
                    mask = None if case.mask is None else case.mask[t, sample][None, None]
                    ends.append(case.one_step(moved, t, sample, mask))
                columns.append((ends[0] - ends[1]) / 2e-6)
            steps.append(np.stack(columns, -1))
        steps = np.stack(steps)
        if case.cell.structure == "diagonal":
            blocks = np.einsum("tii->ti", steps)[:, :, None, None]
        elif case.cell.structure == "block2":
            units = size // 2
            pairs = np.stack([np.arange(units), np.arange(units) + units], 1)
            blocks = np.stack([steps[:, p][:, :, p] for p in pairs], 1)
        else:
            blocks = steps[:, None]
        norms = np.linalg.norm(blocks, 2, (-2, -1))
        assert abs(found.largest[sample] - norms.max()) < 1e-6
        growth = np.maximum(np.exp(np.cumsum(np.log(norms[::-1]), 0)).max(), 1)
        assert abs(found.gradient_bound[sample] / growth - 1) < 1e-5
        for unit in range(blocks.shape[1]):
            product = np.eye(blocks.shape[-1])
            for block in blocks[:, unit]:
                product = block @ product
            assert (
                abs(found.lyapunov[sample, unit] - np.log(np.linalg.norm(product)) / 30) < 0.05
                if blocks.shape[-1] > 1
                else abs(found.lyapunov[sample, unit] - np.log(abs(product[0, 0])) / 30) < 1e-6
            )


@pytest.mark.slow
def test_gradients_stay_below_their_bound():
    """The gradient that reaches the first step is at most ρ^T of the one at the last."""
    cell = cells.LRC(3, 16, rho=0.9, key=jax.random.key(0))
    inputs = normal(np.random.default_rng(0), (60, 3), jnp.float64)
    way = normal(np.random.default_rng(1), (16,), jnp.float64)
    first = jax.grad(lambda x: jnp.sum(way * solve(cell, inputs, state=x, solver=DEER()).final))(jnp.zeros(16))
    assert jnp.linalg.norm(first) <= 0.9**60 * jnp.linalg.norm(way)


@pytest.mark.parametrize(
    "name", ["LSTM", "LSTM diagonal", "LRC complex gk", "dense toy", "block toy", "DenseLRC", "DenseLTC"]
)
def test_no_certificate_where_there_is_none(name):
    make, _ = CELLS[name]
    found = certify(make(3, 4, dtype=jnp.float64, key=jax.random.key(0)))
    assert not jnp.any(found.contractive) and jnp.all(jnp.isinf(found.jacobian_bound))
    if name.startswith("Dense"):
        assert jnp.all(found.exists) and "none is certified to contract" in str(found)
    else:
        assert not jnp.any(found.exists) and "No certificate" in str(found)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["DenseLRC", "DenseSTC", "DenseLTC"])
def test_dense_states_stay_within_their_bound(name):
    cell = jax.tree.map(lambda a: 5 * a, cells.ALL[name](3, 8, key=jax.random.key(0)))
    inputs = normal(np.random.default_rng(0), (500, 4, 3), jnp.float64)
    assert jnp.all(jnp.abs(solve(cell, inputs).states) <= certify(cell).state_bound)


@pytest.mark.parametrize("integrator", ["euler", "implicit", "exponential"])
@pytest.mark.parametrize("dt", [*(pytest.param(dt, marks=pytest.mark.slow) for dt in (0.1, 1.0, 1000.0)), 5.0])
def test_which_integrator_is_bounded_for_which_step(integrator, dt):
    cell = jax.tree.map(lambda a: 3 * a, cells.LRC(3, 16, integrator=integrator, key=jax.random.key(0)))
    found = certify(cell, dt=dt)
    if integrator == "euler" and dt > 1:
        assert not jnp.all(found.exists)
        return
    assert jnp.all(found.exists)
    inputs = normal(np.random.default_rng(0), (500, 4, 3), jnp.float64)
    assert jnp.all(jnp.abs(solve(cell, inputs, dt=dt).states) <= found.state_bound)


@pytest.mark.parametrize(
    "name",
    [
        *(
            pytest.param(name, marks=pytest.mark.slow)
            for name in ("LRC", "LRC released", "STC", "STC released", "LTC", "LTC released", "GRU", "MGU", "LSTM")
        ),
    ],
)
def test_spread_time_constants_and_unit_scale(name):
    kind, *form = name.split()
    options = {"form": form[0]} if form else {}
    rng = np.random.default_rng(0)
    for units, longest in ((16, 1000), (256, 1000), (64, 100), (64, 5000)):
        cell = cells.ALL[kind](
            8, units, init="spread", max_time=longest, dtype=jnp.float32, key=jax.random.key(units), **options
        )
        steps = 2 * longest
        inputs = normal(rng, (steps, 2, 8), jnp.float32)
        constants = np.sort(time_constants(cell, inputs))
        wanted = longest ** ((np.arange(units) + 0.5) / units)
        # log-uniform: the quantiles are those of the distribution, to within a factor
        assert np.mean(np.abs(np.log(constants / wanted))) < 0.5, (units, longest)
        scale = float(jnp.sqrt(jnp.mean(cell.read(solve(cell, inputs).states, inputs)[longest:] ** 2)))
        assert 0.1 < scale < 1.5, (units, longest, scale)


def test_wrong_options_are_explained():
    key = jax.random.key(0)
    wrong = {
        "rho=1.5; give a number between 0 and 1": lambda: cells.LRC(3, 4, rho=1.5, key=key),
        "no bound": lambda: cells.LRC(3, 4, rho=0.9, complex_parameters="gk", key=key),
        "drop one of them": lambda: cells.LRC(3, 4, rho=0.9, integrator="implicit", key=key),
        "no parameters of the state": lambda: cells.STC(
            3, 4, complex_parameters="gk", state_dependence="none", key=key
        ),
        "needs a rate below 1/dt": lambda: cells.LTC(3, 4, rho=0.9, contraction="tanh-clamp", key=key),
        "may be negative": lambda: cells.LTC(3, 4, rho=0.9, nonnegative=False, key=key),
        "no unit remembers": lambda: cells.STC(3, 4, init="spread", nonnegative=True, key=key),
        "longest time constant": lambda: cells.GRU(3, 4, init="spread", max_time=0.5, key=key),
        "certify got dt": lambda: certify(cells.GRU(3, 4, key=key), dt=-1.0),
        "certify got input_bound": lambda: certify(cells.GRU(3, 4, key=key), -1.0),
    }
    for text, call in wrong.items():
        with pytest.raises(ValueError, match=text):
            call()
