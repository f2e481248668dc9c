"""Each estimator once, small: unequal lengths, gaps, times, files and scikit-learn's checks of the interface."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.utils import estimator_checks

import lrcssm
from lrcssm import estimators

FEW = {
    "hidden_dim": 8, "state_dim": 8, "num_blocks": 1, "bidirectional": False, "random_state": 0, "steps": 4, "check_every": 2, "batch": 8,
    "validation_fraction": 0.0,
}  # fmt: skip
RIDGE = {"n_features": 280, "random_state": 0}
FORECAST = {name: value for name, value in FEW.items() if name != "bidirectional"} | {"window": 12, "horizon": 3}
PARAMETERS = {
    "LrcFeatures": RIDGE,
    "LrcRidgeClassifier": RIDGE,
    "LrcRidgeForecaster": {"window": 12, "horizon": 3, "random_state": 0},
    "LrcRidgeRegressor": RIDGE,
    "LrcSSMClassifier": FEW,
    "LrcSSMForecaster": FORECAST,
    "LrcSSMRegressor": FEW,
}
OUTPUTS = ("transform", "predict_proba", "predict")


@pytest.fixture(autouse=True)
def as_a_user_has_it(defaults):
    yield


def make(name, **changes):
    return getattr(lrcssm, name)(**PARAMETERS[name] | changes)


def outputs(model, X, **more):
    return getattr(model, next(method for method in OUTPUTS if hasattr(model, method)))(X, **more)


def test_every_estimator_is_here():
    assert set(PARAMETERS) == set(estimators.PUBLIC)


@pytest.mark.parametrize("name", [name for name in PARAMETERS if not name.endswith("Forecaster")])
def test_estimator(name, tmp_path):
    rng = np.random.default_rng(0)
    X = [np.cumsum(rng.normal(size=(2, length)), 1) for length in (9, 14, 9, 12, 14, 12, 9, 14)]
    X[1][0, 3], X[4][:, 5] = np.nan, np.nan
    times = [np.cumsum(0.5 + rng.random(one.shape[1])) for one in X]
    model = make(name, missing="mask").fit(X, np.arange(8) % 2, times=times)
    want = outputs(model, X, times=times)
    assert np.isfinite(want).all() and np.ptp(want, 0).max() > 1e-4
    # Padding is no matter, and time is.
    for i in (0, 1, 4):
        np.testing.assert_allclose(
            outputs(model, X[i : i + 1], times=times[i : i + 1])[0], want[i], rtol=1e-4, atol=1e-5
        )
    assert np.abs(outputs(model, X, times=[3 * one for one in times]) - want).max() > 1e-4
    # A value where none was, and another order of the cases.
    np.testing.assert_allclose(outputs(model, X[::-1], times=times[::-1])[::-1], want, rtol=1e-4, atol=1e-5)
    model.save(tmp_path / "model")
    again = type(model).load(tmp_path / "model")
    np.testing.assert_array_equal(outputs(again, X, times=times), want)
    assert again.get_params() == model.get_params() == clone(model).get_params()


@pytest.mark.parametrize("name", [name for name in PARAMETERS if name.endswith("Forecaster")])
def test_forecaster(name, tmp_path):
    rng = np.random.default_rng(0)
    series = np.stack([np.sin(np.arange(60) / 3), np.cos(np.arange(60) / 4)], 1) + 0.01 * rng.normal(size=(60, 2))
    times = np.cumsum(0.5 + rng.random(60))
    model = make(name).fit(series, times=times)
    want = model.predict(series, times=times)
    assert want.shape == (3, 2) and np.abs(want - model.predict(series[:-1], times=times[:-1])).max() > 1e-4
    assert np.abs(want - model.predict(series, times=np.concatenate([times[:-9], times[-9:] + 5]))).max() > 1e-6
    model.save(tmp_path / "model")
    np.testing.assert_array_equal(type(model).load(tmp_path / "model").predict(series, times=times), want)
    assert clone(model).get_params() == model.get_params()


@pytest.mark.parametrize("name", [name for name in PARAMETERS if not name.endswith("Forecaster")])
def test_interface(name):
    results = estimator_checks.check_estimator(make(name), legacy=False, on_skip=None)
    assert {one["check_name"]: one["status"] for one in results if one["status"] != "passed"} == {}
    assert len(results) > 5
