"""`partial_fit` of the ridge estimators: the parts give the solution of all cases together."""

import itertools

import numpy as np
import pytest
from test_ridge import SMALL, as_a_user_has_it, solved, waves  # noqa: F401, one is a fixture

from lrcssm import LrcRidgeClassifier, LrcRidgeRegressor
from lrcssm.data import Cases
from lrcssm.features import FeatureMap, Parts, parts as module
from lrcssm.features.readout import PENALTIES

EDGES = (0, 20, 25, 45, 60)


def sines(count=60, seed=0):
    """Series with their frequency, and another number."""
    rng = np.random.default_rng(seed)
    frequency = rng.uniform(0.2, 1.0, count)
    X = np.sin(frequency[:, None] * np.arange(20)) + 0.3 * rng.standard_normal((count, 20))
    return X, np.stack([frequency, 1e4 - 100 * frequency], 1)


@pytest.fixture(params=["rows", "rows of more", "sums"])
def how(request, monkeypatch):
    """The stored form of the cases: all rows, more rows than the leave-one-out sample, or the Gram matrix."""
    if request.param != "rows":
        monkeypatch.setattr(module, "EXACT", 30)
        monkeypatch.setattr(module, "PART", 25)
        monkeypatch.setattr(module, "ROWS", 7)
    return request.param


@pytest.mark.parametrize("task", ["classify", "regress"])
def test_parts_equal_all_cases_together(task, how):
    X, y = waves(60, noise=1.0) if task == "classify" else sines()
    cases = Cases.of(X[..., None], y)
    features = FeatureMap.of(cases.take(range(20)), n_features=280 if how == "rows of more" else 64)
    collected = Parts(features, task, 2)
    for low, high in itertools.pairwise(EDGES):
        collected.add(cases.take(range(low, high)))
    assert (collected._sums is not None) == (how == "sums")
    model = collected.model()
    assert model.readout is not None and model.readout.penalty in PENALTIES
    raw = features(cases).astype(np.float64)
    mean, scale = raw[:20].mean(0), raw[:20].std(0)
    z = np.where(scale > 1e-6, (raw - mean) / np.where(scale > 1e-6, scale, 1.0), 0.0)
    z = np.sign(z) * np.sqrt(np.abs(z))
    targets = np.where(y[:, None] == np.arange(2), 1.0, -1.0) if task == "classify" else y
    weights, intercept = solved(z, targets, model.readout.penalty)
    expected = model.factor * (z @ weights + intercept)
    np.testing.assert_allclose(model.outputs(cases), expected, rtol=1e-4, atol=2e-3 * expected.std())
    # The solution of half of the parts does not stand in the way of the others.
    again = Parts(features, task, 2)
    for low, high in itertools.pairwise(EDGES):
        again.add(cases.take(range(low, high)))
        again.model()
    np.testing.assert_allclose(again.model().outputs(cases), model.outputs(cases), rtol=1e-5, atol=1e-5)


def test_one_part_equals_fit():
    X, y = waves(60, noise=1.0)
    fitted = LrcRidgeClassifier(**SMALL).fit(X, y)
    partial = LrcRidgeClassifier(**SMALL).partial_fit(X, y, classes=[0, 1])
    assert partial.penalty_ == fitted.penalty_
    np.testing.assert_allclose(partial.decision_function(X), fitted.decision_function(X), rtol=1e-4, atol=1e-4)
    X, y = sines()
    fitted, partial = LrcRidgeRegressor(**SMALL).fit(X, y), LrcRidgeRegressor(**SMALL).partial_fit(X, y)
    assert partial.penalty_ == fitted.penalty_
    np.testing.assert_allclose(partial.predict(X), fitted.predict(X), rtol=1e-4)


def test_sample_is_fair(monkeypatch):
    """Each case is as likely as any other to be in the sample that chooses the penalty."""
    monkeypatch.setattr(module, "EXACT", 10)
    monkeypatch.setattr(module, "PART", 5)
    monkeypatch.setattr(module, "ROWS", 4)
    features = FeatureMap.of(Cases.of(np.zeros((2, 5, 1))), n_features=16)
    seen = np.zeros(20)
    for seed in range(2000):
        collected = Parts(features, "regress", 1, seed=seed)
        collected._scaling = np.zeros(16, np.float32), np.ones(16, np.float32)
        for low in range(0, 20, 4):
            numbers = np.arange(low, low + 4, dtype=np.float64)[:, None]
            collected._take(np.repeat(numbers, 16, 1).astype(np.float32), numbers)
        (sample,), (targets,) = collected._rows, collected._targets
        assert len(sample) == 5 and (sample[:, 0] == targets[:, 0]).all()
        seen[targets[:, 0].astype(int)] += 1
    np.testing.assert_allclose(seen / 2000, 0.25, atol=0.05)


def test_estimators_go_on(tmp_path):
    X, y = waves(40)
    names = np.array(["no", "yes"])
    model = LrcRidgeClassifier(**SMALL).partial_fit(X[:20], names[y[:20]], classes=names)
    first = model.predict_proba(X)
    model.partial_fit(X[20:30], names[y[20:30]]).partial_fit(X[30:], names[y[30:]], classes=names)
    assert model.score(X, names[y]) > 0.9 and not np.allclose(model.predict_proba(X), first)
    model.save(tmp_path / "model")
    again = LrcRidgeClassifier.load(tmp_path / "model")
    np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))
    before = model.decision_function(X)
    for mistake, text in [
        (lambda: LrcRidgeClassifier(**SMALL).partial_fit(X, y), "got no classes"),
        (lambda: LrcRidgeClassifier(**SMALL).partial_fit(X, y, classes=[0]), "give at least 2"),
        (lambda: model.partial_fit(X, names[y], classes=["no", "maybe"]), "other classes"),
        (lambda: model.partial_fit(X[:1], ["maybe"]), "none of the classes"),
        (lambda: model.partial_fit(X[:2], names[y[:3]]), "inconsistent numbers of samples"),
        (lambda: LrcRidgeRegressor(**SMALL).partial_fit(X[:1], [1.0]), "first part has 1 case; give some hundred"),
        (lambda: LrcRidgeRegressor(**SMALL).partial_fit(X, y).partial_fit(X, np.ones((40, 2))), "give as many"),
    ]:
        with pytest.raises(ValueError, match=text):
            mistake()
    np.testing.assert_array_equal(model.decision_function(X), before)
    model.fit(X, names[y])
    anew = LrcRidgeClassifier(**SMALL).partial_fit(X, names[y], classes=names).decision_function(X)
    for one in (model, again):
        with pytest.warns(
            UserWarning, match="starts from scratch: a LrcRidgeClassifier that was fitted or loaded keeps no sums"
        ):
            one.partial_fit(X, names[y])
        np.testing.assert_array_equal(one.decision_function(X), anew)


def test_one_class_at_first():
    X, y = waves(30)
    order = np.argsort(y, kind="stable")
    X, y = X[order], y[order]
    model = LrcRidgeClassifier(**SMALL).partial_fit(X[:10], y[:10], classes=[0, 1])
    assert (model.predict(X[:10]) == 0).all()
    assert model.partial_fit(X[10:], y[10:]).score(X, y) > 0.9
