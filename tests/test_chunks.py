"""A sequence in chunks has the outputs, gradients and states of the whole sequence."""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from cases import distance, normal

from lrcssm import DEER, ModelConfig, SequenceModel, Sequential, Sharded, SolveError
from lrcssm.models import make_plan, plan, trainable
from lrcssm.training import TrainingConfig, make_mesh

SMALL = {"input_dim": 3, "output_dim": 2, "hidden_dim": 6, "state_dim": 4, "num_blocks": 2, "cell": "GRU"}
VARIANTS = {
    "mean": {},
    "released": {"layout": "released", "mixer": "mlp", "pool": "logits", "cell": "LRC"},
    "mean-max-std, differences, dropout": {"pool": "mean-max-std", "differences": True, "dropout": 0.5},
    "last, patches, time": {"pool": "last", "patch": 2, "include_time": True},
    "attention": {"pool": "attention", "layout": "post-norm"},
    "per step": {"task": "per-step", "cell": "LSTM"},
    "Mamba": {"cell": "Mamba", "layout": "pre-norm", "final_norm": True, "pool": "mean"},
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
        a, b = (np.asarray(one, float) for one in (a, b))
        assert distance(a, b) < 1e-10 or max(np.max(np.abs(a)), np.max(np.abs(b))) < 1e-15  # that is zero


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
        return make_plan(model, jnp.zeros((length, 2, 3)), chunk=chunk, training=training).chunk

    assert chosen(100) is None and chosen(100, 10) == 10 and chosen(100, 100) is None and chosen(100, None) is None
    monkeypatch.setattr(plan, "LONG", 1000)
    monkeypatch.setattr(plan, "chunk_length", lambda length, each, size: 17)
    assert chosen(100) == 17 and chosen(100, bidirectional=True) is None
    batch = {"norm": "batch", "layout": "pre-norm"}
    assert chosen(100, **batch) == 17 and chosen(100, **batch, training=True) is None
    assert chosen(100, cell="Hyena") is None
    for fields, training, reason in (
        ({"bidirectional": True}, False, "but it is bidirectional; give chunk=None"),
        (batch, True, "normalises over all steps of a batch"),
        ({"cell": "Hyena"}, False, "convolves a sequence as a whole"),
    ):
        with pytest.raises(ValueError, match=reason):
            chosen(100, 10, training, **fields)
    with pytest.raises(ValueError, match="chunk=0; give a whole number"):
        chosen(100, 0)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["bidirectional", "norm", "Hyena", "sharded"])
def test_what_cannot_be_in_chunks_is_computed_again(monkeypatch, kind):
    """The blocks of a very long input keep nothing inside them but states, or nothing at all, and nothing else changes."""
    fields = {
        "bidirectional": {"bidirectional": True},
        "norm": {"norm": "batch", "layout": "pre-norm"},
        "Hyena": {"cell": "Hyena"},
    }.get(kind, {})
    model = SequenceModel(ModelConfig(**(SMALL | fields | {"num_blocks": 4, "dropout": 0.3})), jax.random.key(0))
    inputs = normal(np.random.default_rng(0), (3000, 2, 3), jnp.float64)
    solver = Sharded(make_mesh(1, 2)) if kind == "sharded" else Sequential()

    def total(model, inputs):
        outputs, _, passed = model.run(inputs, key=jax.random.key(1), throw=False, solver=solver)
        return jnp.sum(outputs**2), [left.norm for left in passed]

    def measured(long, kept):
        monkeypatch.setattr(plan, "VERY_LONG", long)
        monkeypatch.setattr(plan, "KEPT", kept)
        step = eqx.filter_jit(eqx.filter_value_and_grad(lambda *given: total(*given), has_aux=True))
        return step(model, inputs), step.lower(model, inputs).compile().compiled.memory_analysis().temp_size_in_bytes

    whole, memory = measured(10**9, 0)
    for kept in (0, 10**9):
        again, less = measured(100, kept)
        for a, b in zip(jax.tree.leaves(whole), jax.tree.leaves(again), strict=True):
            assert distance(a, b) < 1e-10
        assert less < 0.7 * memory


def test_blocks_that_differ_are_not_a_loop():
    make = lambda **fields: SequenceModel(ModelConfig(**(SMALL | fields)), jax.random.key(0)).blocks
    assert plan.alike(make(), 6) and plan.alike(make(state_dim=6, layout="bare"), 6)
    assert not plan.alike(make(layout="bare"), 6) and not plan.alike((*make(), *make(state_dim=5)), 6)


@pytest.mark.slow
def test_truncated_gradients_are_those_of_the_pieces():
    model = SequenceModel(ModelConfig(**SMALL, task="per-step"), jax.random.key(0))
    inputs = normal(np.random.default_rng(0), (15, 2, 3), jnp.float64)
    learned, rest = eqx.partition(model, trainable(model))

    @eqx.filter_jit
    @eqx.filter_value_and_grad
    def at_once(learned):
        return jnp.sum(eqx.combine(learned, rest)(inputs, truncate=6, solver=Sequential())[0] ** 2)

    @eqx.filter_jit
    @eqx.filter_value_and_grad
    def piece_by_piece(learned):
        model, state, total = eqx.combine(learned, rest), None, 0.0
        for part in (inputs[:6], inputs[6:12], inputs[12:]):
            outputs, state = model(part, state=jax.lax.stop_gradient(state), solver=Sequential())
            total = total + jnp.sum(outputs**2)
        return total

    whole = eqx.filter_jit(eqx.filter_grad(lambda l: jnp.sum(eqx.combine(l, rest)(inputs)[0] ** 2)))(learned)
    (a, cut), (b, pieces) = at_once(learned), piece_by_piece(learned)
    assert distance(a, b) < 1e-12
    for one, other in zip(jax.tree.leaves(cut), jax.tree.leaves(pieces), strict=True):
        assert distance(one, other) < 1e-10
    apart = [distance(a, b) for a, b in zip(jax.tree.leaves(cut), jax.tree.leaves(whole), strict=True)]
    assert max(apart) > 1e-3
    with pytest.raises(ValueError, match="TrainingConfig got truncate=0"):
        TrainingConfig(truncate=0)
    with pytest.raises(ValueError, match="truncate=4, but it is bidirectional"):
        bidirectional = SequenceModel(ModelConfig(**SMALL, bidirectional=True), jax.random.key(0))
        bidirectional(inputs, truncate=4)


