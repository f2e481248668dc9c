"""Models: shapes, masks, pieces, presets, and a round trip through JSON."""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from cases import distance, normal

from lrcssm import DEER, ModelConfig, SequenceModel, Sequential
from lrcssm.files import named_leaves
from lrcssm.models import ARCHITECTURES, RELEASED, Context, check_size, parameter_count, trainable
from lrcssm.models.features import Features

SMALL = {"input_dim": 3, "output_dim": 2, "hidden_dim": 8, "state_dim": 6, "num_blocks": 2}
VARIANTS = {
    "default": {},
    "patch": {"patch": 4},
    "plain": {"layout": "plain"},
    "bare": {"layout": "bare", "encoder": "none"},
    "batch norm": {"norm": "batch", "layout": "pre-norm"},
    "final norm": {"final_norm": True, "layout": "pre-norm"},
    "differences and time": {"differences": True, "include_time": True},
    "per case": {"standardise": "case", "encoder": "linear"},
    "mean-max-std": {"pool": "mean-max-std"},
    "attention": {"pool": "attention"},
    "last": {"pool": "last", "differences": True},
    "post-norm": {"layout": "post-norm", "mixer": "mlp"},
    "bidirectional": {"bidirectional": True, "mixer": "none"},
    "per-step": {"task": "per-step"},
    "released": {"layout": "released", "mixer": "mlp", "pool": "logits"},
    "released, equal widths": {"layout": "released", "mixer": "mlp", "pool": "logits", "state_dim": 8},
    "complex": {"cell_options": {"complex_parameters": "gk"}},
}


def make(**changes):
    return SequenceModel(ModelConfig(**(SMALL | changes)), jax.random.key(0))


QUICK = ("default", "patch", "differences and time", "mean-max-std", "bidirectional", "released")


@pytest.mark.parametrize("name", [pytest.param(n, marks=[] if n in QUICK else pytest.mark.slow) for n in VARIANTS])
def test_padding_changes_nothing(name):
    """Not one bit of outputs and gradients; and a padded sequence gives what it gives alone."""
    model = make(**VARIANTS[name])
    inputs = normal(np.random.default_rng(0), (20, 2, 3), jnp.float64)
    mask = jnp.arange(20)[:, None] < jnp.array([20, 12])

    @eqx.filter_jit
    @eqx.filter_value_and_grad(has_aux=True)
    def run(model, inputs):
        outputs, _ = model(inputs, mask=mask, throw=False)
        valid = outputs if outputs.ndim == 2 else jnp.where(mask[..., None], outputs, 0)
        return jnp.sum(valid**2), valid

    clean = run(model, inputs)
    for filling in (jnp.nan, 1e30):
        other = run(model, jnp.where(mask[..., None], inputs, filling))
        for a, b in zip(jax.tree.leaves(clean), jax.tree.leaves(other), strict=True):
            np.testing.assert_array_equal(a, b)
    if not model.config.include_time:  # the share of time is that of the padded length
        alone, _ = model(inputs[:12, 1])
        together = clean[0][1][:12, 1] if alone.ndim == 2 else clean[0][1][1]
        assert distance(together, alone) < 1e-10


@pytest.mark.parametrize("cell", ["LRC", "LSTM"])
def test_pieces_give_what_the_whole_gives(cell):
    model = make(task="per-step", differences=True, cell=cell)
    inputs = normal(np.random.default_rng(0), (24, 2, 3), jnp.float64)
    whole, end = model(inputs)
    state, parts = None, []
    for start in range(0, 24, 8):
        outputs, state = model(inputs[start : start + 8], state=state)
        parts.append(outputs)
    assert distance(jnp.concatenate(parts), whole) < 1e-10
    assert state is not None
    assert distance(state.blocks[1], end.blocks[1]) < 1e-10


def test_solvers_agree_and_dropout_is_only_for_training():
    model = make(dropout=0.5)
    inputs = normal(np.random.default_rng(0), (30, 2, 3), jnp.float64)
    outputs, _ = model(inputs, solver=Sequential())
    assert distance(model(inputs, solver=DEER())[0], outputs) < 1e-10
    dropped, _ = model(inputs, key=jax.random.key(1))
    assert distance(dropped, outputs) > 1e-3
    assert distance(model(inputs, key=jax.random.key(1))[0], dropped) == 0


