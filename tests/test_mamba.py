"""Mamba against a loop over steps, in pieces, with masks, and its memory in training."""

import functools
import itertools
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from cases import distance, normal

from lrcssm import DEER, ModelConfig, SequenceModel, Sequential
from lrcssm.engine import system
from lrcssm.models import Context
from lrcssm.models.time import Mamba, base
from lrcssm.models.time.mamba import MambaState

WIDTH, STATES, STEPS = 3, 4, 17
MASK = np.random.default_rng(1).random((STEPS, 2)) < 0.6


def make(**options):
    layer = Mamba(WIDTH, STATES, key=jax.random.key(0), **options)
    # Steps of S6 that are not small, so that its states matter in a few of them.
    return eqx.tree_at(lambda layer: layer.selective.cell.b_step, layer, replace_fn=lambda b: b + 3)


def given(seed=0):
    rng = np.random.default_rng(seed)
    inputs = normal(rng, (STEPS, 2, WIDTH), jnp.float64)
    return inputs, jnp.asarray(rng.uniform(0.5, 2, (STEPS, 2)))


@eqx.filter_jit
def run(layer, inputs, state=None, **context):
    return layer(inputs, state, Context(**({"solver": Sequential(), "throw": False} | context)))


def silu(x):
    return x / (1 + np.exp(-x))


def loop(layer, inputs, dt, state=None):
    """One sample, step by step, from the equations, and its final state; `state` is the initial one."""
    cell = layer.selective.cell
    w = {name: np.asarray(getattr(cell, name)) for name in ("a", "w_delta", "w_b", "w_c", "w_step", "b_step", "d")}
    taps, bias = np.asarray(layer.short.weight), np.asarray(layer.short.bias)
    channels = taps.shape[1]
    seen, h, outputs = [np.zeros(channels)] * len(taps), np.zeros((channels, STATES)), []
    if state is not None:
        seen, h = [seen[0], *state[0]], state[1].reshape(h.shape).copy()
    for u, step in zip(np.asarray(inputs), dt, strict=True):
        both = u @ np.asarray(layer.into)
        x, z = both[:channels], both[channels:]
        seen = [*seen[1:], x]
        x = silu(sum(tap * value for tap, value in zip(taps, seen, strict=True)) + bias)
        delta = step * np.log1p(np.exp(x @ w["w_delta"] @ w["w_step"] + w["b_step"]))
        b, c = x @ w["w_b"], x @ w["w_c"]
        y = np.zeros(channels)
        for i in range(channels):
            for n in range(STATES):
                h[i, n] = np.exp(-delta[i] * np.exp(w["a"][i, n])) * h[i, n] + delta[i] * b[n] * x[i]
            y[i] = c @ h[i] + w["d"][i] * x[i]
        outputs.append((y * silu(z)) @ np.asarray(layer.out))
    return np.stack(outputs), (np.array(seen[1:]), h.reshape(-1))


@pytest.mark.parametrize("pieces", [(2, 7, 12), pytest.param((), marks=pytest.mark.slow)])
def test_it_is_what_the_equations_say(pieces):
    """As a whole, and in pieces, of which the first is shorter than the convolution; with irregular steps, and masked ones
    anywhere, which are ignored: of the second sample all of the first piece."""
    layer, (inputs, dt) = make(), given()
    valid = MASK & (np.arange(STEPS) >= [[0], [2]]).T
    filled = np.where(valid[..., None], inputs, np.nan)
    state: Any = None
    parts = []
    for start, end in itertools.pairwise((0, *pieces, STEPS)):
        piece, now, mask = (jnp.asarray(a[start:end]) for a in (filled, np.asarray(dt), valid))
        outputs, state, _ = run(layer, piece, dt=now, mask=mask, state=state)
        parts.append(outputs)
    outputs = np.concatenate(parts)
    for i in range(2):
        want, last = loop(layer, inputs[valid[:, i], i], np.asarray(dt)[valid[:, i], i])
        assert distance(outputs[valid[:, i], i], want) < 1e-12
        for a, b in zip(state, last, strict=True):
            assert distance(a[i], b) < 1e-12


@pytest.mark.slow
@pytest.mark.parametrize("options", [{"conv": 1, "expand": 1}, {"conv": 2, "expand": 3}])
def test_options(options):
    layer, (inputs, _) = make(**options), given()
    found = run(layer, inputs)
    want, last = loop(layer, inputs[:, 1], np.ones(STEPS))
    assert distance(found.outputs[:, 1], want) < 1e-12 and distance(found.state.cell[1], last[1]) < 1e-12
    assert distance(run(layer, inputs, solver=DEER()).outputs, found.outputs) < 1e-12
    assert found.state.inputs.shape == (2, options["conv"] - 1, options["expand"] * WIDTH)


