"""Controlled differential equations: against plain numpy loops, scipy's solver, and Lie brackets by finite
differences."""

import sys

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from cases import distance
from scipy.integrate import solve_ivp
from scipy.interpolate import CubicHermiteSpline
from test_signature import log_signature

from lrcssm import ModelConfig, SequenceModel
from lrcssm.data import Cases
from lrcssm.models import Context, trainable
from lrcssm.models.time import LAYERS, Outcome, TimeLayer
from lrcssm.training import TrainingConfig, evaluate, fit

OPTIONS = {
    "NCDE": {"solver_steps": 30},
    "NRDE": {"solver_steps": 30, "depth": 2, "step": 3},
    "LogNCDE": {"solver_steps": 30, "depth": 2, "step": 3, "scale": 1},
}
QUICK = [pytest.param(name, marks=[] if name == "LogNCDE" else pytest.mark.slow) for name in OPTIONS]


def make(name, **changes):
    options = {"vf_depth": 2, "vf_width": 7} | OPTIONS[name] | changes
    shapes = eqx.filter_eval_shape(lambda key: LAYERS[name](3, 5, key=key, **options), jax.random.key(0))
    rng = np.random.default_rng(0)
    return jax.tree.map(lambda a: jnp.asarray(rng.uniform(-1, 1, a.shape) / a.shape[-1] ** 0.5), shapes)


@eqx.filter_jit
def run(layer, inputs, dt=None, mask=None):
    return layer(inputs, None, Context(dt, mask, throw=False)).outputs


def network(layer, h):
    """F(h) in numpy: for NRDE the tanh is before the last layer, for the others after it; LogNCDE has SiLU for ReLU."""
    name = type(layer).__name__
    act = (lambda z: z / (1 + np.exp(-z))) if name == "LogNCDE" else (lambda z: np.maximum(z, 0))
    *inner, last = [(np.asarray(one.weight), np.asarray(one.bias)) for one in layer.layers]
    for i, (weight, bias) in enumerate(inner):
        h = weight @ h + bias
        h = np.tanh(h) if name == "NRDE" and i == len(inner) - 1 else act(h)
    out = (last[0] @ h + last[1]).reshape(layer.size, -1)
    return out if name == "NRDE" else np.tanh(out)


def brackets(layer, h):
    """The columns f_i, then [f_i, f_j] for i < j, by central differences along f_i and f_j."""
    f, eps = network(layer, h), 1e-6
    slope = lambda way: (network(layer, h + eps * way) - network(layer, h - eps * way)) / (2 * eps)
    slopes = [slope(f[:, i]) for i in range(f.shape[1])]
    pairs = zip(*np.triu_indices(f.shape[1], 1), strict=True)
    return np.concatenate([f, np.stack([slopes[i][:, j] - slopes[j][:, i] for i, j in pairs], 1)], 1)


def heun(layer, x, dt=None):
    """The states of each step of one sample, by a loop over the solver's steps."""
    length, name = len(x), type(layer).__name__
    steps = max(layer.solver_steps, 1 + length // layer.step)
    times, grid = np.cumsum(np.ones(length) if dt is None else dt), np.arange(steps + 1) / steps
    if name == "NCDE":
        knots = (times - times[0]) / (times[-1] - times[0])
        z, ends = hermite(knots, x)(grid), knots
    else:
        points = np.concatenate([np.zeros((1, x.shape[1])), x])
        pieces = [log_signature(points[i : i + layer.step + 1], layer.depth) for i in range(0, length, layer.step)]
        last = np.minimum(np.arange(length) // layer.step * layer.step + layer.step, length) - 1
        ends = times[last] / times[-1]
        knots, values = np.concatenate([[0], np.unique(ends)]), np.concatenate([[0 * pieces[0]], np.cumsum(pieces, 0)])
        z = np.stack([np.interp(grid, knots, column) for column in values.T], 1)
    field = brackets if name == "LogNCDE" and layer.depth == 2 else network
    h = np.asarray(layer.first.weight) @ x[0] + np.asarray(layer.first.bias)
    states = [h]
    for dz in np.diff(z, axis=0):
        k = field(layer, h) @ dz
        h = h + (k + field(layer, h + k) @ dz) / 2
        states.append(h)
    return np.stack([np.interp(ends, grid, column) for column in np.stack(states, 1)], 1)


def hermite(knots, x):
    slopes = np.diff(x, axis=0) / np.diff(knots)[:, None]
    return CubicHermiteSpline(knots, x, np.concatenate([slopes[:1], slopes]))


INPUTS = np.random.default_rng(0).normal(size=(11, 2, 3))
DT = np.random.default_rng(1).uniform(0.3, 1.7, (11, 2))


@pytest.mark.parametrize("dt", [pytest.param(None, marks=pytest.mark.slow), DT], ids=["regular", "irregular"])
@pytest.mark.parametrize("name", OPTIONS)
def test_against_a_loop(name, dt):
    layer = make(name)
    got = run(layer, jnp.asarray(INPUTS), jnp.ones((11, 2)) if dt is None else jnp.asarray(dt))
    assert got.shape == (11, 2, 5)
    for b in range(2):
        want = heun(layer, INPUTS[:, b], None if dt is None else dt[:, b])
        assert distance(got[:, b], want) < (1e-8 if name == "LogNCDE" else 1e-12)


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("NRDE", {"depth": 1, "step": 1}),
        pytest.param("NRDE", {"depth": 1, "step": 20}, marks=pytest.mark.slow),
        pytest.param("LogNCDE", {"depth": 1, "step": 1}, marks=pytest.mark.slow),
    ],
)
def test_depth_1(name, changes):
    """With step 1 the path is the data itself, straight from sample to sample; a step may be longer than the
    sequence."""
    layer = make(name, solver_steps=7, **changes)
    got = run(layer, jnp.asarray(INPUTS[:, 0]))
    assert distance(got, heun(layer, INPUTS[:, 0])) < 1e-12