@pytest.mark.parametrize(
    ("channels", "classes", "sizes", "count"),
    [
        (61, 2, (64, 64, 4), 81282),
        (6, 2, (64, 16, 2), 24034),
        (7, 2, (128, 64, 2), 118402),
        (2, 4, (128, 16, 2), 80292),
        (63, 2, (16, 16, 4), 6530),
        (6, 5, (64, 16, 4), 39365),
    ],
)
def test_parameter_counts_of_the_released_models(channels, classes, sizes, count):
    """The counts of the released code, minus its elastance shift, which no equation uses."""
    fields = dict(zip(("hidden_dim", "state_dim", "num_blocks"), sizes, strict=True))
    config = ModelConfig(**RELEASED, input_dim=channels, output_dim=classes, **fields)
    model = SequenceModel(config, jax.random.key(0))
    assert parameter_count(model) == count - config.num_blocks * config.state_dim


def test_released_block_is_what_it_says():
    """Against plain numpy: normalise, recurrence, mixer, skip, and the average of each step's logits."""
    for state in (6, 8):
        model = make(
            layout="released", mixer="mlp", pool="logits", activation="relu", standardise="none", state_dim=state
        )
        inputs = normal(np.random.default_rng(0), (7, 3), jnp.float64)

        def mlp(layer, x):
            hidden = np.maximum(x @ np.asarray(layer.first.weight) + np.asarray(layer.first.bias), 0)
            return hidden @ np.asarray(layer.second.weight) + np.asarray(layer.second.bias)

        def norm(x):
            x = x - x.mean(-1, keepdims=True)
            return x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-5)

        h = mlp(model.encoder, np.asarray(inputs))
        for block in model.blocks:
            h = norm(h)
            x, states = np.zeros(state), []
            drive = block.layer.cell.drive(jnp.asarray(h))
            for t in range(7):
                x = np.asarray(block.layer.cell.step(jnp.asarray(x), tuple(d[t] for d in drive)))
                states.append(x)
            states = np.stack(states)
            h = norm(mlp(block.mixer, states) + h) if state != 8 else norm(states + h)
            h = h + mlp(block.mixer, h) if state == 8 else h
        want = mlp(model.head, h).mean(0)
        assert distance(model(inputs)[0], want) < 1e-10


@pytest.mark.slow
def test_statistics_are_not_learned():
    model = make().with_statistics([1.0, 2.0, 3.0], 2.0)
    inputs = normal(np.random.default_rng(0), (9, 2, 3), jnp.float64)
    shifted, _ = model(2 * inputs + jnp.array([1.0, 2.0, 3.0]))
    assert distance(shifted, make()(inputs)[0]) < 1e-10
    chosen = trainable(model)
    assert chosen.features.mean is False and chosen.head.weight is True
    gradient = eqx.filter_grad(lambda m: jnp.sum(m(inputs)[0] ** 2))(model)
    assert jnp.all(gradient.features.mean == 0) and jnp.any(gradient.head.weight != 0)


def test_json_and_back():
    for changes in VARIANTS.values():
        config = ModelConfig(**(SMALL | changes))
        assert ModelConfig.from_json(config.to_json()) == config
        hash(config)
    assert config.replace(hidden_dim=9).hidden_dim == 9
    with pytest.raises(dataclasses.FrozenInstanceError):
        config.hidden_dim = 3  # pyright: ignore[reportAttributeAccessIssue]


def test_mistakes_are_explained():
    for text, changes in {
        "cell='LRCC'; give one of LRC": {"cell": "LRCC"},
        "dropout=1.0": {"dropout": 1.0},
        "hidden_dim=0; give a whole number": {"hidden_dim": 0},
        "each step has its own output": {"task": "per-step", "pool": "last"},
        "give patch=1": {"task": "per-step", "patch": 2},
    }.items():
        with pytest.raises(ValueError, match=text):
            ModelConfig(**(SMALL | changes))
    with pytest.raises(ValueError, match="no field colour"):
        ModelConfig.from_json('{"input_dim": 3, "output_dim": 2, "colour": 1}')
    with pytest.raises(ValueError, match=r"expected \(time, ..., 3\)"):
        make()(jnp.ones((5, 4)))
    _, state = make(bidirectional=True)(jnp.ones((5, 3)))
    with pytest.raises(
        ValueError, match="got a state, but it is bidirectional; give it all steps of a sequence at once"
    ):
        make(bidirectional=True)(jnp.ones((5, 3)), state=state)
    _, state = make(patch=4)(jnp.ones((8, 3)))
    with pytest.raises(ValueError, match="multiple of that"):
        make(patch=4)(jnp.ones((5, 3)), state=state)