def test_the_published_sizes():
    """Of mamba_ssm at 64 features, 16 states, 4 steps and an expansion of 2."""
    layer = jax.eval_shape(lambda: Mamba(64, 16, key=jax.random.key(0)))
    count = sum(a.size for a in jax.tree.leaves(eqx.filter(layer, lambda a: hasattr(a, "size"))))
    into, conv, x, step, a_and_d, out = 64 * 256, 128 * 5, 128 * (4 + 32), 4 * 128 + 128, 128 * 17, 128 * 64
    assert count == into + conv + x + step + a_and_d + out


def test_gradients(monkeypatch):
    """Against differences, with the states of only a few steps in memory at a time."""
    for module in (base, system):
        monkeypatch.setattr(module, "CHUNK_ELEMENTS", 96)
    layer, (inputs, dt) = make(), given()
    rng = np.random.default_rng(2)
    cotangent = normal(rng, inputs.shape, jnp.float64)
    learned, rest = eqx.partition(layer, eqx.is_inexact_array)
    mask = jnp.asarray(MASK)
    start = MambaState(normal(rng, (2, 3, 2 * WIDTH), jnp.float64), normal(rng, (2, 2 * WIDTH * STATES), jnp.float64))

    @jax.jit
    @functools.partial(jax.value_and_grad, argnums=(0, 1, 2, 3))
    def value(learned, inputs, dt, state):
        inputs = jnp.where(mask[..., None], inputs, jnp.nan)
        outputs = run(eqx.combine(learned, rest), inputs, state, dt=dt, mask=mask).outputs
        return jnp.sum(jnp.where(mask[..., None], outputs * cotangent, 0))

    point = learned, inputs, dt, start
    direction = jax.tree.map(lambda a: normal(rng, a.shape, a.dtype), point)
    middle, gradient = value(*point)
    slope = sum(np.vdot(g, d) for g, d in zip(*map(jax.tree.leaves, (gradient, direction)), strict=True))
    ahead = value(*jax.tree.map(lambda a, d: np.asarray(a) + 1e-6 * np.asarray(d), point, direction))[0]
    behind = value(*jax.tree.map(lambda a, d: np.asarray(a) - 1e-6 * np.asarray(d), point, direction))[0]
    np.testing.assert_allclose((ahead - behind) / 2e-6, slope, rtol=1e-6)
    want = 0.0
    for i in range(2):
        valid, before = MASK[:, i], tuple(np.asarray(part[i]) for part in start)
        outputs, _ = loop(layer, inputs[valid, i], np.asarray(dt)[valid, i], before)
        want += np.sum(outputs * np.asarray(cotangent)[valid, i])
    np.testing.assert_allclose(middle, want, rtol=1e-12)


def training_memory(steps, batch, states):
    """Bytes that a gradient needs besides inputs and outputs, and those of the states of all steps."""
    layer = Mamba(4, states, key=jax.random.key(0))
    learned, rest = eqx.partition(layer, eqx.is_inexact_array)
    loss = lambda learned, inputs: jnp.sum(run(eqx.combine(learned, rest), inputs).outputs ** 2)
    inputs = jax.ShapeDtypeStruct((steps, batch, 4), jnp.float64)
    compiled = jax.jit(jax.grad(loss, (0, 1))).lower(learned, inputs).compile()
    analysis = compiled.memory_analysis()
    assert analysis is not None
    return analysis.temp_size_in_bytes, steps * batch * 8 * states * 8


@pytest.mark.parametrize(("steps", "batch"), [(512, 64), pytest.param(2048, 2, marks=pytest.mark.slow)])
def test_training_does_not_keep_the_states_of_all_steps(steps, batch):
    """Neither for long sequences nor for batches of which one step's states fill what is worked on at a time."""
    needed, all_states = training_memory(steps, batch, 128)
    assert needed < 0.4 * all_states


@pytest.mark.slow
def test_padding_changes_nothing():
    """Not one bit of outputs and gradients; and a padded sequence gives what it gives alone."""
    config = ModelConfig(
        input_dim=3,
        output_dim=2,
        hidden_dim=4,
        state_dim=4,
        num_blocks=1,
        cell="Mamba",
        bidirectional=True,
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
    with pytest.raises(ValueError, match="Mamba got conv=0; give a whole number of at least 1"):
        Mamba(3, 4, conv=0, key=jax.random.key(0))
