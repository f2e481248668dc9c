"""Errors of estimators are one sentence about the user's arguments, and leave the estimator unchanged."""

import copy
import dataclasses
import importlib.util
import pickle

import jax
import numpy as np
import pytest
from sklearn.base import clone
from test_estimators import FEW, as_a_user_has_it, waves  # noqa: F401

import lrcssm
from lrcssm import LrcSSMClassifier, LrcSSMForecaster, LrcSSMRegressor
from lrcssm.estimators.parameters import given_fields
from lrcssm.training import Facts, TrainingConfig, recipe

ALL = [LrcSSMClassifier, LrcSSMRegressor, LrcSSMForecaster]
FORMS = r"\(n_cases, n_channels, n_timepoints\), \(n_cases, n_timepoints\), or a list of \(n_channels, T_i\)"


@pytest.fixture(scope="module")
def fitted():
    with jax.enable_x64(False), jax.numpy_dtype_promotion("standard"):
        X, y = waves()
        return LrcSSMClassifier(**FEW).fit(X, y), X


def fit(kind, **changes):
    """An estimator with all arguments that `fit` needs, and some changes."""
    given = {name: value for name, value in FEW.items() if name != "bidirectional"} | changes
    return kind(**given).fit(*(waves()[0][:1, :].T,) if kind is LrcSSMForecaster else waves())


def test_shapes_that_do_not_fit(fitted):
    model, X = fitted
    with pytest.raises(ValueError, match="X has 19 features, but LrcSSMClassifier is expecting 20"):
        model.predict(X[:, :-1])
    with pytest.raises(ValueError, match="X has 2 channels, but LrcSSMClassifier was fitted to 1"):
        model.predict(np.stack([X, X], 1))
    with pytest.raises(ValueError, match="Series 1 has 2 channels and series 0 has 1"):
        model.predict([X[:1], X[:2, :5]])
    with pytest.raises(ValueError, match=r"Series 1 has shape \(2, 3, 4\)"):
        model.predict([X[:1], np.ones((2, 3, 4))])
    with pytest.raises(ValueError, match="Series 1 holds NaN"):
        model.predict([X[0], np.full(5, np.nan)])
    with pytest.raises(ValueError, match="There are times, but the data for training had none"):
        model.predict(X, times=np.arange(20))


@pytest.mark.parametrize(
    ("X", "says"),
    [
        (np.ones((6, 1, 1, 4)), r"X has shape \(6, 1, 1, 4\); expected "),
        ([[[[1.0, 2.0]]]] * 6, "X has 4 axes; expected "),
        (np.float64(3), r"X has shape \(\); expected "),
        ([], "X is an empty list; give "),
        (None, "X is None; give "),
    ],
)
def test_shapes_that_are_none(fitted, X, says):
    for call in (lambda: fitted[0].predict(X), lambda: LrcSSMClassifier(**FEW).fit(X, np.arange(6) % 2)):
        with pytest.raises(ValueError, match=says + FORMS):
            call()


def test_one_series_is_not_several(fitted):
    for X, given in ((np.ones(20), r"shape \(20,\)"), ([1.0] * 20, "1 axis")):
        with pytest.raises(ValueError, match=f"X has {given}; expected {FORMS}.* Reshape your data: one series"):
            fitted[0].predict(X)
    with pytest.raises(ValueError, match=r"Series 1 has channels of \(3, 2\) steps; all channels of a series"):
        fitted[0].predict([[[1.0, 2.0, 3.0]], [[1.0, 2.0, 3.0], [1.0, 2.0]]])
    with pytest.raises(ValueError, match=r"X is None; give \(n_timepoints,\), \(n_timepoints, n_channels\)"):
        LrcSSMForecaster().fit(None)


def names(kind):
    return {field.name for field in dataclasses.fields(kind)}


@pytest.mark.parametrize("kind", ALL)
def test_all_fields_can_be_given(kind):
    """As parameters, or in one of the two mappings."""
    ours = (names(lrcssm.ModelConfig) - {"input_dim", "output_dim", "task"}) | (names(TrainingConfig) - {"seed"})
    own = {*kind().get_params()}
    model = {"signature": {"windows": 5}, "matmul": "bfloat16", "activation": "relu"}
    training = {"chunk": 7, "truncate": 3, "clip": 2.0}
    assert {*model, *training} <= ours - own and {"hidden_dim", "steps", "memory"} <= ours & own
    estimator = kind(model_options=model, training_options=training, memory="1GB", monitor="last")
    fields = [given_fields(estimator, one) for one in (lrcssm.ModelConfig, TrainingConfig)]
    config, how = recipe(Facts(1, 100, False, "forecast" if kind is LrcSSMForecaster else "regress", 1), *fields)
    assert dict(config.signature)["windows"] == 5 and config.patch == 1 and config.matmul == "bfloat16"
    assert dict(config.cell_options)["max_time"] == 5
    assert (how.chunk, how.truncate, how.monitor, how.memory, how.clip) == (7, 3, "last", 10**9, 2.0)