@pytest.mark.slow
def test_bfloat16_is_close_and_stays_inside():
    """Products of rounded factors: three digits; and everything that can be seen is in float32."""
    config = ModelConfig(**(SMALL | {"matmul": "bfloat16", "cell": "LRC"}))
    with jax.enable_x64(False):
        model = SequenceModel(config, jax.random.key(0))
        inputs = normal(np.random.default_rng(0), (9, 2, 3), jnp.float32)

        @eqx.filter_jit
        @eqx.filter_value_and_grad(has_aux=True)
        def total(learned, rest):
            outputs, state = eqx.combine(learned, rest)(inputs)
            return jnp.sum(outputs**2), (outputs, state)

        exact = SequenceModel(dataclasses.replace(config, matmul="float32"), jax.random.key(0))
        rounded, plain = (total(*eqx.partition(one, trainable(one))) for one in (model, exact))
    assert all(leaf.dtype == jnp.float32 for leaf in jax.tree.leaves(rounded))
    for a, b in zip(jax.tree.leaves(rounded), jax.tree.leaves(plain), strict=True):
        assert distance(a, b) < 0.05
    assert distance(rounded[0][1][0], plain[0][1][0]) > 1e-5


@pytest.mark.slow
def test_differences_across_calls():
    """The first difference of a piece is to the sample before it, and 0 where that was not valid or was not there."""
    model = SequenceModel(ModelConfig(**SMALL, task="per-step", differences=True), jax.random.key(0))
    inputs = normal(np.random.default_rng(0), (12, 3, 3), jnp.float64)
    mask = jnp.ones((12, 3), bool).at[5, 1].set(False).at[6, 2].set(False)
    whole, _ = model(inputs, mask=mask)
    for cut in (6, 7):
        first, state = model(inputs[:cut], mask=mask[:cut])
        second, _ = model(inputs[cut:], mask=mask[cut:], state=state)
        pieces = jnp.where(mask[..., None], jnp.concatenate([first, second]), whole)
        assert distance(pieces, whole) < 1e-12


@pytest.mark.parametrize("chunk", [3, *(pytest.param(chunk, marks=pytest.mark.slow) for chunk in (None, 2, 4))])
def test_truncation_in_chunks(chunk):
    """Gradients end at the given step, for any size of chunks."""
    model = SequenceModel(ModelConfig(**SMALL), jax.random.key(0))
    inputs = normal(np.random.default_rng(0), (15, 2, 3), jnp.float64)
    learned, rest = eqx.partition(model, trainable(model))

    @eqx.filter_jit
    def gradient(learned, chunk):
        run = lambda learned: jnp.sum(eqx.combine(learned, rest)(inputs, truncate=6, chunk=chunk)[0] ** 2)
        return eqx.filter_grad(run)(learned)

    for a, b in zip(*map(jax.tree.leaves, (gradient(learned, 100), gradient(learned, chunk))), strict=True):
        assert distance(a, b) < 1e-10


def test_what_cannot_be_a_chunk():
    model, inputs = SequenceModel(ModelConfig(**SMALL), jax.random.key(0)), jnp.zeros((5, 3))
    with pytest.raises(ValueError, match='The model got chunk=0; give a whole number of at least 1, "auto" or None'):
        model(inputs, chunk=0)
    with pytest.raises(ValueError, match="The model got truncate=0; give a whole number of at least 1, or None"):
        model(inputs, truncate=0)


def test_states_of_calls_and_of_steps_are_told_apart():
    model, inputs = SequenceModel(ModelConfig(**SMALL), jax.random.key(0)), jnp.zeros((5, 3))
    with pytest.raises(TypeError, match="ModelState"):
        model.step(inputs[0], model(inputs)[1])
    with pytest.raises(TypeError, match="StepState"):
        model(inputs, state=model.step(inputs[0])[1])


def test_a_failure_in_a_loop_is_a_sentence():
    model = SequenceModel(ModelConfig(**SMALL), jax.random.key(0))
    with pytest.raises(SolveError, match="hold NaN or infinity"):
        model(jnp.full((6, 3), jnp.nan), chunk=2)


def test_devices_that_share_the_batch_take_chunks():
    model = SequenceModel(ModelConfig(**SMALL), jax.random.key(0))
    inputs = normal(np.random.default_rng(0), (12, 4, 3), jnp.float64)
    many = eqx.filter_jit(lambda model, inputs: model(inputs, chunk=5, solver=Sharded(make_mesh(2, 1)))[0])
    assert distance(many(model, inputs), model(inputs)[0]) < 1e-12
    with pytest.raises(ValueError, match="each of which has its own part of time"):
        model(inputs, chunk=5, solver=Sharded(make_mesh(1, 2)))