def test_converges_to_the_solution():
    """Of dh/dt = f(h) dX/dt, with the square of the solver's step."""
    layer, x = make("NCDE"), INPUTS[:, 0] / 2
    rate = hermite(np.arange(11) / 10, x).derivative()
    h = np.asarray(layer.first.weight) @ x[0] + np.asarray(layer.first.bias)
    solved = solve_ivp(lambda t, h: network(layer, h) @ rate(t), (0, 1), h, rtol=1e-10, atol=1e-12, max_step=0.01)
    coarse = distance(run(layer, jnp.asarray(INPUTS / 2), jnp.ones((11, 2)))[-1, 0], solved.y[:, -1])
    fine = distance(heun(make("NCDE", solver_steps=960), x)[-1], solved.y[:, -1])
    assert coarse < 1e-2 and fine < coarse / 100


def test_brackets_of_the_field():
    layer, rng = make("LogNCDE", vf_depth=3), np.random.default_rng(2)
    h, dz = rng.normal(size=5), rng.normal(size=6)
    assert distance(eqx.filter_jit(layer.field)(jnp.asarray(h), jnp.asarray(dz)), brackets(layer, h) @ dz) < 1e-8


@pytest.mark.slow
@pytest.mark.parametrize("name", QUICK)
def test_padding_changes_nothing(name):
    """Nor do steps that are missing in the middle; and the gradient is that of finite differences."""
    config = ModelConfig(
        input_dim=3, output_dim=2, cell=name, state_dim=5, num_blocks=1, encoder="none", layout="bare", pool="last",
        cell_options=OPTIONS[name] | {"vf_depth": 1, "vf_width": 6, "lip2": 0.1},
    )  # fmt: skip
    model = eqx.filter_jit(SequenceModel)(config, jax.random.key(0))
    inputs = np.random.default_rng(3).normal(size=(12, 3, 3))
    mask = np.stack([np.ones(12, bool), np.arange(12) < 7, np.arange(12) % 3 > 0], 1)

    @eqx.filter_jit
    @eqx.filter_value_and_grad(has_aux=True)
    def total(model, inputs):
        outputs, _ = model(inputs, mask=jnp.asarray(mask), throw=False)
        return jnp.sum(outputs**2) + model.penalty(), outputs

    clean = total(model, jnp.asarray(inputs))
    for filling in (np.nan, 1e30):
        other = total(model, jnp.asarray(np.where(mask[..., None], inputs, filling)))
        for a, b in zip(jax.tree.leaves(clean), jax.tree.leaves(other), strict=True):
            np.testing.assert_array_equal(a, b)
    for b in range(3):
        last = heun(model.blocks[0].layer, inputs[mask[:, b], b])[-1]
        assert distance(clean[0][1][b], last @ np.asarray(model.head.weight) + np.asarray(model.head.bias)) < 1e-8
    learned = eqx.filter(model, trainable(model))
    ways = jax.tree.map(lambda a: np.random.default_rng(a.size).normal(size=a.shape), learned)
    shift = lambda eps: total(eqx.apply_updates(model, jax.tree.map(lambda way: eps * way, ways)), jnp.asarray(inputs))
    pairs = zip(jax.tree.leaves(eqx.filter(clean[1], trainable(model))), jax.tree.leaves(ways), strict=True)
    slope = sum(float(np.sum(a * b)) for a, b in pairs)
    assert distance(slope, (shift(1e-6)[0][0] - shift(-1e-6)[0][0]) / 2e-6) < 1e-6


