"""The benchmark of classifiers over an archive, with small classifiers of its own."""

import json
import os

import numpy as np
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin
from wing import run
from writers import write_ts

import lrcssm
from lrcssm_paper import ranks
from lrcssm_paper.benchmark import ArchiveBenchmark, archive, classifiers


class Nearest(ClassifierMixin, BaseEstimator):
    """The class whose mean over cases and time is nearest; the seed is added to the means, which shifts its decisions."""

    fits = 0

    def __init__(self, random_state=0, missing="error"):
        self.random_state, self.missing = random_state, missing

    def fit(self, X, y):
        type(self).fits += 1
        values = self._values(X)
        self.classes_ = np.unique(y)
        self.means_ = np.array([values[y == label].mean() for label in self.classes_])
        return self

    def _values(self, X):
        if self.missing == "error" and any(np.isnan(one).any() for one in X):
            raise ValueError("There are gaps.\nGive other data.")
        return np.array([np.nanmean(one) for one in X])

    def predict_proba(self, X):
        closeness = np.exp(-np.abs(self._values(X)[:, None] - self.means_))
        return closeness / closeness.sum(1, keepdims=True)

    def predict(self, X):
        return self.classes_[self.predict_proba(X).argmax(1)]


class Equal(Nearest):
    """Takes only series of one length, and votes."""

    def __init__(self, random_state=0):
        self.random_state, self.missing = random_state, "fill"

    def fit(self, X, y):
        if isinstance(X, list):
            raise ValueError("The lengths differ.")
        return super().fit(X, y)

    def predict_proba(self, X):
        return np.eye(len(self.classes_))[super().predict_proba(X).argmax(1)]


