"""Trained models and data that is new to them: names, times, targets and missing values as in training, or a sentence."""

import csv
import dataclasses
import json

import jax
import numpy as np
import pytest
from test_runs import TINY, refused, wave_file
from test_training import as_a_user_has_it  # noqa: F401, a fixture

from lrcssm import LrcSSMClassifier, cli
from lrcssm.cli.evaluate import open_model
from lrcssm.data import load


def timed_file(path, *, cases=12, step=None, order=("a", "b"), time=True, label=True, hole=False):
    """Series of two named channels with names of cases, at unequal times or every `step`."""
    rng = np.random.default_rng(1)
    names = ["id", *(["time"] if time else []), *order, *(["label"] if label else [])]
    lines = [",".join(names)]
    for case in range(cases):
        times = np.cumsum(rng.uniform(0.1, 0.5, 7)) if step is None else step * np.arange(7)
        for k, now in enumerate(times):
            row = {"id": f"id{case:03}", "time": f"{now:.6f}", "a": f"{np.sin(now + case):.5f}"}
            row |= {"b": f"{case + 3 * k}", "c": "0", "label": ("up", "down")[case % 2]}
            if hole and k == 2:
                row["a"] = ""
            lines.append(",".join(row[name] for name in names))
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.fixture(scope="module")
def timed(tmp_path_factory):
    """A run on unequal times, begun with relative paths."""
    folder = tmp_path_factory.mktemp("timed")
    timed_file(folder / "x.csv")
    with pytest.MonkeyPatch.context() as patch, jax.enable_x64(False), jax.numpy_dtype_promotion("standard"):
        patch.chdir(folder)
        assert cli.main(["train", "x.csv", "--out", "run", *TINY]) == 0
    return folder


def predictions(words, capsys):
    capsys.readouterr()
    assert cli.main(["predict", *map(str, words)]) == 0
    return list(csv.DictReader(capsys.readouterr().out.splitlines()))


def test_cases_keep_their_names_and_channels_theirs(timed, tmp_path, capsys):
    tested = list(csv.DictReader((timed / "run" / "predictions.csv").read_text().splitlines()))
    rows = predictions([timed / "run", timed / "x.csv"], capsys)
    assert [row["case"] for row in rows] == [f"id{case:03}" for case in range(12)]
    by_name = {row["case"]: row["p(up)"] for row in rows}
    assert all(by_name[row["case"]] == row["p(up)"] for row in tested)
    swapped = timed_file(tmp_path / "swapped.csv", order=("b", "a"), label=False)
    assert predictions([timed / "run", swapped], capsys) == rows
    other = timed_file(tmp_path / "other.csv", order=("a", "c"))
    for command in ("predict", "evaluate"):
        refused([command, timed / "run", other], "are a, c, but the model was trained on a, b", capsys)


def test_evaluate_knows_the_data_of_a_run(timed, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)  # the source was given as x.csv in another folder
    assert cli.main(["evaluate", str(timed / "run"), "--json"]) == 0
    want = json.loads((timed / "run" / "scores.json").read_text())
    found = json.loads(capsys.readouterr().out)
    assert found["part"] == "test" and found["log_loss"] == want["log_loss"]
    before = (timed / "x.csv").read_text()
    try:
        (timed / "x.csv").write_text(before + "id999,0,1,1,up\nid999,1,1,1,up\n")
        refused(["evaluate", timed / "run"], "x.csv has changed since", capsys)
        assert cli.main(["evaluate", str(timed / "run"), str(timed / "x.csv")]) == 0
    finally:
        (timed / "x.csv").write_text(before)


def test_resume_is_of_the_same_run(timed, tmp_path, capsys):
    """Also before the first checkpoint."""
    out = tmp_path / "run"
    out.mkdir()
    (out / "run.json").write_bytes((timed / "run" / "run.json").read_bytes())
    words = ["train", timed / "x.csv", "--out", out, *TINY, "--resume"]
    refused([*words, "--split-seed", "5"], "its command has split_seed=0, not 5", capsys)
    refused([*words, "--learning-rate", "1"], "its training is learning_rate=0.003, not 1.0", capsys)
    other = timed_file(tmp_path / "x.csv", cases=11)
    refused(["train", other, *words[2:]], "its data is fingerprint=", capsys)


