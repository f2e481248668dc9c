"""Layers that are convolutions, against sums over all pairs of steps."""

import functools
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from cases import distance, normal

from lrcssm import ModelConfig, SequenceModel
from lrcssm.models import Context, ModelState
from lrcssm.models.time import Hyena, Recurrent, S4DConvolution
from lrcssm.models.time.convolution import ShortConvolution, fft_convolution, pack

GAPS = np.random.default_rng(1).random((17, 2)) < 0.6


@eqx.filter_jit
def run(layer, inputs, state=None, **context):
    return layer(inputs, state, Context(**context)).outputs


def convolve(x, kernel):
    """Causal, for one sample: every pair of steps."""
    y = np.zeros_like(x)
    for t in range(len(x)):
        for s in range(min(t + 1, len(kernel))):
            y[t] += kernel[s] * x[t - s]
    return y


def plain(layer, x):
    return x @ np.asarray(layer.weight) + np.asarray(layer.bias)


def hyena(layer, u):
    """One sample, from the equations."""
    (length, width), span = u.shape, layer.filters.length
    x = convolve(plain(layer.project, u), np.asarray(layer.short.weight)[::-1]) + np.asarray(layer.short.bias)
    t = np.arange(length)[:, None] / span
    k = np.arange(layer.filters.bands)
    phi = np.concatenate([t, np.cos(2 * np.pi * k * t), np.sin(2 * np.pi * k * t)], -1)
    for hidden in layer.filters.hidden:
        phi = np.sin(np.asarray(layer.filters.frequency) * plain(hidden, phi))
    phi = (phi @ np.asarray(layer.filters.out)).reshape(length, layer.order, width)
    slow, fast = np.log(100) / 1.5, np.log(100) / 0.3
    alpha = np.array([slow + (fast - slow) * c / (width - 1) for c in range(width)])
    window = np.sqrt(1 - np.exp(-2 * alpha / span)) * np.exp(-alpha * t)
    z, *gates = np.split(x, layer.order + 1, -1)
    for n, gate in enumerate(gates):
        z = gate * (convolve(z, window * phi[:, n]) + np.asarray(layer.skip)[n] * z)
    return plain(layer.out, z)


@pytest.mark.parametrize("length", [17, *(pytest.param(n, marks=pytest.mark.slow) for n in (1, 2, 100))])
def test_fft_convolution_is_a_convolution(length):
    rng = np.random.default_rng(length)
    x, kernel = rng.normal(size=(length, 2, 3)), rng.normal(size=(length, 3))
    want = np.stack([convolve(x[:, i], kernel) for i in range(2)], 1)
    for dtype, tolerance in ((jnp.float64, 1e-13), (jnp.float32, 1e-6)):
        got = jax.jit(fft_convolution)(jnp.asarray(x, dtype), jnp.asarray(kernel, dtype))
        assert got.dtype == dtype and distance(got, want) < tolerance


def test_packing_is_as_if_masked_steps_were_not_there():
    """A short convolution in two pieces, against numpy over the observed steps."""
    steps = np.arange(16)
    kinds = [steps >= 0, steps < 0, steps >= 9, steps < 5, steps % 3 == 1, (steps > 2) & (steps < 12)]
    mask = np.stack([*kinds, *(np.random.default_rng(1).random((3, 16)) < 0.6)], 1)
    x = np.random.default_rng(0).normal(size=(16, mask.shape[1], 3))
    filled = jnp.asarray(np.where(mask[..., None], x, np.nan))
    layer = ShortConvolution(4, 3, jax.random.key(0))

    @jax.jit
    def convolved(x, mask, before):
        inputs, context, restore = pack(x, Context(x[..., 0], mask))
        outputs, after = layer(inputs, before, context.mask)
        return inputs, context.dt, context.mask, restore(outputs), after

    before, parts = jnp.zeros((mask.shape[1], 3, 3)), []
    for piece in (slice(0, 8), slice(8, 16)):
        inputs, dt, valid, outputs, before = convolved(filled[piece], jnp.asarray(mask[piece]), before)
        parts.append(outputs)
        for i in range(mask.shape[1]):
            real = x[piece, i][mask[piece, i]]
            np.testing.assert_array_equal(inputs[: len(real), i], real)
            np.testing.assert_array_equal(inputs[len(real) :, i], 0)
            np.testing.assert_array_equal(dt[: len(real), i], real[:, 0])
            np.testing.assert_array_equal(valid[:, i], np.arange(8) < len(real))
    got = np.concatenate(parts)
    assert np.all(np.isfinite(got))
    for i in range(mask.shape[1]):
        want = convolve(x[mask[:, i], i], np.asarray(layer.weight)[::-1]) + np.asarray(layer.bias)
        np.testing.assert_allclose(got[mask[:, i], i], want, atol=1e-14)


