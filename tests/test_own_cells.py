"""User-defined cells: once registered, they work in models, estimators and files."""

import inspect

import equinox as eqx
import jax
import jax.numpy as jnp
import jaxtyping
import numpy as np
import pytest

from lrcssm import FileError, LrcSSMClassifier, ModelConfig, SequenceModel, cells, load, save
from lrcssm.models import LAYERS

SMALL = {"input_dim": 2, "output_dim": 3, "hidden_dim": 4, "state_dim": 5, "num_blocks": 1}


class Leaky(cells.Cell):
    rate: jax.Array
    weight: jax.Array
    input_dim: int = eqx.field(static=True)
    state_dim: int = eqx.field(static=True)

    def __init__(self, input_dim, state_dim, *, key, scale=1.0):
        self.input_dim, self.state_dim = input_dim, state_dim
        self.rate = jnp.zeros(state_dim)
        self.weight = scale * jax.random.normal(key, (input_dim, state_dim))

    def drive(self, inputs):
        return inputs @ self.weight

    def step(self, state, drive, dt=1.0):
        return state + dt * jax.nn.sigmoid(self.rate) * (jnp.tanh(drive) - state)


class Scaled(Leaky):
    def __init__(self, input_dim, state_dim, *, key, **options):
        super().__init__(input_dim, state_dim, key=key, **options)


class Needy(Leaky):
    def __init__(self, input_dim, state_dim, units, *, key):
        super().__init__(input_dim, state_dim, key=key)


class Odd(Leaky):
    def __init__(self, n, m, *, key):
        super().__init__(n, m, key=key)


class Half(cells.Cell):
    input_dim: int = eqx.field(static=True)
    state_dim: int = eqx.field(static=True)

    def drive(self, inputs):
        return inputs


@pytest.fixture
def unchecked_types():
    """Users run without the type checker of these tests."""
    before = jaxtyping.config.jaxtyping_disable
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", before)


@pytest.fixture(autouse=True)
def leave_nothing():
    """Remove the cells that a test registered."""
    yield
    cells.REGISTERED.clear()


def sentence(error):
    text = str(error.value)
    assert text.endswith(".") and "\n" not in text and len(text) < 500
    return text


def test_a_model_learns_with_it(defaults):
    assert cells.register(Leaky) is Leaky and "Leaky" not in cells.ALL
    config = ModelConfig(**SMALL, cell="Leaky", cell_options={"scale": 0.5}, bidirectional=True)
    assert ModelConfig.from_json(config.to_json()) == config
    model = SequenceModel(config, jax.random.key(0))
    assert isinstance(model.blocks[0].layer.cell, Leaky)
    inputs = jax.random.normal(jax.random.key(1), (12, 6, 2))

    @eqx.filter_jit
    @eqx.filter_value_and_grad
    def loss(model):
        return jnp.mean((model(inputs)[0] - 1) ** 2)

    before, gradient = loss(model)
    assert jnp.any(gradient.blocks[0].layer.cell.rate != 0)
    after, _ = loss(eqx.apply_updates(model, jax.tree.map(lambda g: -0.05 * g, gradient)))
    assert after < before


def test_an_estimator_and_its_file(tmp_path, defaults):
    cells.register(Leaky)
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(12, 2, 9)).astype(np.float32), np.arange(12) % 2
    fitted = LrcSSMClassifier(
        cell="Leaky", hidden_dim=4, state_dim=5, num_blocks=1, steps=2, batch=4, random_state=0
    ).fit(X, y)
    path = tmp_path / "leaky.lrcssm"
    fitted.save(path)
    np.testing.assert_array_equal(LrcSSMClassifier.load(path).predict_proba(X), fitted.predict_proba(X))
    del cells.REGISTERED["Leaky"]
    with pytest.raises(FileError, match="import the module that registers it") as error:
        LrcSSMClassifier.load(path)
    assert "'Leaky'" in sentence(error)


