"""The checks of scikit-learn and of aeon for estimators, all of them."""

import pytest
from sklearn.utils import estimator_checks
from test_estimators import FEW, TINY

from lrcssm import LrcSSMClassifier, LrcSSMRegressor

# Enough for the checks that ask for some skill.
CHECKED = TINY | {"patch": 10, "steps": 100, "learning_rate": 2e-2, "dropout": 0.0, "validation_fraction": 0.0}


@pytest.fixture(autouse=True)
def as_a_user_has_it(defaults):
    yield


def passed(estimator, **options):
    """Runs scikit-learn's checks and gives the names of those that were skipped; a failed one raises."""
    results = estimator_checks.check_estimator(estimator, on_skip=None, **options)
    skipped = sorted({result["check_name"] for result in results if result["status"] == "skipped"})
    good = sum(result["status"] == "passed" for result in results)
    print(f"{type(estimator).__name__}: {good} of {len(results)} checks passed, skipped: {skipped}")
    others = sum(result["status"] in ("skipped", "xfail") for result in results)
    assert good + others == len(results) >= 10
    return skipped


# Minibatches are drawn at random, so weights and repeated cases agree on average only, as for scikit-learn's SGDClassifier.
STOCHASTIC = {"check_sample_weight_equivalence_on_dense_data": "minibatches are drawn at random"}
# The first needs another setting of scipy, the others pandas.
OPTIONAL = {"check_array_api_input", "check_classifier_data_not_an_array", "check_regressor_data_not_an_array"}


@pytest.mark.slow
def test_scikit_learn_api_checks():
    assert passed(LrcSSMClassifier(**FEW), legacy=False) == []


@pytest.mark.slow
@pytest.mark.parametrize("kind", [LrcSSMClassifier, LrcSSMRegressor])
def test_scikit_learn_checks(kind):
    assert set(passed(kind(**CHECKED), expected_failed_checks=STOCHASTIC)) <= OPTIONAL


AEON = [f"AeonLrc{method}{kind}" for method in ("SSM", "Ridge") for kind in ("Classifier", "Regressor")]


@pytest.mark.slow
@pytest.mark.parametrize("name", AEON)
def test_aeon_checks(name):
    pytest.importorskip("aeon")
    from aeon.testing.estimator_checking import check_estimator

    from lrcssm.estimators import aeon

    results = check_estimator(getattr(aeon, name))
    print(f"{name}: {sum(result == 'PASSED' for result in results.values())} of {len(results)} checks passed")
    assert {check: result for check, result in results.items() if result != "PASSED" and "Skipped" not in result} == {}