def test_packing_has_the_gradient_of_indexing():
    x, mask = normal(np.random.default_rng(0), (17, 2, 3), jnp.float64), jnp.asarray(GAPS)
    cotangent = normal(np.random.default_rng(1), (17, 2, 3), jnp.float64)

    def shifted(x):
        inputs, _, restore = pack(x, Context(mask=mask))
        return restore(inputs**2 * cotangent)

    places = np.where(GAPS, np.cumsum(GAPS, 0) - 1, 0)
    want = np.where(GAPS[..., None], 2 * x * np.take_along_axis(np.asarray(cotangent), places[..., None], 0), 0)
    for gradient in (jax.grad(lambda x: jnp.sum(shifted(x))), lambda x: jax.jvp(shifted, (x,), (jnp.ones_like(x),))[1]):
        np.testing.assert_allclose(jax.jit(gradient)(x), want, atol=1e-14)


def make_hyena(**options: Any):
    return Hyena(3, 5, key=jax.random.key(0), **({"length": 12, "bands": 4} | options))


@pytest.mark.parametrize(
    "options", [{}, *(pytest.param(o, marks=pytest.mark.slow) for o in ({"order": 1}, {"order": 3, "conv": 1}))]
)
def test_hyena(options):
    layer = make_hyena(**options)
    inputs = normal(np.random.default_rng(0), (17, 2, 3), jnp.float64)
    want = np.stack([hyena(layer, np.asarray(inputs[:, i])) for i in range(2)], 1)
    assert distance(run(layer, inputs), want) < 1e-12


def make_s4d(**given: Any):
    options: dict[str, Any] = {"dt_min": 0.05, "dt_max": 0.5} | given
    return S4DConvolution(3, 6, key=jax.random.key(0), **options)


@pytest.mark.parametrize(
    ("options", "dt"), [({}, 0.7), pytest.param({"init": "inv", "dt_max": 0.1}, None, marks=pytest.mark.slow)]
)
def test_s4d_is_the_recurrence(options, dt):
    layer = make_s4d(**options)
    inputs = normal(np.random.default_rng(0), (100, 2, 3), jnp.float64)
    assert distance(run(layer, inputs, dt=dt), run(Recurrent(layer.cell), inputs, dt=dt)) < 1e-12


@pytest.mark.slow
def test_s4d_in_single_precision():
    """Of a long sequence: the kernel's and the transform's rounding against the recurrence in double precision."""
    layer = S4DConvolution(4, 64, key=jax.random.key(0))
    inputs = normal(np.random.default_rng(0), (2**15, 1, 4), jnp.float64)
    want = run(Recurrent(layer.cell), inputs)
    narrow = jax.tree.map(lambda a: a.astype(jnp.float32) if eqx.is_inexact_array(a) else a, layer)
    got = run(narrow, inputs.astype(jnp.float32))
    assert got.dtype == jnp.float32
    assert distance(got, want) < 1e-5


LAYERS = {"Hyena": make_hyena, "S4DConvolution": make_s4d}


@pytest.mark.parametrize("name", LAYERS)
def test_only_what_was_counts(name):
    """Later steps and masked steps have no effect."""
    layer = LAYERS[name]()
    inputs = normal(np.random.default_rng(0), (17, 2, 3), jnp.float64)
    whole = run(layer, inputs)
    assert distance(run(layer, inputs.at[9:].add(1.0))[:9], whole[:9]) < 1e-13
    assert distance(run(layer, inputs.at[4].add(1.0))[9], whole[9]) > 1e-6
    gaps = run(layer, jnp.where(GAPS[..., None], inputs, jnp.nan), mask=jnp.asarray(GAPS))
    valid = GAPS[:, 1]
    assert distance(gaps[valid, 1], run(layer, inputs[valid, 1])) < 1e-13


