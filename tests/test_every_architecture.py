"""Each architecture once, small: gradient, mask, time steps, stream and file. A new one is tested here by its entry in the list."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from cases import distance, normal
from jax import lax

import lrcssm
from lrcssm import ModelConfig, SequenceModel
from lrcssm.models import ARCHITECTURES, trainable
from lrcssm.models.step import start

SMALL = {"input_dim": 3, "output_dim": 2, "hidden_dim": 4, "state_dim": 4, "num_blocks": 1}
# Of a network with many kinks, finite differences are too coarse.
EQUATION = {"cell_options": {"solver_steps": 30, "vf_depth": 1, "vf_width": 6}}
FEWER = {"rformer": {"signature": {"windows": 3, "level": 2, "view": "global"}}} | dict.fromkeys(
    ("ncde", "nrde", "log-ncde"), EQUATION
)
WITHOUT_TIME = ("hyena",)  # refuses `dt`
# Controlled equations do not see how fast their path is gone through, and attention counts steps: time is a channel for them.
WITHOUT_SPEED = ("ncde", "nrde", "log-ncde", "transformer", "rformer")
LENGTHS = (8, 5)


def make(name):
    """A model with perturbed weights, so that symmetries of the initial ones hide no error, and with data statistics."""
    fields = SMALL | ARCHITECTURES[name] | FEWER.get(name, {})
    config = ModelConfig(**(fields | {"include_time": name in WITHOUT_SPEED}))
    return SequenceModel(config, jax.random.key(0)).with_statistics(0.1, [1.0, 2.0, 3.0], 0.5, -1.0, 2.0)


@eqx.filter_jit
def by_steps(model, inputs, dt):
    def step(state, now):
        outputs, state = model.step(now[0], state, dt=now[1])
        return state, outputs

    return lax.scan(step, start(model, inputs.shape[1:-1]), (inputs, dt))[1]


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_architecture(name, tmp_path):
    model, rng = make(name), np.random.default_rng(0)
    inputs = normal(rng, (8, 2, 3), jnp.float64)
    dt = None if name in WITHOUT_TIME else jnp.asarray(rng.uniform(0.3, 1.0, (8, 2)))
    mask = jnp.arange(8)[:, None] < jnp.array(LENGTHS)
    cotangent = normal(rng, (2, 2), jnp.float64)
    learned, fixed = eqx.partition(model, trainable(model))

    @jax.jit
    def run(learned, inputs, dt):
        """The gradient of a sum of outputs, and the outputs."""

        def value(learned, inputs):
            outputs, _ = model_of(learned)(inputs, dt=dt, mask=mask, throw=False)
            return jnp.sum(cotangent * outputs), outputs

        return jax.value_and_grad(value, (0, 1), has_aux=True)(learned, inputs)

    def model_of(learned):
        return eqx.combine(learned, fixed)

    (total, outputs), gradient = run(learned, inputs, dt)
    padded = run(learned, jnp.where(mask[..., None], inputs, jnp.nan), dt)
    for got, want in zip(jax.tree.leaves(padded), jax.tree.leaves(((total, outputs), gradient)), strict=True):
        np.testing.assert_array_equal(got, want, "what is in the padding counts")
    if dt is None:
        with pytest.raises(ValueError, match="give regular samples without dt"):
            model(inputs, dt=jnp.ones((8, 2)))
    else:  # a gap, not another unit of time, which some do not see
        assert distance(run(learned, inputs, dt.at[2].multiply(5))[0][1], outputs) > 1e-6

    ways = jax.tree.map(lambda leaf: normal(rng, leaf.shape, leaf.dtype), (learned, inputs))
    numeric = derivative(lambda *args: float(run(*args, dt)[0][0]), (learned, inputs), ways)
    analytic = sum(
        float(jnp.sum(jnp.real(g * way)))
        for g, way in zip(jax.tree.leaves(gradient), jax.tree.leaves(ways), strict=True)
    )
    assert abs(numeric - analytic) < 1e-6 * max(abs(analytic), 1e-2)

    lrcssm.save(tmp_path / "model", model)
    other = eqx.filter(lrcssm.load(tmp_path / "model").model, trainable(model))
    np.testing.assert_array_equal(run(other, inputs, dt)[0][1], outputs)

    if model.whole():
        with pytest.raises(ValueError, match="step cannot be used"):
            model.step(inputs[0])
        alone, _ = eqx.filter_jit(model)(inputs[:5, 1:], dt=None if dt is None else dt[:5, 1:], throw=False)
        assert distance(alone[0], outputs[1]) < 1e-10
    else:
        steps = by_steps(model, inputs, dt)
        ends = jnp.stack([steps[length - 1, i] for i, length in enumerate(LENGTHS)])
        assert distance(ends, outputs) < 1e-10


def derivative(function, args, ways, h=1e-6):
    """Along a direction, by differences of fourth order."""
    moved = lambda h: function(*jax.tree.map(lambda leaf, way: leaf + h * way, args, ways))
    return (8 * (moved(h) - moved(-h)) - (moved(2 * h) - moved(-2 * h))) / (12 * h)
