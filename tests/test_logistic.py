"""Logistic regression on features, against scikit-learn's on the same numbers, and where it is chosen."""

import numpy as np
import pytest
from scipy.special import log_softmax
from sklearn.linear_model import LogisticRegression

from lrcssm.features.logistic import PENALTIES, fit_logistic
from lrcssm.features.readout import fit_readout
from lrcssm.training.recipe import MANY, choose_method


def problem(count, seed=0):
    """Classes of very different sizes that overlap, as features with different scales."""
    rng = np.random.default_rng(seed)
    classes = rng.choice(3, size=count, p=[0.7, 0.25, 0.05])
    centres = rng.normal(size=(3, 40)) * 0.3
    features = (centres[classes] + rng.normal(size=(count, 40))) * np.geomspace(0.1, 10, 40)
    return features.astype(np.float32), classes


def ridge_of(features, classes):
    targets = np.where(classes[:, None] == np.arange(3), 1.0, -1.0)
    return fit_readout(features, targets, rng=np.random.default_rng(0))


def log_loss(logits, classes):
    return -log_softmax(logits, 1)[np.arange(len(classes)), classes].mean()


def test_minimum_is_that_of_scikit_learn():
    """Rotations change neither the loss nor the penalty, so the reference does not need the projection."""
    features, classes = problem(800)
    ridge, left_out = ridge_of(features, classes)
    found, factor = fit_logistic(features, classes, ridge, 1.0, left_out, rng=np.random.default_rng(1))
    assert factor == 1.0 and found.penalty in PENALTIES
    z = (features.astype(np.float64) - ridge.mean) / ridge.scale
    z = np.sign(z) * np.sqrt(np.abs(z))
    unit = np.sqrt((z**2).sum(1).mean())
    theirs = LogisticRegression(C=1 / found.penalty, tol=1e-8, max_iter=10_000).fit(z / unit, classes)
    ours = found(features)
    ours = log_softmax(ours, 1)
    np.testing.assert_allclose(ours, theirs.predict_log_proba(z / unit), atol=2e-2)


def test_better_than_ridge_on_new_cases():
    features, classes = problem(3000)
    new, truth = problem(3000)[0][1500:], classes[1500:]
    ridge, left_out = ridge_of(features[:1500], classes[:1500])
    found, factor = fit_logistic(features[:1500], classes[:1500], ridge, 2.0, left_out, rng=np.random.default_rng(1))
    assert log_loss(factor * found(new), truth) < log_loss(2.0 * ridge(new), truth) - 0.02


def test_rows_by_a_function_and_seldom_classes():
    features, classes = problem(700)
    classes[classes == 2] = 0
    classes[0] = 2  # a class of one case is never held out
    ridge, left_out = ridge_of(features, classes)
    whole = fit_logistic(features, classes, ridge, 1.0, left_out, rng=np.random.default_rng(1))
    parts = fit_logistic(features.__getitem__, classes, ridge, 1.0, left_out, rng=np.random.default_rng(1))
    np.testing.assert_array_equal(whole[0].weights, parts[0].weights)
    assert np.isfinite(whole[0].weights).all()


def test_ridge_stays_where_it_is_better():
    """Classes far apart: no penalised log-loss gives probabilities as near to 1 as large multiples of the decisions do."""
    classes = np.arange(90) % 3
    features = (10 * np.eye(3)[classes] + np.random.default_rng(0).normal(size=(90, 3))).astype(np.float32)
    ridge, left_out = ridge_of(features, classes)
    found, factor = fit_logistic(features, classes, ridge, 200.0, left_out, rng=np.random.default_rng(1))
    assert found is ridge and factor == 200.0


@pytest.mark.parametrize(
    "given, expected",
    [
        (("auto", "classify", MANY), "ridge"),
        (("auto", "classify", MANY + 1), "logistic"),
        (("auto", "regress", MANY + 1), "ridge"),
        (("auto", "per-step", 10), "gradient"),
        (("auto", "classify", MANY + 1, ["steps"]), "gradient"),
        (("logistic", "classify", 10), "logistic"),
    ],
)
def test_chosen_method(given, expected):
    assert choose_method(*given)[0] == expected


def test_refused_methods():
    with pytest.raises(ValueError, match="predicts one class for a series, and the task is regress"):
        choose_method("logistic", "regress", 10)
    with pytest.raises(ValueError, match="The method gradient, for classify, does not use views"):
        choose_method("gradient", "classify", 10, (), ["views"])
