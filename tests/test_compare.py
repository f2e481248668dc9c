"""`lrcssm train --compare`: MiniRocket next to the model, in the words, the scores and the report."""

import json
import sys
import types

import numpy as np
import pytest
from test_runs import wave_file
from test_training import as_a_user_has_it  # noqa: F401, a fixture

from lrcssm import cli
from lrcssm.cli.compare import minirocket
from lrcssm.data import Cases

TRAIN = Cases.of(np.ones((4, 12, 2)), np.array([0, 1, 1, 1]))


class Rival:
    """In the place of MiniRocket: always the most frequent target. Series are `(cases, channels, time)` there."""

    def __init__(self, random_state):
        assert random_state == 0

    def fit(self, X, y):
        assert X.shape[0] == len(y) and X.shape[1] < X.shape[2] and X.dtype == np.float32
        self.answer = np.bincount(y).argmax() if y.dtype.kind in "iu" else np.median(y)
        return self

    def predict(self, X):
        return np.full(len(X), self.answer)


@pytest.fixture
def aeon(monkeypatch):
    for kind in ("classification", "regression"):
        module = types.ModuleType(f"aeon.{kind}.convolution_based")
        module.MiniRocketClassifier = module.MiniRocketRegressor = Rival
        monkeypatch.setitem(sys.modules, f"aeon.{kind}", types.ModuleType(f"aeon.{kind}"))
        monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setitem(sys.modules, "aeon", types.ModuleType("aeon"))


def test_its_score_is_said_and_reported(aeon, tmp_path, capsys):
    words = ["train", str(wave_file(tmp_path)), "--out", str(tmp_path / "run"), "--compare"]
    assert cli.main(words) == 0
    found = json.loads((tmp_path / "run" / "scores.json").read_text())
    share = found["minirocket"]["accuracy"]
    assert share in (found["baseline"]["accuracy"], 1 - found["baseline"]["accuracy"])
    assert f"; MiniRocket: accuracy {share:.1%}" in capsys.readouterr().out
    page = (tmp_path / "run" / "report.html").read_text()
    assert "MiniRocket" in page and "constant prediction" in page


def test_numbers(aeon):
    train, test = (Cases.of(np.ones((3, 12, 1)), np.array(y)) for y in ([0.0, 1.0, 5.0], [1.0, 3.0, 1.0]))
    assert minirocket(train, test, classify=False, seed=0)["mse"] == pytest.approx(4 / 3)


@pytest.mark.parametrize(
    ("series", "says"),
    [
        ([np.ones((12, 2)), np.ones((13, 2))], "series of equal length"),
        (np.ones((2, 8, 2)), "at least 9 steps"),
        (np.where(np.arange(24).reshape(1, 12, 2) == 5, np.nan, np.ones((2, 1, 1))), "without missing values"),
    ],
)
def test_what_it_cannot_take_is_left_out(aeon, series, says):
    test = Cases.of(series, np.array([0, 1]), missing="mask")
    train = Cases.of(np.ones((4, 8, 2)), TRAIN.targets) if "steps" in says else TRAIN
    assert says in minirocket(train, test, classify=True, seed=0)


def test_without_aeon(monkeypatch, tmp_path, capsys):
    monkeypatch.setitem(sys.modules, "aeon", None)
    assert cli.main(["train", str(wave_file(tmp_path)), "--out", str(tmp_path / "run"), "--compare"]) == 2
    assert '--compare needs aeon for MiniRocket; install it with pip install "lrcssm[uea]"' in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


@pytest.mark.slow
def test_minirocket_itself():
    pytest.importorskip("aeon")
    rng, y = np.random.default_rng(0), np.arange(40) % 2
    X = np.sin(np.where(y, 0.9, 0.2)[:, None] * np.arange(30) + rng.uniform(0, 6, (40, 1)))[..., None]
    train, test = (Cases.of(X[part], y[part]) for part in (slice(0, 28), slice(28, None)))
    assert minirocket(train, test, classify=True, seed=0)["accuracy"] >= 0.9