def test_a_file_holds_the_name_alone(tmp_path):
    cells.register(Leaky, name="mine")
    model = SequenceModel(ModelConfig(**SMALL, cell="mine"), jax.random.key(0))
    path = tmp_path / "model.lrcssm"
    save(path, model)
    for a, b in zip(jax.tree.leaves(load(path).model), jax.tree.leaves(model), strict=True):
        np.testing.assert_array_equal(a, b)
    cells.REGISTERED.clear()
    with pytest.raises(FileError, match="import the module that registers it") as error:
        load(path)
    assert "'mine'" in sentence(error)


def test_options_are_those_of_the_constructor():
    cells.register(Leaky)
    with pytest.raises(ValueError, match="Leaky has scale"):
        ModelConfig(**SMALL, cell="Leaky", cell_options={"rho": 0.9})
    cells.register(Scaled)  # takes **options, so it judges them itself
    assert SequenceModel(ModelConfig(**SMALL, cell="Scaled", cell_options={"scale": 0.0}), jax.random.key(0))
    with pytest.raises(TypeError):
        SequenceModel(ModelConfig(**SMALL, cell="Scaled", cell_options={"rho": 0.9}), jax.random.key(0))


def test_again_and_under_another_name():
    cells.register(Leaky)
    cells.register(Leaky)
    cells.register(Leaky, name="mine")
    assert set(cells.REGISTERED) == {"Leaky", "mine"}
    anew = type(Leaky)("Leaky", (Leaky,), {"__module__": Leaky.__module__})  # as a notebook does that is run again
    cells.register(anew)
    assert cells.REGISTERED["Leaky"] is anew


@pytest.mark.parametrize(
    ("kind", "words", "call"),
    [
        (TypeError, "derived from lrcssm.cells.Cell", lambda: cells.register(dict)),
        (TypeError, "derived from lrcssm.cells.Cell", lambda: cells.register("Leaky")),
        (TypeError, "does not define step", lambda: cells.register(Half)),
        (TypeError, "must be made by (input_dim, state_dim, *, key)", lambda: cells.register(Needy)),
        (TypeError, "must be made by (input_dim, state_dim, *, key)", lambda: cells.register(Odd)),
        (ValueError, "the name of a built-in cell", lambda: cells.register(Leaky, name="LRC")),
        (ValueError, "the name of a built-in cell", lambda: cells.register(Leaky, name=next(iter(LAYERS)))),
        (ValueError, "at least one letter", lambda: cells.register(Leaky, name=" ")),
        (ValueError, "Leaky has; give another", lambda: cells.register(cells.register(Leaky) and Scaled, name="Leaky")),
        (ValueError, "register your own cell", lambda: ModelConfig(**SMALL, cell="Leaky")),
    ],
)  # fmt: skip
def test_mistakes_say_what_to_do(kind, words, call):
    with pytest.raises(kind) as error:
        call()
    assert words in sentence(error)


def test_a_class_in_the_place_of_its_name(unchecked_types):
    for given, words in (
        (Leaky, 'the class Leaky; register it, lrcssm.cells.register(Leaky), and give its name, cell="Leaky"'),
        (Leaky(2, 3, key=jax.random.key(0)), "the cell Leaky; register it"),
        (cells.LRC, 'the class LRC; give its name, cell="LRC"'),
    ):
        with pytest.raises(ValueError) as error:
            ModelConfig(**SMALL, cell=given)
        assert words in sentence(error)
    with pytest.raises(ValueError, match="register it, lrcssm"):
        LrcSSMClassifier(cell=Leaky).fit(np.zeros((12, 2, 9), np.float32), np.arange(12) % 2)


def test_the_example_of_the_docstring_runs(defaults):
    example = inspect.getdoc(cells.register).partition("```python\n")[2].partition("```")[0]
    exec(compile(example, "register", "exec"), {"__name__": "docstring"})
    assert list(cells.REGISTERED) == ["Leaky"]
