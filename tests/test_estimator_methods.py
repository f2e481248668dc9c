"""Ridge or gradients: the choice of the method, and the skill of both with default parameters."""

import numpy as np
import pytest
from sklearn.model_selection import train_test_split
from test_estimators import waves

import lrcssm
from lrcssm import LrcSSMClassifier, LrcSSMRegressor
from lrcssm.estimators.parameters import method_of
from lrcssm.features import LiquidModel


@pytest.fixture(autouse=True)
def as_a_user_has_it(defaults):
    yield


@pytest.mark.slow
@pytest.mark.parametrize("method", ["ridge", "gradient"])
def test_digits_with_default_parameters(method):
    from sklearn.datasets import load_digits

    parts = train_test_split(*load_digits(return_X_y=True), test_size=0.25, random_state=0)
    model = LrcSSMClassifier(method=method, random_state=0).fit(parts[0], parts[2])
    assert model.score(parts[1], parts[3]) >= 0.95


def test_methods(tmp_path, capsys):
    """Ridge by default; any parameter of gradient steps selects them."""
    X, y = waves(40)
    model = LrcSSMClassifier(random_state=0, verbose=1).fit(X[:30], y[:30])
    assert isinstance(model.model_, LiquidModel) and "ridge on 12288 features" in capsys.readouterr().out
    assert model.score(X[30:], y[30:]) == 1 and model.history_ == () and model.n_iter_ == 0
    model.save(tmp_path / "model")
    again = LrcSSMClassifier.load(tmp_path / "model")
    np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))
    np.testing.assert_array_equal(
        lrcssm.load(tmp_path / "model").predict(again._cases(list(X[:, :, None]), None, None)), model.predict(X)
    )
    with pytest.raises(ValueError, match="after a fit on liquid features, which cannot be continued"):
        model.partial_fit(X, y)
    with pytest.raises(ValueError, match="method is 'newton'; give auto, ridge, logistic or gradient"):
        LrcSSMClassifier(method="newton").fit(X, y)
    with pytest.raises(ValueError, match="The method ridge does not use steps"):
        LrcSSMRegressor(method="ridge", steps=3).fit(X, y)
    with pytest.raises(ValueError, match="The method ridge does not use sample_weight"):
        LrcSSMRegressor(method="ridge").fit(X, y, np.ones(40))
    for changes in ({"warm_start": True}, {"callbacks": print}, {"model_options": {"mixer": "mlp"}}):
        assert method_of(LrcSSMClassifier(**changes), "classify", 40) == "gradient"
    assert method_of(LrcSSMClassifier(hidden_dim=64, missing="fill"), "classify", 40) == "ridge"


@pytest.mark.slow
def test_regression_with_default_parameters():
    """The frequency of a noisy wave of any phase."""
    rng = np.random.default_rng(0)
    y = rng.uniform(0.1, 1.0, 400)
    X = np.sin(y[:, None] * np.arange(100) + rng.uniform(0, 6, (400, 1))) + 0.1 * rng.normal(size=(400, 100))
    for method in ("ridge", "gradient"):
        assert LrcSSMRegressor(method=method, random_state=0).fit(X[:300], y[:300]).score(X[300:], y[300:]) > 0.9
