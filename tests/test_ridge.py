"""The read-out is ridge regression with its leave-one-out errors, and the estimators keep scikit-learn's contract."""

import jax
import numpy as np
import pytest
from sklearn.utils import estimator_checks

from lrcssm import FileError, LrcFeatures, LrcRidgeClassifier, LrcRidgeRegressor
from lrcssm.features import readout
from lrcssm.features.calibration import softmax_factor
from lrcssm.features.readout import compressed, fit_readout, leave_one_out

ALL = [LrcFeatures, LrcRidgeClassifier, LrcRidgeRegressor]
SMALL = {"n_features": 280, "random_state": 0}


@pytest.fixture(autouse=True)
def as_a_user_has_it():
    with jax.enable_x64(False), jax.numpy_dtype_promotion("standard"):
        yield


def waves(count=24, length=20, seed=0, noise=0.0):
    """Two classes of series `(cases, time)` that differ in their frequency."""
    rng = np.random.default_rng(seed)
    y = np.arange(count) % 2
    X = np.sin(np.array([0.3, 0.9])[y, None] * np.arange(length) + rng.uniform(0, 6, (count, 1)))
    return X + noise * rng.standard_normal(X.shape), y


def solved(z, y, penalty):
    """Weights and intercept of ridge regression, by the normal equations."""
    mean, centre = z.mean(0), y.mean(0)
    weights = np.linalg.solve((z - mean).T @ (z - mean) + penalty * np.eye(z.shape[1]), (z - mean).T @ (y - centre))
    return weights, centre - mean @ weights


@pytest.mark.parametrize("width", [5, 40])
def test_leave_one_out_equals_refits(width):
    rng = np.random.default_rng(0)
    z, y = rng.standard_normal((15, width)) + 0.5, rng.standard_normal((15, 2))
    losses = []
    for penalty in (0.1, 1.0, 10.0, 1000.0):
        _, chosen, found = leave_one_out(z, y, np.array([penalty]), np.ones(15, bool))
        assert chosen == penalty
        for i in range(15):
            rest = np.arange(15) != i
            weights, intercept = solved(z[rest], y[rest], penalty)
            np.testing.assert_allclose(found[i], z[i] @ weights + intercept, rtol=1e-8, atol=1e-8)
        losses.append(np.mean((found - y) ** 2))
    best = (0.1, 1.0, 10.0, 1000.0)[int(np.argmin(losses))]
    assert leave_one_out(z, y, np.array([0.1, 1.0, 10.0, 1000.0]), np.ones(15, bool))[1] == best


@pytest.mark.parametrize("width", [8, 60])
@pytest.mark.parametrize("many", [False, "array", "function"])
def test_readout_equals_the_normal_equations(width, many, monkeypatch):
    monkeypatch.setattr(readout, "EXACT", 10 if many else 100)
    monkeypatch.setattr(readout, "PART", 20)
    monkeypatch.setattr(readout, "ROWS", 7)
    rng = np.random.default_rng(0)
    features = rng.standard_normal((30, width)).astype(np.float32) * 3 + 1
    features[:, 0] = 2.0
    y = rng.standard_normal((30, 2)) + 4
    given = features.__getitem__ if many == "function" else features
    fitted, held_out = fit_readout(given, y, penalties=np.array([3.0]), rng=rng)
    part = held_out.cases
    assert len(part) == len(held_out.predictions) == (20 if many else 30)
    z = (features - features[part].mean(0)) / np.where(np.arange(width) == 0, np.inf, features[part].std(0))
    z = np.sign(z) * np.sqrt(np.abs(z))
    np.testing.assert_allclose(compressed(features, fitted.mean, fitted.scale), z, atol=1e-5)
    weights, intercept = solved(z.astype(np.float64), y, 3.0)
    np.testing.assert_allclose(fitted(features), z @ weights + intercept, rtol=1e-3, atol=1e-4)
    assert (fitted.weights[0] == 0).all()


def test_classes_of_one_case():
    X, _ = waves(6)
    model = LrcRidgeClassifier(**SMALL).fit(X, np.arange(6))
    assert (model.predict(X) == np.arange(6)).all()
    assert model.predict_proba(X).max(1).min() > 0.5
    # The only case of class 2 does not count in the choice of the penalty.
    features = np.random.default_rng(0).standard_normal((9, 4)).astype(np.float32)
    y = np.where(np.array([0, 1, 0, 1, 0, 1, 0, 1, 2])[:, None] == np.arange(3), 1.0, -1.0)
    counted = np.arange(9) < 8
    fitted, held_out = fit_readout(features, y, counted=counted, rng=np.random.default_rng(0))
    assert (held_out.cases == np.arange(8)).all()
    losses = []
    for penalty in readout.PENALTIES:
        _, some = fit_readout(features, y, penalties=np.array([penalty]), counted=counted, rng=np.random.default_rng(0))
        losses.append(((some.predictions - y[:8]) ** 2).sum())
    assert fitted.penalty == readout.PENALTIES[int(np.argmin(losses))]


