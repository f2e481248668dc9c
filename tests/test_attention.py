"""Attention against plain numpy loops; later and masked steps have no effect."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from cases import distance
from test_cde import accuracy_after

from lrcssm import ModelConfig, SequenceModel
from lrcssm.models import Context, ModelState, trainable
from lrcssm.models.time import LAYERS, attention

INPUTS = np.random.default_rng(0).normal(size=(9, 2, 3))
# Weights of unit scale: with the published ones attention is nearly the same for all steps.
VARIANTS = {
    "default": {},
    "two layers, heads": {"heads": 2, "shared": False, "scaled": True},
    "not causal": {"causal": False, "layers": 1},
    "sinusoidal": {"positions": "sinusoidal", "embedding": 5, "heads": 3},
    "no positions": {"positions": "none"},
}


def make(**options):
    options = {"embedding": 4, "max_length": 12} | options
    shapes = eqx.filter_eval_shape(lambda key: LAYERS["Transformer"](3, 7, key=key, **options), jax.random.key(0))
    rng = np.random.default_rng(1)
    return jax.tree.map(lambda a: jnp.asarray(rng.normal(size=a.shape) / a.shape[0] ** 0.5), shapes)


@eqx.filter_jit
def run(layer, inputs, mask=None, key=None):
    return layer(inputs, None, Context(None, mask, key)).outputs


def norm(x, parameters):
    x = x - x.mean(-1, keepdims=True)
    return x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-5) * parameters.scale + parameters.shift


def transformer(layer, x, options):
    """One sample, step by step and head by head."""
    p = jax.tree.map(np.asarray, layer)
    linear = lambda one, x: x @ one.weight + one.bias
    if p.table is not None:
        x = np.concatenate([x, p.table[: len(x)]], 1)
    elif options.get("positions") == "sinusoidal":
        rates = 10000.0 ** -(np.arange(3) / 3)
        x = np.concatenate([x, np.stack([np.r_[np.sin(t * rates), np.cos(t * rates[:2])] for t in range(len(x))])], 1)
    size, heads = x.shape[1], options.get("heads", 1)
    for own in p.layers * (options.get("layers", 2) if options.get("shared", True) else 1):
        qk, v, y = linear(own.queries_keys, x), linear(own.values, x), []
        for t in range(len(x)):
            last = t + 1 if options.get("causal", True) else len(x)
            taken = []
            for h in range(heads):
                q = qk[t, h * size : (h + 1) * size]
                k = qk[:last, (heads + h) * size : (heads + h + 1) * size]
                scores = k @ q / (np.sqrt(size) if options.get("scaled") else 1)
                weights = np.exp(scores - scores.max())
                taken.append(weights / weights.sum() @ v[:last, h * size : (h + 1) * size])
            y.append(np.concatenate(taken))
        x = norm(x + linear(own.out, np.stack(y)), own.norm)
        x = norm(x + linear(own.down, np.maximum(linear(own.up, x), 0)), own.final)
    return x


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=pytest.mark.slow if n == "no positions" else []) for n in VARIANTS]
)
def test_against_a_loop(name):
    layer = make(**VARIANTS[name])
    got = run(layer, jnp.asarray(INPUTS))
    assert got.shape == (9, 2, layer.size)
    for b in range(2):
        assert distance(got[:, b], transformer(layer, INPUTS[:, b], VARIANTS[name])) < 1e-12


def test_later_steps_are_not_seen():
    layer = make()
    later = INPUTS.copy()
    later[5:] += 1
    before, after = (np.asarray(run(layer, jnp.asarray(inputs))) for inputs in (INPUTS, later))
    np.testing.assert_array_equal(before[:5], after[:5])
    assert np.all(np.any(before[5:] != after[5:], -1))


def test_pieces_of_the_scores(monkeypatch):
    """Scores computed in pieces equal those computed at once, with dropout in each piece."""
    whole = np.asarray(run(make(), jnp.asarray(INPUTS)))
    monkeypatch.setattr(attention, "chunk_length", lambda length, elements: 4)
    layer = make(dropout=0.5)
    assert distance(run(layer, jnp.asarray(INPUTS)), whole) < 1e-12
    dropped = [np.asarray(run(layer, jnp.asarray(INPUTS), key=jax.random.key(k))) for k in (1, 1, 2)]
    np.testing.assert_array_equal(dropped[0], dropped[1])
    assert distance(dropped[0], whole) > 1e-2 and distance(dropped[0], dropped[2]) > 1e-2


RFORMER = {"signature": {"windows": 5, "level": 2, "univariate": True}}


@pytest.mark.slow
@pytest.mark.parametrize(
    "changes", [pytest.param({}, id="steps"), pytest.param(RFORMER, marks=pytest.mark.slow, id="signatures")]
)
def test_padding_changes_nothing(changes):
    """Nor do steps that are missing in the middle; and the gradient is that of finite differences."""
    config = ModelConfig(
        input_dim=3, output_dim=2, cell="Transformer", num_blocks=1, encoder="none", layout="bare",
        cell_options={"heads": 2, "max_length": 12, "embedding": 4}, **changes,
    )  # fmt: skip
    model = eqx.filter_jit(SequenceModel)(config, jax.random.key(0))
    inputs = np.random.default_rng(3).normal(size=(12, 3, 3))
    mask = np.stack([np.ones(12, bool), np.arange(12) < 8, np.arange(12) % 3 > 0], 1)

    @eqx.filter_jit
    @eqx.filter_value_and_grad(has_aux=True)
    def total(model, inputs):
        outputs, _ = model(inputs, mask=jnp.asarray(mask))
        return jnp.sum(outputs**2), outputs

    clean = total(model, jnp.asarray(inputs))
    for filling in (np.nan, 1e30):
        other = total(model, jnp.asarray(np.where(mask[..., None], inputs, filling)))
        for a, b in zip(jax.tree.leaves(clean), jax.tree.leaves(other), strict=True):
            np.testing.assert_array_equal(a, b)
    alone = eqx.filter_jit(model)
    for b in (1, 2):
        assert distance(clean[0][1][b], alone(jnp.asarray(inputs[mask[:, b], b]))[0]) < 1e-10
    learned = eqx.filter(model, trainable(model))
    ways = jax.tree.map(lambda a: np.random.default_rng(a.size).normal(size=a.shape), learned)
    shift = lambda eps: total(eqx.apply_updates(model, jax.tree.map(lambda way: eps * way, ways)), jnp.asarray(inputs))
    pairs = zip(jax.tree.leaves(eqx.filter(clean[1], trainable(model))), jax.tree.leaves(ways), strict=True)
    slope = sum(float(np.sum(a * b)) for a, b in pairs)
    assert distance(slope, (shift(1e-6)[0][0] - shift(-1e-6)[0][0]) / 2e-6) < 1e-6


def test_first_weights():
    layer = eqx.filter_jit(LAYERS["Transformer"])(20, 1, heads=3, key=jax.random.key(0))
    own = layer.layers[0]
    assert layer.size == 30 and len(layer.layers) == 1
    assert own.queries_keys.weight.shape == (30, 180) and own.out.weight.shape == (90, 30)
    for part, scale in ((own.queries_keys, 0.01), (own.values, 0.02), (own.out, 0.02), (own.up, 0.02)):
        assert abs(float(np.std(part.weight)) / scale - 1) < 0.05 and not np.any(part.bias)


def test_mistakes_are_explained():
    for text, options in {
        "positions='far'; give \"learned\"": {"positions": "far"},
        "heads=0; give a whole number": {"heads": 0},
        "dropout=1; give a number from 0": {"dropout": 1},
    }.items():
        with pytest.raises(ValueError, match=text):
            make(**options)
    with pytest.raises(ValueError, match="got 9 steps but has positions for 8; give a larger max_length"):
        run(make(max_length=8), jnp.asarray(INPUTS))
    config = ModelConfig(input_dim=3, output_dim=2, cell="Transformer", num_blocks=1, encoder="none", layout="bare")
    model = eqx.filter_jit(SequenceModel)(config, jax.random.key(0))
    with pytest.raises(
        ValueError, match="keeps nothing of the steps that it has seen; give it all steps of a sequence at once"
    ):
        model(jnp.asarray(INPUTS), state=ModelState((None,), None, None))


@pytest.mark.slow
@pytest.mark.parametrize("changes", [{}, {"signature": {"windows": 16, "level": 2, "univariate": True}}])
def test_learns_an_order(changes):
    assert accuracy_after(400, cell="Transformer", **changes) >= 0.95
