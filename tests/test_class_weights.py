"""Weights of classes by label, and the warning about a model at chance, in estimators and on the command line."""

import numpy as np
import pytest
from test_runs import TINY, wave_file
from test_training import as_a_user_has_it  # noqa: F401, a fixture

import lrcssm
from lrcssm import cli
from lrcssm.errors import TrainingWarning

SMALL = {"hidden_dim": 4, "state_dim": 4, "num_blocks": 1, "patch": 1, "steps": 3, "random_state": 0}


def waves(labels=("slow", "fast"), count=24):
    rng = np.random.default_rng(0)
    y = np.array(labels)[np.arange(count) % 2]
    speed = np.where(y == labels[0], 0.2, 0.9)[:, None]
    return np.sin(speed * np.arange(20) + rng.uniform(0, 6, (count, 1))), y


def test_weights_by_label_are_weights_of_the_cases():
    X, y = waves()
    by_label = lrcssm.LrcSSMClassifier(class_weights={"slow": 3.0}, **SMALL).fit(X, y)
    by_case = lrcssm.LrcSSMClassifier(**SMALL).fit(X, y, sample_weight=np.where(y == "slow", 3.0, 1.0))
    np.testing.assert_array_equal(by_label.decision_function(X), by_case.decision_function(X))
    assert (by_label.decision_function(X) != lrcssm.LrcSSMClassifier(**SMALL).fit(X, y).decision_function(X)).any()
    both = lrcssm.LrcSSMClassifier(class_weights={"slow": 3.0}, **SMALL).fit(X, y, sample_weight=np.full(24, 0.5))
    half = lrcssm.LrcSSMClassifier(**SMALL).fit(X, y, sample_weight=np.where(y == "slow", 1.5, 0.5))
    np.testing.assert_array_equal(both.decision_function(X), half.decision_function(X))


@pytest.mark.parametrize(
    "weights, says",
    [
        ({"quick": 2.0}, "class_weights for 'quick', which is none of the classes \\['fast', 'slow'\\]"),
        ({"slow": -1.0}, "'slow': -1.0; give a finite number of at least 0"),
        ({"slow": float("nan")}, "give a finite number"),
        ({"slow": "much"}, "'slow': 'much'; give a finite number"),
    ],
)
def test_weights_that_are_refused(weights, says):
    with pytest.raises(ValueError, match=says):
        lrcssm.LrcSSMClassifier(class_weights=weights, **SMALL).fit(*waves())


def test_weights_of_labels_that_are_numbers_are_saved(tmp_path):
    X, y = waves(labels=(1, 5))
    model = lrcssm.LrcSSMClassifier(class_weights={1: 2.0, 5: 0.5}, **SMALL).fit(X, y)
    model.save(tmp_path / "model.lrcssm")
    assert lrcssm.LrcSSMClassifier.load(tmp_path / "model.lrcssm").class_weights == {1: 2.0, 5: 0.5}


@pytest.mark.parametrize("make, noise", [(lrcssm.LrcSSMClassifier, False), (lrcssm.LrcSSMRegressor, True)])
@pytest.mark.filterwarnings("error:The model is no better")
def test_a_model_at_chance_warns(make, noise):
    X, y = waves()
    rng = np.random.default_rng(3)
    targets = rng.standard_normal(24) if noise else y
    with pytest.warns(TrainingWarning, match="lower the learning rate from 100 to about 0.003"):
        make(**SMALL | {"learning_rate": 100.0, "steps": 20, "random_state": 1}).fit(X, targets)


def test_the_command_line_warns_and_goes_on_for_more_steps(tmp_path, capsys):
    path, out = wave_file(tmp_path), tmp_path / "run"
    words = ["train", str(path), "--out", str(out), *TINY, "--learning-rate", "100"]
    assert cli.main(words) == 0
    found = capsys.readouterr()
    assert "Warning: The model is no better than a constant" in found.err and "; always predicting " in found.out
    longer = [word if word != "2" else "4" for word in words]
    assert cli.main([*longer, "--resume"]) == 0
    assert len((out / "history.jsonl").read_text().splitlines()) == 2
    assert '"steps": 4' in (out / "run.json").read_text()
    capsys.readouterr()
    assert cli.main([*words, "--resume"]) == 2
    assert "its training is steps=4, not 2" in capsys.readouterr().err