def test_many_cases_are_fitted_in_parts(monkeypatch):
    from lrcssm.features import model as ridge

    monkeypatch.setattr(readout, "EXACT", 10)
    X, y = waves(60)
    kept = LrcRidgeClassifier(**SMALL).fit(X, y)
    monkeypatch.setattr(ridge, "IN_MEMORY", 10)
    streamed = LrcRidgeClassifier(**SMALL).fit(X, y)
    np.testing.assert_allclose(streamed.decision_function(X), kept.decision_function(X), atol=0.02)


def test_factor_calibrates():
    rng = np.random.default_rng(0)
    logits = 2 * rng.standard_normal((4000, 3))
    shares = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    classes = (shares.cumsum(1) > rng.random((4000, 1))).argmax(1)
    assert softmax_factor(logits / 5, classes) == pytest.approx(5, rel=0.1)


def test_factor_is_finite_where_all_are_right():
    decisions = np.where(np.eye(2)[[0, 1, 0, 1]] > 0, 1.0, -1.0)
    assert 0.3 < softmax_factor(decisions, np.array([0, 1, 0, 1])) < 3


def test_probabilities_are_calibrated():
    X, y = waves(240, noise=2.0)
    model = LrcRidgeClassifier(**SMALL | {"n_features": 1000}).fit(X[:120], y[:120])
    probabilities = model.predict_proba(X[120:])
    accuracy = model.score(X[120:], y[120:])
    assert 0.6 < accuracy < 0.99
    assert probabilities.max(1).mean() == pytest.approx(accuracy, abs=0.12)
    np.testing.assert_allclose(probabilities.sum(1), 1)
    assert (model.classes_[probabilities.argmax(1)] == model.predict(X[120:])).all()


def test_learns():
    X, y = waves(60)
    names = np.array(["no", "yes"])
    model = LrcRidgeClassifier(n_features=1400, random_state=0).fit(X[:40], names[y[:40]])
    assert model.score(X[40:], names[y[40:]]) > 0.9
    frequency = np.random.default_rng(0).uniform(0.2, 1.0, 80)
    X = np.sin(frequency[:, None] * np.arange(30))
    model = LrcRidgeRegressor(n_features=1400, random_state=0).fit(X[:60], np.stack([frequency, 5 - frequency], 1)[:60])
    assert model.score(X[60:], np.stack([frequency, 5 - frequency], 1)[60:]) > 0.9


@pytest.mark.parametrize("kind", ALL)
def test_saved_estimators_are_the_same_to_the_bit(kind, tmp_path):
    rng = np.random.default_rng(0)
    X = [rng.standard_normal((2, length)) for length in (9, 14, 20, 31, 12, 18)]
    X[1][0, 3] = np.nan
    times = [np.cumsum(0.5 + rng.random(one.shape[1])) for one in X]
    model = kind(**SMALL, missing="mask", views=("levels", "differences")).fit(X, [0, 1, 0, 1, 0, 1], times=times)
    path = tmp_path / "model.lrcssm"
    model.save(path)
    again = kind.load(path)
    assert again.get_params() == model.get_params() | {"views": ["levels", "differences"]}
    for name in ("transform", "predict", "predict_proba", "decision_function"):
        if hasattr(model, name):
            np.testing.assert_array_equal(getattr(again, name)(X, times=times), getattr(model, name)(X, times=times))
    other = ALL[ALL.index(kind) - 1]
    with pytest.raises(FileError, match=f"holds {kind.__name__}, not {other.__name__}"):
        other.load(path)


def test_unequal_lengths_and_text_labels():
    X, y = waves(20)
    X = [one[: 10 + i % 7] for i, one in enumerate(X)]
    model = LrcRidgeClassifier(**SMALL).fit(X, np.array(["b", "a"])[y])
    assert list(model.classes_) == ["a", "b"]
    np.testing.assert_allclose(model.predict_proba(X).sum(1), 1, rtol=1e-6)
    # Of one case alone and of all: the same.
    np.testing.assert_array_equal(model.decision_function(X[3:4]), model.decision_function(X)[3:4])


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"n_features": 0}, "n_features=0; give a positive whole number"),
        ({"n_features": 3}, "n_features is 3; give at least 16"),
        ({"batch": 1.5}, "batch=1.5; give a positive whole number"),
        ({"max_time": 0.5}, "max_time=0.5; give a number of steps"),
        ({"missing": "drop"}, "missing='drop'; give \"error\""),
        ({"views": ["raw"]}, "give one or more of levels"),
    ],
)
def test_mistakes(given, expected):
    with pytest.raises(ValueError, match=expected):
        LrcRidgeClassifier(**SMALL | given).fit(*waves(6))


@pytest.mark.slow
@pytest.mark.parametrize("kind", ALL)
def test_scikit_learn_checks(kind):
    results = estimator_checks.check_estimator(kind(n_features=1400, random_state=0), on_skip=None)
    skipped = {result["check_name"] for result in results if result["status"] == "skipped"}
    good = sum(result["status"] == "passed" for result in results)
    assert good + len(skipped) == len(results) > 40
    # The first needs another setting of scipy, the others pandas.
    assert skipped <= {
        "check_array_api_input",
        "check_classifier_data_not_an_array",
        "check_regressor_data_not_an_array",
    }
