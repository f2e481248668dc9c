"""A memory budget: XLA's plan stays within it, gradients do not change, and impossible budgets raise an error."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from cases import distance, normal

from lrcssm import ModelConfig, SequenceModel, Sharded
from lrcssm.models import Plan, make_plan, plan as planning, trainable
from lrcssm.models.budget import as_bytes, in_words, training_bytes
from lrcssm.training import TrainingConfig, make_mesh
from lrcssm_paper.benchmark.step import arguments, compiled

SMALL = {
    "input_dim": 3,
    "output_dim": 2,
    "hidden_dim": 8,
    "state_dim": 8,
    "num_blocks": 2,
    "cell": "GRU",
    "layout": "plain",
}
RELEASED = {"layout": "released", "mixer": "mlp", "pool": "logits", "cell": "LRC"}
MODELS = {
    "GRU": {},
    "LRC, released": RELEASED,
    "LSTM, pre-norm": {"cell": "LSTM", "layout": "pre-norm"},
    "S5, pre-norm": {"cell": "S5", "layout": "pre-norm"},
    "LRC, bidirectional": {"cell": "LRC", "bidirectional": True, "pool": "mean-max-std"},
    "S5, batch norm": {"cell": "S5", "layout": "pre-norm", "norm": "batch"},
    "LRC, wide": {"cell": "LRC", "hidden_dim": 64, "state_dim": 16, "num_blocks": 4},
    "LRC, many states": RELEASED | {"hidden_dim": 16, "state_dim": 64, "num_blocks": 4},
}
QUICK = ("GRU",)


def make(**fields):
    return SequenceModel(ModelConfig(**(SMALL | fields)), jax.random.key(0))


def given(length, batch=2):
    return jax.ShapeDtypeStruct((length, batch, 3), jnp.result_type(float))


def chosen(model, length, memory, batch=2, **how):
    return make_plan(model, given(length, batch), memory=memory, training=True, **how)


def needed(model, x, plan, **how):
    return training_bytes(model, x, chunk=plan.chunk, kept=plan.kept, **how)


def levels(model, length, batch=2):
    """Plans for budgets from the largest that can be used down to the smallest: of all steps at once or in chunks, with the
    states kept and without, the first; and the last."""
    x, plans = given(length, batch), [chosen(model, length, "1TB", batch=batch)]
    while True:
        try:
            plans.append(chosen(model, length, needed(model, x, plans[-1]) - 1, batch=batch))
        except ValueError:
            break
    kinds = {(plan.chunk is None, plan.kept): plan for plan in reversed(plans)}
    return [(plan, needed(model, x, plan)) for plan in dict.fromkeys([*reversed(kinds.values()), plans[-1]])]


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_the_plan_of_the_compiler_is_within_the_budget(name):
    with jax.enable_x64(False), jax.numpy_dtype_promotion("standard"):
        model, length = make(**MODELS[name]), 3000 if name in QUICK else 20_000
        found = levels(model, length)
        assert len(found) >= 3
        for plan, memory in found:
            takes = compiled(*arguments(model, length, 2, memory=memory)).compiled.memory_analysis()
            planned = takes.temp_size_in_bytes + takes.argument_size_in_bytes + takes.output_size_in_bytes
            assert planned <= memory <= 3.5 * planned, (plan, memory, planned)


@pytest.mark.parametrize("name", [pytest.param(n, marks=[] if n in QUICK else pytest.mark.slow) for n in MODELS])
def test_gradients_are_the_same(name):
    model = make(**MODELS[name], dropout=0.3)
    inputs = normal(np.random.default_rng(0), (300, 2, 3), jnp.float64)

    @eqx.filter_jit
    def gradient(learned, rest, memory):
        def total(learned):
            model = eqx.combine(learned, rest)
            return jnp.sum(model(inputs, key=jax.random.key(1), memory=memory, throw=False)[0] ** 2)

        return eqx.filter_value_and_grad(total)(learned)

    parts = eqx.partition(model, trainable(model))
    plain, found = gradient(*parts, None), levels(model, 300)
    assert len(found) >= 2
    for _, memory in found[1:]:
        for a, b in zip(jax.tree.leaves(plain), jax.tree.leaves(gradient(*parts, memory)), strict=True):
            assert distance(a, b) < 1e-10 or np.max(np.abs(a)) < 1e-15


def test_less_memory_keeps_less():
    model, length = make(hidden_dim=64, state_dim=64), 2**16
    plans = [chosen(model, length, memory) for memory in ("1TB", "400MB", "250MB", "150MB", "50MB")]
    assert plans[0] == Plan()
    assert [plan.kept for plan in plans] == ["all", "states", "states", "nothing", "nothing"]
    sizes = [plan.chunk for plan in plans[1:]]
    assert sizes[0] == planning.CHUNK // (2 * 64) and sizes == sorted(sizes, reverse=True) and sizes[-1] < sizes[2]


def test_what_a_user_gave_is_kept():
    model = make()
    assert chosen(model, 3000, "1GB", chunk=100) == Plan(100, None, "states")
    assert chosen(model, 3000, "1GB", chunk=None) == Plan()
    with pytest.raises(ValueError, match='give more memory, or chunk="auto"'):
        chosen(model, 3000, "1MB", chunk=None)
    plan = chosen(model, 3000, "2MB", truncate=600)
    assert plan.chunk is not None and plan.cut is not None and plan.chunk * plan.cut == 600 and plan.chunk < 600
    inputs = normal(np.random.default_rng(0), (100, 2, 3), jnp.float64)
    assert distance(model(inputs, truncate=20, memory="10MB")[0], model(inputs)[0]) < 1e-12


def test_what_does_not_fit_is_said():
    with pytest.raises(
        ValueError, match=r"got a memory of 100kB for 3,000 steps of a batch of 2, whose .* at least; give more memory"
    ):
        chosen(make(), 3000, "100kB")
    with pytest.raises(
        ValueError, match="at least, since it is bidirectional and cannot take chunks; give more memory"
    ):
        chosen(make(bidirectional=True), 3000, "1MB")
    with pytest.raises(ValueError, match="each of which has its own part of time and cannot take chunks"):
        chosen(make(), 3000, "200kB", solver=Sharded(make_mesh(1, 2)))
    model = make()
    with pytest.raises(ValueError, match="a memory of 1,000 bytes") as error:
        chosen(model, 3000, 1000)
    least = str(error.value).partition("needs about ")[2].split()[0]
    assert isinstance(chosen(model, 3000, least), Plan)


def test_devices_share_what_is_needed():
    model, x, plan = make(), given(3000, 4), Plan()
    whole = needed(model, x, plan)
    for mesh in (make_mesh(2, 1), make_mesh(1, 2)):
        assert needed(model, x, plan, solver=Sharded(mesh)) < 0.7 * whole


@pytest.mark.parametrize(
    "text, count",
    {
        "500MB": 5e8,
        "1.5GB": 1.5e9,
        " 2 GiB ": 2**31,
        "80kB": 8e4,
        "5mb": 5e6,
        "1000": 1000,
        7: 7,
        1e9: 1e9,
        "1G": 1e9,
    }.items(),
)
def test_words_for_bytes(text, count):
    assert as_bytes(text, "The model") == TrainingConfig(memory=text).memory == count
    assert as_bytes(in_words(int(count)), "The model") >= count


@pytest.mark.parametrize("text", ["", "much", "-5MB", "5 apples", 0, -1, float("nan"), float("inf"), True, "0"])
def test_what_is_no_number_of_bytes(text):
    with pytest.raises(ValueError, match=r"TrainingConfig got memory=.*; give a number of bytes, or a text such as"):
        TrainingConfig(memory=text)
    with pytest.raises(ValueError, match="The model got memory="):
        as_bytes(text, "The model")