class First(Nearest):
    """Always the first class."""

    def predict(self, X):
        return np.repeat(self.classes_[:1], len(X))


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Three sets of two classes, at 0 and at 2: one plain, one with two lengths, one with a gap; and half a pair."""
    for kind in (Nearest, Equal, First):
        monkeypatch.setattr(lrcssm, f"{kind.__name__}Classifier", kind, raising=False)
        monkeypatch.setattr(kind, "fits", 0)
    place = tmp_path / "sets"
    place.mkdir()
    for name in ("Plain", "Lengths", "Gaps"):
        for part, seed in (("TRAIN", 0), ("TEST", 1)):
            rng = np.random.default_rng(seed)
            labels = ["a", "b"] * 4
            lengths = [5, 7] * 4 if name == "Lengths" else [6] * 8
            series = [
                rng.normal(2.0 * (label == "b"), 0.1, (length, 2))
                for label, length in zip(labels, lengths, strict=True)
            ]
            if name == "Gaps":
                series[0][2, 0] = np.nan
            write_ts(place / f"{name}_{part}.ts", series, labels, ["a", "b"])
    write_ts(place / "Half_TRAIN.ts", [np.zeros((3, 1))], ["a"], ["a", "b"])
    return place


MODELS = ("NearestClassifier", "EqualClassifier", "FirstClassifier")


def test_archive(folder, tmp_path, capsys):
    results, record = tmp_path / "made" / "results.jsonl", tmp_path / "record.json"
    words = ["archive", folder, "--models", *MODELS, "--results", results]
    run("benchmark", *words, "--json", record, "--picture", tmp_path / "picture.png")
    out = " ".join(capsys.readouterr().out.split())
    assert "EqualClassifier does not accept Lengths: The lengths differ." in out and "Half" not in out
    assert (tmp_path / "picture.png").read_bytes()[1:4] == b"PNG"
    lines = [json.loads(line) for line in results.read_text().splitlines()]
    assert [(line["dataset"], line["model"]) for line in lines] == [
        (name, model) for name in ("Gaps", "Lengths", "Plain") for model in MODELS
    ]
    found = {(line["dataset"], line["model"]): line for line in lines}
    assert (
        found["Plain", "NearestClassifier"]["accuracy"] == 1.0 and found["Plain", "FirstClassifier"]["accuracy"] == 0.5
    )
    assert (
        found["Lengths", "EqualClassifier"]["refused"] == "The lengths differ."
        and found["Lengths", MODELS[0]]["length"] == 7
    )
    assert found["Gaps", "NearestClassifier"]["accuracy"] == 1.0  # gaps are filled where a classifier can
    assert found["Plain", "EqualClassifier"]["log_loss"] is None and 0 < found["Plain", MODELS[0]]["log_loss"] < 0.5
    assert found["Plain", MODELS[0]]["train_cases"] == found["Plain", MODELS[0]]["test_cases"] == 8

    nearest, equal, first = json.loads(record.read_text())["summary"]
    assert (nearest["sets"], nearest["draws"], nearest["accuracy"]) == (3, 3, 1.0)
    assert (equal["sets"], equal["wins"], equal["draws"], equal["refused"]) == (2, 0, 2, ["Lengths"])
    assert (first["sets"], first["wins"], first["losses"]) == (3, 3, 0) and first["first_accuracy"] == 1.0

    # A run that was killed while it wrote its last line goes on from there, and runs nothing else again.
    fits = Nearest.fits
    text = results.read_text()
    results.write_text(text[:-20])
    run("benchmark", *words)
    assert First.fits == 4 and Nearest.fits == fits
    assert len(results.read_text().splitlines()) == 9
    # Other seeds and other data are other results.
    run("benchmark", *words, "--datasets", "Plain", "--seed", "1")
    assert len(results.read_text().splitlines()) == 12 and Nearest.fits == fits + 1
    (folder / "Plain_TEST.ts").write_text((folder / "Plain_TEST.ts").read_text() + "\n")
    run("benchmark", *words, "--datasets", "Plain")
    assert len(results.read_text().splitlines()) == 15


def test_wins_against_loops():
    rng = np.random.default_rng(0)
    rows = [
        {"dataset": f"set {i}", "model": model, "accuracy": float(rng.integers(5, 9)) / 10, "log_loss": None, "fit_s": 1.0,
         "predict_s": 2.0}
        for i in range(20) for model in "abcd"
    ]  # fmt: skip
    del rows[7]["accuracy"], rows[7]["fit_s"]
    rows[7]["refused"] = "It is too long."
    score = {(row["model"], row["dataset"]): row.get("accuracy") for row in rows}
    for entry in archive.compare(rows, "abcd"):
        wins = draws = losses = 0
        for i in range(20):
            ours, theirs = score["a", f"set {i}"], score[entry["model"], f"set {i}"]
            if theirs is not None:
                wins, draws, losses = wins + (ours > theirs), draws + (ours == theirs), losses + (ours < theirs)
        assert (entry["wins"], entry["draws"], entry["losses"]) == (wins, draws, losses)
        assert entry["fit_s"] == entry["sets"] == (19 if entry["model"] == "d" else 20)
    # Twenty sets of four models: without the set that one lacks there are more numbers than without the model.
    found = archive.ranked(rows)
    assert found is not None and len(found.datasets) == 19 and len(found.names) == 4
    assert "4 models over 19 data sets. Friedman's test" in ranks.sentences(found, "results")[0]


def test_log_loss():
    classes, truth = np.array(["a", "b"]), np.array(["a", "b", "c"])
    found = classifiers.log_loss(np.array([[0.5, 0.5], [0.2, 0.8], [1.0, 0.0]]), classes, truth)
    assert found == pytest.approx(-(np.log(0.5) + np.log(0.8) + np.log(1e-15)) / 3)
    assert classifiers.log_loss(np.eye(2)[[0, 1, 0]], classes, truth) is None


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="this system does not bind threads to cores")
def test_threads():
    before = os.sched_getaffinity(0)
    with classifiers.limited_to(1):
        assert len(os.sched_getaffinity(0)) == 1
    assert os.sched_getaffinity(0) == before


def test_mistakes(folder, tmp_path, monkeypatch):
    with pytest.raises(ValueError, match=r"holds no pairs NAME_TRAIN.ts and NAME_TEST.ts"):
        archive.measure(ArchiveBenchmark(folder=str(tmp_path / "none")))
    for name in ("Rocket", "SequenceModel"):
        with pytest.raises(ValueError, match=f"--models got '{name}'; give some of .*LrcSSMClassifier.*, MiniRocket, "):
            archive.measure(ArchiveBenchmark(folder=str(folder), models=(name,)))
    with pytest.raises(ValueError, match="--datasets got 'Half'; give all, or some of Gaps, Lengths, Plain"):
        archive.measure(ArchiveBenchmark(folder=str(folder), datasets=("Half",)))
    monkeypatch.setattr(classifiers.importlib.util, "find_spec", lambda name: None)
    options = ArchiveBenchmark(folder=str(folder), models=("MiniRocket",), results=str(tmp_path / "results.jsonl"))
    record = archive.measure(options)
    assert record["rows"] == [] and record["unavailable"]["MiniRocket"].startswith("aeon is not installed")
    archive.show(record)


@pytest.mark.slow
def test_minirocket(folder, tmp_path):
    pytest.importorskip("aeon")
    options = ArchiveBenchmark(folder=str(folder), models=("MiniRocket",), results=str(tmp_path / "results.jsonl"))
    rows = {row["dataset"]: row for row in archive.measure(options)["rows"]}
    assert "unequal length" in rows["Lengths"]["refused"] and "missing values" in rows["Gaps"]["refused"]