def test_a_run_remembers_the_column_of_its_targets(tmp_path, capsys):
    path, out = wave_file(tmp_path, channels=2), tmp_path / "run"
    text = path.read_text().replace("c0,c1", "x,y")
    path.write_text(text.replace("label", "speed").replace("slow", "0.25").replace("fast", "0.75"))
    refused(
        ["train", path, "--out", out, *TINY, "--target", "pace"], "there are 'case', 'time', 'x', 'y', 'speed'", capsys
    )
    words = ["train", str(path), "--out", str(out), *TINY, "--target", "speed"]
    assert cli.main(words) == 0
    assert "--target speed" in json.loads((out / "run.json").read_text())["command"]
    mse = json.loads((out / "scores.json").read_text())["mse"]
    capsys.readouterr()
    assert cli.main(["evaluate", str(out), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["mse"] == pytest.approx(mse)
    for more in ([], ["--target", "speed"]):
        assert cli.main(["evaluate", str(out), str(path), "--json", *more]) == 0
        assert json.loads(capsys.readouterr().out)["cases"] == 12
    refused(["evaluate", out, "--target", "speed"], "leave them out", capsys)
    refused(["evaluate", out, path, "--target", "pace"], "no column is called 'pace'", capsys)
    wanted = predictions([out, path], capsys)
    new = tmp_path / "new.csv"
    new.write_text(text.replace(",label", "").replace(",slow", "").replace(",fast", ""))
    assert predictions([out, new], capsys) == wanted
    new.write_text("time,x,y\n0,1,1\n1,2,1\n")
    refused(["predict", out, new], "has 1 channels", capsys)
    assert len(predictions([out, new, "--target", "none"], capsys)) == 1


def test_times_are_those_of_training(timed, tmp_path, capsys):
    trained = open_model(str(timed / "run"))
    regular = load(timed_file(tmp_path / "regular.csv", step=0.1))
    np.testing.assert_allclose(trained.cases(regular).dt[0][1:], 0.1 / trained.unit, rtol=1e-5)
    without = timed_file(tmp_path / "without.csv", time=False)
    refused(["predict", timed / "run", without], "has no times, but the model was trained with them", capsys)
    equal = dataclasses.replace(trained, unit=None)
    with pytest.raises(ValueError, match="take unequal times"):
        equal.cases(load(timed / "x.csv"))
    assert equal.cases(regular).dt is None


def test_missing_values_can_be_dealt_with_at_the_command_line(timed, tmp_path, capsys):
    hole = timed_file(tmp_path / "hole.csv", hole=True)
    says = "has 12 missing values, the first of them in case id000; --missing mask skips such steps"
    for words in (["predict", timed / "run"], ["evaluate", timed / "run"], ["train", "--out", tmp_path / "o", *TINY]):
        refused([*words[:2], hole, *words[2:]] if words[0] != "train" else ["train", hole, *words[1:]], says, capsys)
    assert len(predictions([timed / "run", hole, "--missing", "mask"], capsys)) == 12
    assert cli.main(["evaluate", str(timed / "run"), str(hole), "--missing", "fill"]) == 0


def test_a_saved_estimator_predicts_its_classes(tmp_path, capsys):
    rng = np.random.default_rng(0)
    series = rng.normal(size=(8, 2, 5)).astype(np.float32)
    few = {
        "hidden_dim": 4,
        "state_dim": 4,
        "num_blocks": 1,
        "steps": 1,
        "patch": 1,
        "validation_fraction": 0.0,
        "random_state": 0,
    }
    estimator = LrcSSMClassifier(**few, missing="fill").fit(series, np.repeat([3, 7], 4))
    estimator.save(tmp_path / "est.lrcssm")
    np.savez(tmp_path / "new.npz", X=series.transpose(0, 2, 1), y=np.repeat([3, 7], 4))
    rows = predictions([tmp_path / "est.lrcssm", tmp_path / "new.npz"], capsys)
    assert [row["prediction"] for row in rows] == estimator.predict(series).astype(str).tolist()
    shares = [[float(row["p(3)"]), float(row["p(7)"])] for row in rows]
    np.testing.assert_allclose(shares, estimator.predict_proba(series), atol=1e-4)
    np.savez(tmp_path / "two.npz", X=series[3:5].transpose(0, 2, 1), y=[3, 7])  # which look like numbers
    assert cli.main(["evaluate", str(tmp_path / "est.lrcssm"), str(tmp_path / "two.npz")]) == 0
    assert "two: accuracy" in capsys.readouterr().out
    trained = open_model(str(tmp_path / "est.lrcssm"))
    assert trained.missing == "fill" and trained.unit is None
