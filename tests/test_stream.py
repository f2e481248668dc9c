"""Streams: one sample at a time gives the outputs of the whole sequence, and streams are independent."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from cases import distance, normal
from hypothesis import given, settings, strategies as st
from jax import lax

from lrcssm import FileError, ModelConfig, SequenceModel, cells
from lrcssm.models import ARCHITECTURES, Stream
from lrcssm.models.step import start

SMALL = {"input_dim": 3, "output_dim": 2, "hidden_dim": 8, "state_dim": 6, "num_blocks": 2}
# What is remembered besides the states of the blocks.
VARIANTS = {
    "mean": {"norm": "batch"},
    "last": {"pool": "last", "differences": True},
    "mean-max-std": {"pool": "mean-max-std", "layout": "post-norm"},
    "attention": {"pool": "attention", "task": "regress"},
    "logits": {"pool": "logits", "layout": "released", "mixer": "mlp", "cell_options": {"form": "released"}},
    "forecast": {"task": "forecast", "encoder": "linear"},
    "per-step differences": {"task": "per-step", "differences": True},
    "patch": {"patch": 4, "differences": True},
    "bare": {"layout": "bare", "encoder": "none", "cell_options": {"complex_parameters": "gk"}},
}
WHOLE = {
    "is bidirectional": {"bidirectional": True},
    "sees the share of time": {"include_time": True},
    "scales each sequence": {"standardise": "case"},
    "into windows": {"signature": {"windows": 3}},
    "convolves a sequence": {"cell": "Hyena"},
    "keeps nothing": ARCHITECTURES["transformer"],
}


def make(**changes):
    model = SequenceModel(ModelConfig(**(SMALL | changes)), jax.random.key(0))
    return model.with_statistics(0.1, [1.0, 2.0, 3.0], 0.5, -1.0, 2.0)


def numbers(*shape, seed=0):
    return normal(np.random.default_rng(seed), shape, jnp.float64)


@eqx.filter_jit
def by_steps(model, inputs, dt=None):
    """The outputs after each step, by `SequenceModel.step` alone."""

    def step(state, now):
        outputs, state = model.step(now[0], state, dt=now[1])
        return state, outputs

    return lax.scan(step, start(model, inputs.shape[1:-1]), (inputs, dt))[1]


@eqx.filter_jit
def so_far(model, inputs, dt=None):
    """The outputs for the first 1, 2, ... steps, each by a call for all of them; for `task="per-step"` by one call."""
    if model.config.task == "per-step":
        return model(inputs, dt=dt, throw=False)[0]
    length, outer = inputs.shape[0], inputs.shape[1:-1]

    def first(steps):
        mask = jnp.broadcast_to((jnp.arange(length) < steps).reshape(-1, *(1,) * len(outer)), (length, *outer))
        return model(inputs, dt=dt, mask=mask, throw=False)[0]

    return lax.map(first, 1 + jnp.arange(length))


@pytest.mark.parametrize(
    "cell",
    [pytest.param(n, marks=[] if n == "LSTM" else pytest.mark.slow) for n in (*cells.ALL, "Mamba")],
)
@pytest.mark.parametrize("task", ["per-step", pytest.param("classify", marks=pytest.mark.slow)])
def test_steps_give_what_the_whole_gives(cell, task):
    model = make(cell=cell, task=task)
    inputs, dt = numbers(12, 2, 3), jnp.asarray(np.random.default_rng(1).uniform(0.2, 1.0, (12, 2)))
    assert distance(by_steps(model, inputs, dt), so_far(model, inputs, dt)) < 1e-10


QUICK = ("logits", "patch")


@pytest.mark.parametrize("name", [pytest.param(n, marks=[] if n in QUICK else pytest.mark.slow) for n in VARIANTS])
@pytest.mark.parametrize("timed", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_every_head(name, timed):
    model = make(**VARIANTS[name])
    inputs = numbers(11, 2, 3)
    dt = jnp.asarray(np.random.default_rng(1).uniform(0.2, 1.0, (11, 2))) if timed else None
    want, got = so_far(model, inputs, dt), by_steps(model, inputs, dt)
    if model.config.patch > 1:  # what it knew after the last full patch
        assert jnp.isnan(got[:3]).all()
        want, got = want[jnp.array([3, 3, 3, 3, 7, 7, 7, 7])], got[3:]
    assert distance(got, want) < 1e-10


def test_a_step_is_the_same_under_vmap_and_without_a_state():
    model = make(differences=True, num_blocks=1)
    inputs = numbers(4, 5, 3)
    step = eqx.filter_jit(model.step)
    outputs, state = step(inputs[0])
    alone = by_steps(model, inputs)
    assert distance(outputs, alone[0]) < 1e-12 and distance(step(inputs[1], state)[0], alone[1]) < 1e-12
    mapped = eqx.filter_jit(jax.vmap(lambda x: by_steps(model, x), in_axes=1, out_axes=1))(inputs)
    assert distance(mapped, alone) < 1e-12


@pytest.mark.parametrize("reason", WHOLE)
def test_who_must_see_everything_says_so(reason):
    # Shapes are enough, and need no compilation.
    model = eqx.filter_eval_shape(lambda: SequenceModel(ModelConfig(**(SMALL | WHOLE[reason])), jax.random.key(0)))
    for ask in (lambda: model.step(jnp.ones(3)), model.stream):
        with pytest.raises(
            ValueError,
            match=f"step cannot be used with this model, because it .*{reason}.*; call the model with all steps",
        ):
            ask()


@pytest.fixture(scope="module")
def classifier():
    return make(patch=2, num_blocks=1, differences=True)


def test_a_stream_gives_what_steps_give(classifier, tmp_path):
    inputs = np.asarray(numbers(9, 3))
    want = by_steps(classifier, jnp.asarray(inputs))
    stream = classifier.stream()
    assert np.isnan(stream.probabilities).all()
    got = [stream.push(sample) for sample in inputs]
    assert distance(got[1:], want[1:]) < 1e-12 and stream.steps == 9 and stream.nbytes < 4096
    logits = np.asarray(want[-1])
    assert distance(stream.probabilities, np.exp(logits) / np.exp(logits).sum()) < 1e-12

    # Saved in the middle of a patch, it goes on as if nothing had happened.
    path = tmp_path / "state"
    stream.save(path)
    state = stream.state
    after = [stream.push(sample) for sample in inputs]
    stream.reset()
    assert stream.steps == 0 and np.isnan(stream.outputs).all()
    assert distance(np.array([stream.push(sample) for sample in inputs])[1:], want[1:]) < 1e-12
    stream.restore(path)
    assert stream.steps == 9 and distance(stream.outputs, want[-1]) < 1e-12
    np.testing.assert_array_equal([stream.push(sample) for sample in inputs], after)
    assert distance(classifier.step(jnp.asarray(inputs[0]), state)[0], after[0]) < 1e-12


def test_time_is_heeded(classifier):
    stream, inputs, dt = classifier.stream(), numbers(4, 3), jnp.array([0.5, 2.0, 0.1, 0.3])
    got = [stream.push(np.asarray(sample), dt=float(time)) for sample, time in zip(inputs, dt, strict=True)]
    assert distance(got[3], by_steps(classifier, inputs, dt)[3]) < 1e-12
    assert distance(got[3], by_steps(classifier, inputs, jnp.ones(4))[3]) > 1e-6


def test_files_of_others_are_refused(classifier, tmp_path):
    stream = classifier.stream()
    stream.save(tmp_path / "state")
    with pytest.raises(FileError, match="another model"):
        make(patch=2, num_blocks=1).stream().restore(tmp_path / "state")
    with pytest.raises(FileError, match="holds None streams"):
        classifier.stream(3).restore(tmp_path / "state")
    (tmp_path / "state").write_bytes((tmp_path / "state").read_bytes()[:-1])
    with pytest.raises(FileError, match="cut off"):
        stream.restore(tmp_path / "state")


def test_mistakes_change_nothing(classifier):
    stream, many = classifier.stream(), classifier.stream(3)
    for mistake, text in [
        (lambda: stream.push(np.ones(4)), r"shape \(4,\); expected \(3,\)"),
        (lambda: stream.push([1.0, np.nan, 2.0]), "not finite"),
        (lambda: stream.push(np.ones(3), dt=-1.0), "above 0"),
        (lambda: stream.push(np.ones(3), dt=[1.0]), "expected a scalar"),
        (lambda: stream.push(np.ones((1, 3)), which=[0]), "there is only one"),
        (lambda: many.push(np.ones((2, 3)), which=[0, 3]), "from 0 to 2"),
        (lambda: many.push(np.ones((2, 3)), which=[0, 0]), "one sample at a time"),
        (lambda: many.push(np.ones((1, 3)), which=[0.5]), "whole numbers"),
        (lambda: many.push(np.ones((3, 2))), r"expected \(3, 3\)"),
        (lambda: classifier.stream(0), "at least 1"),
        (lambda: make(task="regress").stream().probabilities, "not classes; read outputs instead"),
        (lambda: classifier.step(jnp.ones(2)), r"expected \(\.\.\., 3\)"),
    ]:
        with pytest.raises(ValueError, match=text):
            mistake()
    assert stream.steps == 0 and not many.steps.any()
    assert many.push(np.ones((0, 3)), which=[]).shape == (0, 2)


@pytest.fixture(scope="module")
def together(classifier) -> Stream:
    return classifier.stream(4)


# Which streams go on, or start again.
moves = st.lists(st.tuples(st.sets(st.integers(0, 3)), st.sampled_from(["push", "push", "push", "reset"])), max_size=20)


@given(moves=moves, seed=st.integers(0, 100))
@settings(max_examples=15)
def test_no_stream_sees_another(classifier, together, moves, seed):
    rng = np.random.default_rng(seed)
    together.reset()
    seen = [[] for _ in range(4)]
    for chosen, what in moves:
        which = rng.permutation(sorted(chosen)).astype(int)
        if what == "reset":
            together.reset(which)
            for i in which:
                seen[i] = []
            continue
        samples, dt = rng.normal(size=(len(which), 3)), rng.uniform(0.2, 1.0, len(which))
        outputs = together.push(samples, dt, which=which)
        for i, sample, time, output in zip(which, samples, dt, outputs, strict=True):
            seen[i].append((sample, time, output))
    inputs, times = np.zeros((20, 4, 3)), np.ones((20, 4))
    for i, steps in enumerate(seen):
        for t, (sample, time, _) in enumerate(steps):
            inputs[t, i], times[t, i] = sample, time
    want = by_steps(classifier, jnp.asarray(inputs), jnp.asarray(times))
    for i, steps in enumerate(seen):
        assert together.steps[i] == len(steps)
        got = np.array([output for _, _, output in steps]).reshape(-1, 2)
        np.testing.assert_allclose(got, want[: len(steps), i], rtol=0, atol=1e-12)
        np.testing.assert_array_equal(together.outputs[i], got[-1] if steps else np.full(2, np.nan))


def test_a_thousand_streams_of_different_lengths():
    model = make(num_blocks=1, encoder="linear", layout="plain", mixer="none")
    rng = np.random.default_rng(0)
    lengths = rng.integers(1, 13, 1000)
    inputs = rng.normal(size=(12, 1000, 3))
    mask = np.arange(12)[:, None] < lengths
    want = eqx.filter_jit(lambda x, m: model(x, mask=m, throw=False)[0])(jnp.asarray(inputs), jnp.asarray(mask))
    streams, position = model.stream(1000), np.zeros(1000, int)
    while (position < lengths).any():
        waiting = np.flatnonzero(position < lengths)
        which = rng.permutation(waiting)[:256]
        streams.push(inputs[position[which], which], which=which)
        position[which] += 1
    np.testing.assert_array_equal(streams.steps, lengths)
    assert distance(streams.outputs, want) < 1e-12