def test_penalty():
    layer = make("LogNCDE", lip2=0.5)
    want = sum(
        np.mean(np.sqrt(np.sum(np.asarray(one.weight) ** 2, 1))) + np.sqrt(np.sum(np.asarray(one.bias) ** 2))
        for one in layer.layers
    )
    assert distance(eqx.filter_jit(layer.penalty)(), 0.5 * want) < 1e-12
    assert make("LogNCDE").penalty() is None


def test_initial_weights():
    """Equal to those of scale 1, divided; of NRDE the last layer's are not."""
    for name, last in (("NCDE", 10), ("NRDE", 1)):
        one, ten = (LAYERS[name](3, 5, vf_depth=2, vf_width=5, scale=s, key=jax.random.key(0)) for s in (1, 10))
        ratios = [np.asarray(a.weight / b.weight) for a, b in zip(one.layers, ten.layers, strict=True)]
        np.testing.assert_allclose([r.mean() for r in ratios], [10, 10, last])
        assert np.max(np.abs(one.layers[0].weight)) <= 5**-0.5 and one.layers[0].bias.any()


def test_a_single_step_in_single_precision():
    layer = jax.tree.map(lambda a: a.astype(jnp.float32), make("NCDE"))
    states = run(layer, jnp.asarray(INPUTS[:1, 0], jnp.float32))
    assert states.dtype == jnp.float32
    assert distance(states[0], make("NCDE").first(jnp.asarray(INPUTS[0, 0]))) < 1e-6


def test_mistakes_are_explained(monkeypatch):
    for text, changes in {
        "NRDE got depth=3; give a log-signature's depth, 1 or 2": {"depth": 3},
        "step=0; give a whole number": {"step": 0},
        "solver_steps=0; give a whole number": {"solver_steps": 0},
    }.items():
        with pytest.raises(ValueError, match=text):
            make("NRDE", **changes)
    monkeypatch.setitem(sys.modules, "diffrax", None)
    with pytest.raises(ImportError, match=r'not installed; pip install "lrcssm\[baselines\]"'):
        run(make("NCDE", solver_steps=31), jnp.asarray(INPUTS))


def bumps(seed, count=256):
    """A bump in each of two channels, one three steps after the other; the class is whose comes first. One step alone
    does not tell: read backwards, a case has the same steps as one of the other class."""
    rng = np.random.default_rng(seed)
    targets, start = rng.integers(0, 2, count), rng.uniform(6, 22, count)
    centres = np.stack([start + 3 * targets, start + 3 * (1 - targets)], 1)[:, None]
    series = np.exp(-(((np.arange(32)[:, None] - centres) / 2.5) ** 2)) + 0.02 * rng.normal(size=(count, 32, 2))
    return Cases.of(series, targets)


class EachStep(TimeLayer):
    """No layer along time: the encoder's output for each step goes to the pool."""

    size: int = eqx.field(static=True)

    def __call__(self, inputs, state, context):
        return Outcome(inputs, (), None)

    def initial_state(self, batch):
        return ()


def accuracy_after(steps, layer=None, **fields):
    """Of unseen cases, after some steps of training, as a user has it."""
    with jax.enable_x64(False), jax.numpy_dtype_promotion("standard"):
        config = ModelConfig(
            **({"input_dim": 2, "output_dim": 2, "num_blocks": 1, "encoder": "none", "layout": "bare"} | fields)
        )
        model = SequenceModel(config, jax.random.key(0)).with_statistics(*bumps(0).statistics())
        if layer is not None:
            model = eqx.tree_at(lambda m: m.blocks[0].layer, model, layer)
        training = TrainingConfig(steps=steps, batch=32, learning_rate=1e-2, weight_decay=0.0, check_every=25)
        stop = lambda epoch: epoch.scores["accuracy"] > 0.98
        return evaluate(fit(model, bumps(0), bumps(1), training, report=stop).model, bumps(2))["accuracy"]


@pytest.mark.slow
@pytest.mark.parametrize("name", OPTIONS)
def test_learns_an_order(name):
    options = {"solver_steps": 16, "vf_depth": 1, "vf_width": 16}
    assert accuracy_after(400, cell=name, state_dim=8, pool="last", cell_options=options) >= 0.95


@pytest.mark.slow
def test_each_step_alone_does_not_tell_the_order():
    assert accuracy_after(400, EachStep(16), encoder="mlp", hidden_dim=16, state_dim=16) <= 0.65