def test_the_channel_of_time_knows_nothing_of_padding():
    features = Features(ModelConfig(input_dim=1, output_dim=1, include_time=True))
    time = lambda *args: np.asarray(features(*args, None)[0][..., 1])
    np.testing.assert_allclose(time(jnp.ones((4, 1)), None, None), [0, 0.25, 0.5, 0.75])
    mask = jnp.array([[True, False], [True, True], [True, True], [True, False], [False, True]])
    shares = time(jnp.ones((5, 2, 1)), None, mask)
    np.testing.assert_allclose(shares[:, 0][:4], [0, 0.25, 0.5, 0.75])
    np.testing.assert_allclose(shares[:, 1][np.array([1, 2, 4])], [0, 1 / 3, 2 / 3], rtol=1e-12)
    irregular = time(jnp.ones((4, 1)), jnp.array([1.0, 1.0, 10.0, 2.0]), None)
    np.testing.assert_allclose(irregular, np.array([0, 1, 11, 13]) / 14, rtol=1e-12)
    nothing = features(jnp.ones((3, 1, 1)), None, jnp.zeros((3, 1), bool), None)[0]
    assert np.all(np.isfinite(nothing))


@pytest.mark.parametrize("name", ["lrcssm", *(pytest.param(n, marks=pytest.mark.slow) for n in ARCHITECTURES)])
def test_sizes_that_arrays_contradict(name):
    """Found before anything is made for them, and no model is refused with its own arrays."""
    config = ModelConfig(**(SMALL | {"state_dim": 1500, "patch": 2} | ARCHITECTURES[name]))
    arrays = named_leaves(jax.eval_shape(lambda: SequenceModel(config, jax.random.key(0))))
    shapes = {path: leaf.shape for path, leaf in arrays.items()}
    check_size(config, shapes)
    mistakes = {"num_blocks": (1 + config.num_blocks, 10**4, 10**9), "state_dim": (10**9,), "input_dim": (2, 10**9)}
    mistakes |= {"output_dim": (1, 10**9)} | ({} if config.signature else {"patch": (10**9,)})
    if config.encoder != "none":
        mistakes["hidden_dim"] = (7, 10**9)
    for what, values in mistakes.items():
        for value in values:
            with pytest.raises(ValueError, match=f"^It has a configuration with {what}={value}, but "):
                check_size(config.replace(**{what: value}), shapes, "It")
    with pytest.raises(ValueError, match="heads=1000000000, but no dimension"):
        check_size(config.replace(cell="Transformer", cell_options={"heads": 10**9}), shapes)
    if config.signature:
        with pytest.raises(ValueError, match="level=1000000000"):
            check_size(config.replace(signature=dict(config.signature) | {"level": 10**9}), shapes)
    with pytest.raises(ValueError, match="num_blocks=10000, but arrays of 0 blocks"):
        alone = {path: shape for path, shape in shapes.items() if not path.startswith(".blocks")}
        check_size(config.replace(num_blocks=10**4), alone)


def test_the_context_of_reversed_steps():
    """The last step has nothing before it, and every other one the time to the next observed one."""
    mask = jnp.array([True, True, False, True, False])
    dt = jnp.array([5.0, 2.0, 3.0, 4.0, 7.0])
    back = Context(dt, mask, jax.random.key(0)).reversed()
    np.testing.assert_array_equal(back.mask, [False, True, False, True, True])
    observed = np.asarray(back.dt)[np.asarray(back.mask)]
    np.testing.assert_array_equal(observed, [1.0, 4.0, 2.0])
    assert Context(2.0).reversed().dt == 2.0 and Context().keys(3) == (None, None, None)
    assert len({int(jax.random.bits(key)) for key in back.keys(3)}) == 3
