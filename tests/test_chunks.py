"""A sequence in chunks gives what it gives at once: outputs, gradients, states."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from cases import distance, normal

from lrcssm import DEER, ModelConfig, SequenceModel, Sequential
from lrcssm.models import chunks, trainable

SMALL = {"input_dim": 3, "output_dim": 2, "width": 6, "state": 4, "depth": 2, "cell": "GRU"}
VARIANTS = {
    "mean": {},
    "released": {"layout": "released", "mixer": "mlp", "pool": "logits", "cell": "LRC"},
    "mean-max-std, differences, dropout": {"pool": "mean-max-std", "differences": True, "dropout": 0.5},
    "last, patches, time": {"pool": "last", "patch": 2, "time": True},
    "attention": {"pool": "attention", "layout": "post-norm"},
    "per step": {"task": "per-step", "cell": "LSTM"},
    "Mamba": {"cell": "Mamba", "final_norm": True, "pool": "mean"},
    "S6, regression": {"cell": "S6", "task": "regress"},
}
QUICK = ("mean",)


@pytest.mark.parametrize("name", [pytest.param(n, marks=[] if n in QUICK else pytest.mark.slow) for n in VARIANTS])
def test_chunks_give_what_the_whole_gives(name):
    model = SequenceModel(ModelConfig(**(SMALL | VARIANTS[name])), jax.random.key(0)).with_statistics(0.1, 2.0, 0.5)
    inputs = normal(np.random.default_rng(0), (22, 3, 3), jnp.float64)
    mask = jnp.arange(22)[:, None] < jnp.array([22, 4, 13])
    dt = 0.5 + jnp.asarray(np.random.default_rng(1).uniform(size=(22, 3)))

    @eqx.filter_jit
    def run(model, inputs, dt, chunk):
        @eqx.filter_value_and_grad(has_aux=True)
        def total(varied, fixed):
            model, inputs, dt = eqx.combine(varied, fixed)
            outputs, state, passed = model.run(
                inputs, dt=dt, mask=mask, key=jax.random.key(1), throw=False, chunk=chunk, solver=Sequential()
            )
            outputs = outputs if outputs.ndim == 2 else jnp.where(mask[..., None], outputs, 0)
            return jnp.sum(outputs**2), (outputs, state, [left.solution.status for left in passed])

        learned = (trainable(model), True, True)
        return total(*eqx.partition((model, inputs, dt), learned))

    whole, parts = run(model, inputs, dt, None), run(model, inputs, dt, 5)
    for a, b in zip(jax.tree.leaves(whole), jax.tree.leaves(parts), strict=True):
        assert distance(a, b) < 1e-10


@pytest.mark.slow
def test_from_a_state_and_with_newton():
    model = SequenceModel(ModelConfig(**SMALL, task="per-step"), jax.random.key(0))
    inputs = normal(np.random.default_rng(0), (20, 2, 3), jnp.float64)
    whole, end = model(inputs, chunk=None)
    _, state = model(inputs[:6])
    rest, last, passed = model.run(inputs[6:], state=state, chunk=4, solver=DEER())
    assert distance(rest, whole[6:]) < 1e-10 and distance(last.blocks[1], end.blocks[1]) < 1e-10
    assert passed[0].solution is not None and passed[0].solution.iterations.min() >= 1


def test_when(monkeypatch):
    def chosen(length, chunk="auto", training=False, **fields):
        model = SequenceModel(ModelConfig(**(SMALL | fields)), jax.random.key(0))
        return chunks.choose_chunk(model, jnp.zeros((length, 2, 3)), chunk, training)

    assert chosen(100) is None and chosen(100, 10) == 10 and chosen(100, 100) is None and chosen(100, None) is None
    monkeypatch.setattr(chunks, "LONG", 1000)
    monkeypatch.setattr(chunks, "chunk_length", lambda length, each: 17)
    assert chosen(100) == 17 and chosen(100, bidirectional=True) is None
    assert chosen(100, norm="batch") == 17 and chosen(100, norm="batch", training=True) is None
    assert chosen(100, cell="Hyena") is None
    for fields, training, reason in (
        ({"bidirectional": True}, False, "but it is bidirectional; give chunk=None"),
        ({"norm": "batch"}, True, "normalises over all steps of a batch"),
        ({"cell": "Hyena"}, False, "convolves a sequence as a whole"),
    ):
        with pytest.raises(ValueError, match=reason):
            chosen(100, 10, training, **fields)
    with pytest.raises(ValueError, match="chunk=0; give a whole number"):
        chosen(100, 0)


@pytest.mark.slow
def test_what_cannot_be_in_chunks_is_computed_again(monkeypatch):
    """The blocks of a very long input keep nothing inside them, and nothing else changes."""
    model = SequenceModel(ModelConfig(**SMALL, bidirectional=True, dropout=0.3), jax.random.key(0))
    inputs = normal(np.random.default_rng(0), (60, 2, 3), jnp.float64)

    def total(model, inputs):
        return jnp.sum(model(inputs, key=jax.random.key(1), throw=False)[0] ** 2)

    def measured():
        step = eqx.filter_jit(eqx.filter_value_and_grad(lambda model, inputs: total(model, inputs)))
        return step(model, inputs), step.lower(model, inputs).compile().compiled.memory_analysis().temp_size_in_bytes

    (value, gradient), memory = measured()
    monkeypatch.setattr(chunks, "VERY_LONG", 100)
    (again, other), less = measured()
    assert distance(value, again) < 1e-12
    for a, b in zip(jax.tree.leaves(gradient), jax.tree.leaves(other), strict=True):
        assert distance(a, b) < 1e-10
    assert less != memory