@pytest.mark.parametrize("name", ["S4DConvolution", pytest.param("Hyena", marks=pytest.mark.slow)])
def test_gradients(name):
    """Against differences, with masked steps that hold NaN."""
    layer = LAYERS[name]()
    rng = np.random.default_rng(0)
    inputs, cotangent = (normal(rng, (17, 2, 3), jnp.float64) for _ in range(2))
    learned, rest = eqx.partition(layer, eqx.is_inexact_array)
    mask = jnp.asarray(GAPS)

    @jax.jit
    @functools.partial(jax.value_and_grad, argnums=(0, 1))
    def value(learned, inputs):
        inputs = jnp.where(mask[..., None], inputs, jnp.nan)
        outputs = run(eqx.combine(learned, rest), inputs, mask=mask)
        return jnp.sum(jnp.where(mask[..., None], outputs * cotangent, 0))

    point = learned, inputs
    direction = jax.tree.map(lambda a: normal(rng, a.shape, a.dtype), point)
    _, gradient = value(*point)
    slope = sum(np.vdot(g, d) for g, d in zip(*map(jax.tree.leaves, (gradient, direction)), strict=True))
    ahead = value(*jax.tree.map(lambda a, d: np.asarray(a) + 1e-6 * np.asarray(d), point, direction))[0]
    behind = value(*jax.tree.map(lambda a, d: np.asarray(a) - 1e-6 * np.asarray(d), point, direction))[0]
    np.testing.assert_allclose((ahead - behind) / 2e-6, slope, rtol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("name", LAYERS)
def test_padding_changes_nothing(name, bidirectional):
    """Not one bit of outputs and gradients; and a padded sequence gives what it gives alone."""
    config = ModelConfig(
        input_dim=3,
        output_dim=2,
        hidden_dim=4,
        state_dim=4,
        num_blocks=2,
        cell=name,
        bidirectional=bidirectional,
        encoder="linear",
    )
    model = SequenceModel(config, jax.random.key(0))
    inputs = normal(np.random.default_rng(0), (20, 2, 3), jnp.float64)
    mask = jnp.arange(20)[:, None] < jnp.array([20, 12])

    @eqx.filter_jit
    @eqx.filter_value_and_grad(has_aux=True)
    def both(model, inputs):
        outputs, _ = model(inputs, mask=mask, throw=False)
        return jnp.sum(outputs**2), outputs

    clean = both(model, inputs)
    for filling in (jnp.nan, 1e30):
        other = both(model, jnp.where(mask[..., None], inputs, filling))
        for a, b in zip(jax.tree.leaves(clean), jax.tree.leaves(other), strict=True):
            np.testing.assert_array_equal(a, b)
    alone = eqx.filter_jit(lambda model, inputs: model(inputs)[0])(model, inputs[:12, 1])
    assert distance(clean[0][1][1], alone) < 1e-10


def test_mistakes_are_explained():
    inputs = jnp.ones((5, 3))
    with pytest.raises(ValueError, match="Hyena got order=0; give a whole number"):
        make_hyena(order=0)
    for name, make in LAYERS.items():
        with pytest.raises(ValueError, match=f"{name} got a state, but it convolves a sequence as a whole; give"):
            run(make(), inputs, state=jnp.ones(3))
    with pytest.raises(ValueError, match="Hyena got dt, but it ignores the time"):
        run(make_hyena(), inputs, dt=jnp.ones(5))
    with pytest.raises(ValueError, match=r"S4DConvolution got dt of shape \(5,\), but"):
        run(make_s4d(), inputs, dt=jnp.ones(5))
    config = ModelConfig(
        input_dim=3, output_dim=2, hidden_dim=3, state_dim=5, num_blocks=1, cell="Hyena", encoder="linear"
    )
    with pytest.raises(ValueError, match="it convolves a sequence as a whole; give it all steps of a sequence at once"):
        SequenceModel(config, jax.random.key(0))(inputs, state=ModelState((None,), None, None))
