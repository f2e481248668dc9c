"""The estimators and the command line give the same weights for the same cases and seed."""

import functools

import jax
import numpy as np
import pytest
from test_training import as_a_user_has_it  # noqa: F401, a fixture
from writers import write_ts

import lrcssm
from lrcssm import cli

SMALL = {"hidden_dim": 8, "state_dim": 8, "num_blocks": 1, "steps": 12, "batch": 4, "check_every": 6}


def leaves(model):
    return [np.asarray(leaf) for leaf in jax.tree.leaves(model)]


@pytest.mark.parametrize(
    "kind, method",
    [
        ("classes", "gradient"),
        pytest.param("numbers", "gradient", marks=pytest.mark.slow),
        ("classes", "ridge"),
        ("numbers", "ridge"),
        pytest.param("classes", "logistic", marks=pytest.mark.slow),
    ],
)
def test_estimator_and_command_line_give_the_same_bits(kind, method, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    rng = np.random.default_rng(0)
    known = 510 if method == "logistic" else 22
    X = np.cumsum(rng.normal(size=(known + 8, 2, 25)), -1).astype(np.float32)
    y = np.array(["down", "up"])[(X[:, 0, -1] > 0).astype(int)] if kind == "classes" else X[:, 0].mean(-1).round(4)
    for part, which in {"TRAIN": slice(0, known), "TEST": slice(known, None)}.items():
        series = [one.T for one in X[which]]
        write_ts(tmp_path / f"walk_{part}.ts", series, y[which], ("down", "up") if kind == "classes" else None)
    options = [f"--{name.replace('_', '-')} {value}" for name, value in SMALL.items()] if method == "gradient" else []
    command = [
        "train",
        "walk",
        "--data-dir",
        str(tmp_path),
        "--out",
        str(tmp_path / "run"),
        "--seed",
        "3",
        "--split-seed",
        "3",
    ]
    assert cli.main([*command, *" ".join(options).split()]) == 0
    said = {"logistic": "Method: ridge on random liquid features, then logistic regression"}.get(
        method, f"Method: {method}"
    )
    assert said in capsys.readouterr().err  # chosen by itself
    trained = lrcssm.load(tmp_path / "run")
    kinds = {
        ("gradient", "classes"): lrcssm.LrcSSMClassifier, ("gradient", "numbers"): lrcssm.LrcSSMRegressor,
        ("ridge", "classes"): lrcssm.LrcRidgeClassifier, ("ridge", "numbers"): lrcssm.LrcRidgeRegressor,
        ("logistic", "classes"): functools.partial(lrcssm.LrcSSMClassifier, method="logistic"),
    }  # fmt: skip
    estimator = kinds[method, kind](**SMALL if method == "gradient" else {}, random_state=3).fit(X[:known], y[:known])
    assert trained.model.config == estimator.model_.config
    if method != "gradient":
        by_default = kinds["gradient", kind](random_state=3).fit(X[:known], y[:known])
        ours, *others = (model.to_arrays()[1] for model in (trained.model, estimator.model_, by_default.model_))
        for theirs in others:
            assert set(ours) == set(theirs)
            for name in ours:
                np.testing.assert_array_equal(ours[name], theirs[name])
        return
    for a, b in zip(leaves(trained.model), leaves(estimator.model_), strict=True):
        np.testing.assert_array_equal(a, b)