@pytest.mark.parametrize("kind", ALL)
def test_parameters_that_are_none(kind):
    name = kind.__name__
    with pytest.raises(
        TypeError, match=f"{name} got hiden_dim=3, but has no such parameter; did you mean hidden_dim\\?"
    ):
        kind(hiden_dim=3)
    with pytest.raises(TypeError, match=f"{name} got colour='red', .* leave it out, or see {name}\\(\\).get_params"):
        kind(colour="red")
    with pytest.raises(TypeError, match=f"{name} got 3 without a name; give each parameter by its name"):
        kind(3)
    with pytest.raises(ValueError, match=f"Invalid parameter 'hiden_dim' for estimator {name}"):
        kind().set_params(hiden_dim=3)
    if kind is LrcSSMForecaster:
        with pytest.raises(TypeError, match="LrcSSMForecaster got bidirectional=True, but has no such parameter"):
            kind(bidirectional=True)


class Own(LrcSSMRegressor):
    """An estimator of a user, with an argument that it cannot do without."""

    def __init__(self, unit, *, hidden_dim=64):
        super().__init__(hidden_dim=hidden_dim)
        self.unit = unit


def test_own_estimators_have_own_parameters():
    for same in (
        Own("m", hidden_dim=5),
        clone(Own("m", hidden_dim=5)),
        pickle.loads(pickle.dumps(Own("m", hidden_dim=5))),
    ):
        assert same.get_params() == {"unit": "m", "hidden_dim": 5}
    with pytest.raises(TypeError, match="Own got num_blocks=3, but has no such parameter"):
        Own("m", num_blocks=3)
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'unit'"):
        Own()


@pytest.mark.parametrize("kind", ALL)
def test_mistakes_are_found_before_training(kind, monkeypatch):
    monkeypatch.setattr("lrcssm.estimators.base.fit", lambda *args, **options: pytest.fail("it has begun"))
    for callbacks in (3, [print, 3], "print", iter([print])):
        with pytest.raises(TypeError, match=f"{kind.__name__} got callbacks=.*; give a function of an Evaluation"):
            fit(kind, callbacks=callbacks)
    with pytest.raises(ValueError, match=f"{kind.__name__} got missing='drop'; give"):
        fit(kind, missing="drop")


def test_partial_fit_finds_them_too(fitted):
    model, X = copy.copy(fitted[0]).set_params(callbacks=3), fitted[1]
    with pytest.raises(TypeError, match="LrcSSMClassifier got callbacks=3"):
        model.partial_fit(X, waves()[1])
    with pytest.raises(ValueError, match="LrcSSMClassifier got missing='drop'"):
        model.set_params(missing="drop").predict(X)


def test_one_callback_need_not_be_in_a_list(fitted):
    seen = []
    model = clone(fitted[0]).set_params(callbacks=seen.append).fit(*waves())
    assert [epoch.step for epoch in seen] == [2, 4] and model.history_ == tuple(seen)
    model.partial_fit(*waves())
    assert seen[-1] == model.history_[-1] and len(seen) == 3


def test_a_fit_that_fails_changes_nothing(fitted):
    model, X = copy.copy(fitted[0]), fitted[1]
    want, before = model.predict_proba(X), dict(vars(model))
    y = np.arange(len(X)) % 3
    with pytest.raises(ValueError, match="steps=0"):
        model.set_params(steps=0).fit(np.stack([X, X], 1), y)
    with pytest.raises(ValueError, match="none of the classes"):
        model.set_params(steps=4).partial_fit(X, y)
    assert vars(model) == before
    np.testing.assert_array_equal(model.predict_proba(X), want)
    new = LrcSSMClassifier(**FEW | {"learning_rate": -1.0})
    with pytest.raises(ValueError, match="learning_rate"):
        new.partial_fit(X, y, classes=[0, 1, 2])
    assert not [name for name in vars(new) if name.endswith("_")]


def test_missing_values_are_refused_with_what_to_do(fitted):
    X, y = waves()
    X[3, 5] = np.nan
    for holes in (X, X[:, None], list(X), X.tolist()):
        with pytest.raises(ValueError, match=r'Series 3 holds NaN; give missing="mask" .* missing="fill"'):
            LrcSSMClassifier(**FEW).fit(holes, y)
        with pytest.raises(ValueError, match=r'Series 3 holds NaN; give missing="mask"'):
            fitted[0].predict(holes)


def test_without_aeon_there_is_a_sentence():
    if importlib.util.find_spec("aeon") is not None:
        pytest.skip("aeon is installed")
    with pytest.raises(ImportError, match=r'install it with pip install "lrcssm\[uea\]"'):
        importlib.import_module("lrcssm.estimators.aeon")
