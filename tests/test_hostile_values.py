"""One bad value or odd name in the data: a message and an exit code, never a prediction, a hang or a traceback."""

import csv
import json
import os
import pathlib
import subprocess
import sys

import numpy as np
import pytest

import lrcssm
from lrcssm import LrcRidgeClassifier, LrcSSMClassifier, LrcSSMRegressor, cli
from lrcssm.errors import TrainingError
from lrcssm.locks import alone
from lrcssm.training.folder import Folder
from lrcssm.training.predictions import as_csv

TINY = ["--hidden-dim", "4", "--state-dim", "4", "--num-blocks", "1", "--patch", "1", "--steps", "2", "--batch", "4"]
SMALL = {"hidden_dim": 4, "state_dim": 4, "num_blocks": 1, "patch": 1, "steps": 2, "batch": 4, "validation_fraction": 0.0, "random_state": 0}  # fmt: skip


@pytest.fixture(autouse=True)
def as_a_user_has_it(defaults, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def waves(count=12):
    rng = np.random.default_rng(0)
    return rng.normal(size=(count, 9, 1)).astype(np.float32), np.arange(count) % 2


def write(name, X, y, **more):
    np.savez(name, X=X, y=np.asarray(y).astype(str), **more)


def last_line(text):
    assert "Traceback" not in text
    return text.splitlines()[-1]


@pytest.mark.parametrize("devices", [pytest.param("1", marks=pytest.mark.slow), "1x2"])
def test_a_huge_value_in_a_validation_case(devices):
    """The solve that it spoils ends the command with a sentence; over two devices, none waits for the other."""
    X, y = waves(15)
    X[6, 3] = 3.4e38
    write("spoilt.npz", X, y, split=np.repeat([0, 1, 2], 5))
    words = ["train", "spoilt.npz", "--method", "gradient", *TINY, "--out", "run", "--devices", devices]
    run = subprocess.run([sys.executable, "-m", "lrcssm", *words], capture_output=True, text=True, timeout=120)
    assert run.returncode == 2, run.stderr
    assert "infinity" in last_line(run.stderr) or "finite" in last_line(run.stderr)


@pytest.mark.parametrize("kind", ["gradient", "ridge"])
def test_outputs_that_are_not_finite_are_no_class(kind):
    """Either the model takes a value that large, or the estimator refuses it: never NaN."""
    X, y = waves()
    model = LrcSSMClassifier(**SMALL) if kind == "gradient" else LrcRidgeClassifier(n_features=280, random_state=0)
    model.fit(X[..., 0], y)
    bad = X[:2, :, 0].copy()
    for value in (1e20, 9.97e36, 3e38):
        bad[1, 4] = value
        for method in (model.predict, model.predict_proba, model.decision_function, lambda X: model.score(X, y[:2])):
            try:
                found = method(bad)
            except lrcssm.LrcssmError as error:
                assert str(error).count("\n") == 0 and ("finite" in str(error) or "infinity" in str(error))
            else:
                assert np.isfinite(found).all()


def spoil(model):
    """Weights that make every output NaN, as a value of the data would that overflows inside."""
    import equinox as eqx

    return eqx.tree_at(lambda m: m.head.bias, model, np.full_like(model.head.bias, np.nan))


def test_commands_print_no_nan(capsys):
    X, y = waves()
    model = LrcSSMClassifier(**SMALL).fit(X[..., 0], y.astype(str))
    lrcssm.training.Trained(spoil(model.model_), model.classes_).save("model.lrcssm")
    write("new.npz", X, y)
    for words in (["predict", "model.lrcssm", "new.npz"], ["predict", "model.lrcssm", "new.npz", "--json"], ["evaluate", "model.lrcssm", "new.npz"]):  # fmt: skip
        assert cli.main(words) == 2
        out, err = capsys.readouterr()
        assert out == "" and "not finite" in last_line(err)


@pytest.mark.parametrize("kind", [LrcSSMClassifier, LrcSSMRegressor])
def test_partial_fit_heeds_the_status(kind):
    """A solve that fails in a pass is an error, and the model is unchanged."""
    X, y = waves()
    more = {"classes": [0, 1]} if kind is LrcSSMClassifier else {}
    model = kind(**SMALL).partial_fit(X[..., 0], y, **more)
    want = model.predict(X[..., 0])
    bad = X[..., 0].copy()
    bad[3, 2] = 3.4e38
    with pytest.raises((TrainingError, lrcssm.LrcssmError)) as error:
        model.partial_fit(bad, y)
    assert str(error.value).count("\n") == 0
    np.testing.assert_array_equal(model.predict(X[..., 0]), want)


def test_partial_fit_heeds_a_solve_without_an_end():
    """The loss is finite here: only the status says that the states are wrong."""
    X, y = waves()
    model = LrcSSMRegressor(**SMALL, solver=lrcssm.DEER(max_steps=1))
    with pytest.raises(TrainingError, match=r"Training failed at step 1, .* used up max_steps"):
        model.partial_fit(X[..., 0], y)
    assert not hasattr(model, "trained_")


def test_one_process_at_a_time(tmp_path, capsys):
    write("a.npz", *waves())
    with alone(tmp_path / "run", ".lock") as mine:
        assert mine
        assert cli.main(["train", "a.npz", "--out", "run", *TINY]) == 2
    assert "Another process is training in run" in last_line(capsys.readouterr().err)
    assert [one.name for one in (tmp_path / "run").iterdir()] == [".lock"]


@pytest.mark.parametrize("left", [[".run.json.abc"], ["model.lrcssm", ".lock"], ["run.json", ".predictions.csv.x"]])
def test_a_folder_that_a_kill_left_can_be_used(left, tmp_path):
    """After a process was killed while it wrote the first file, or replaced an older run."""
    write("a.npz", *waves())
    (tmp_path / "run").mkdir()
    for name in left:
        (tmp_path / "run" / name).write_text("{")
    assert cli.main(["train", "a.npz", "--out", "run", "--quiet", "--overwrite", *TINY]) == 0
    assert json.loads((tmp_path / "run" / "run.json").read_text())["data"]["name"] == "a"
    assert not (tmp_path / "run" / ".lock").exists()


def test_the_description_of_a_run_goes_last(tmp_path, monkeypatch):
    """A process that is killed while it replaces a run leaves a folder that is known to be one."""
    folder = Folder(tmp_path / "run")
    folder.path.mkdir()
    for name in ("run.json", "model.lrcssm", "scores.json", ".predictions.csv.x", "mine.txt"):
        folder.file(name).write_text("{}")
    removed, unlink = [], pathlib.Path.unlink

    def count(path, **more):
        assert folder.file("run.json").exists()
        removed.append(path.name)
        unlink(path, **more)

    monkeypatch.setattr(pathlib.Path, "unlink", count)
    folder.begin({"training": {"seed": 1}}, resume=False)
    assert sorted(removed) == [".predictions.csv.x", "model.lrcssm", "scores.json"]
    assert sorted(os.listdir(folder.path)) == ["mine.txt", "run.json"]
    assert folder.read_json("run.json") == {"training": {"seed": 1}}


@pytest.mark.parametrize("listed", [False, True])
def test_one_class_is_nothing_to_learn(listed, capsys):
    """Also if the file lists two, of which one has no case."""
    X, y = waves()
    write("alone.npz", X, np.full(len(y), "a"), **({"classes": np.array(["a", "b"])} if listed else {}))
    assert cli.main(["train", "alone.npz", "--out", "run"]) == 2
    assert last_line(capsys.readouterr().err) == "lrcssm: alone has cases of 1 class; give some of at least 2."
    for model in (LrcSSMClassifier(**SMALL), LrcRidgeClassifier(n_features=280)):
        with pytest.raises(ValueError, match=r"got y with 1 class, .*; give cases of at least 2 classes"):
            model.fit(X[..., 0], np.full(len(y), "a"))


@pytest.mark.parametrize("command", ["predict", "evaluate", "forecast"])
def test_no_text_from_a_model_or_a_table_controls_a_terminal(command, capsys):
    """Labels of a model file that someone else wrote, and names of columns, to the terminal and to spreadsheets."""
    bad = "\x1b]0;x\x07\x9b31m"
    X, y = waves()
    if command == "forecast":
        cells = "\n".join(f"{value:.3f},{value + 1:.3f}" for value in np.sin(np.arange(60) / 2))
        with open("table.csv", "w", encoding="utf-8") as file:
            file.write(f"=cmd|' /C calc'!A0,y{bad}\n{cells}\n")
        words = ["forecast", "table.csv", "--horizon", "2", "--origins", "1", "--season", "1", "--coverage", "0.5"]
    else:
        model = LrcRidgeClassifier(n_features=28, random_state=0).fit(X[..., 0], np.array(["up", f"down{bad}"])[y])
        lrcssm.training.Trained(model.model_, model.classes_, channels=(f"x{bad}",)).save("model.lrcssm")
        write("new.npz", X, np.array(["up", f"down{bad}"])[y], channel_names=np.array([f"x{bad}"]))
        words = [command, "model.lrcssm", "new.npz"]
    assert cli.main(words) == 0
    text = "".join(capsys.readouterr())
    assert "\\x1b" in text and all(line.isprintable() for line in text.splitlines())
    if command == "forecast":
        with open("table-forecast.csv", newline="") as file:
            assert next(csv.reader(file))[1] == "'=cmd|' /C calc'!A0"
        return
    write("other.npz", X, y, channel_names=np.array(["z"]))
    assert cli.main([command, "model.lrcssm", "other.npz"]) == 2
    assert last_line(capsys.readouterr().err).isprintable()


def test_labels_below_zero_stay_numbers():
    """A spreadsheet takes =, + and − for the start of a formula, but -1 is a number."""
    rows = [{"case": 0, "prediction": "-1", "p(-1)": 0.5}, {"case": 1, "prediction": "-1+cmd", "p(-1)": 0.5}]
    assert as_csv(rows) == "case,prediction,p(-1)\n0,-1,0.5\n1,'-1+cmd,0.5\n"


def test_names_that_are_programs_elsewhere(tmp_path):
    """Class names that look like mathematics to matplotlib and like a formula to a spreadsheet."""
    X, y = waves(30)
    write("odd.npz", X, np.array(["a$x^$b", "=cmd|' /C calc'!A0"])[y])
    assert cli.main(["train", "odd.npz", "--out", "run", "--quiet"]) == 0
    assert "<svg" in (tmp_path / "run" / "report.html").read_text()
    rows = list(csv.DictReader((tmp_path / "run" / "predictions.csv").read_text().splitlines()))
    assert {row["target"] for row in rows} == {"a$x^$b", "'=cmd|' /C calc'!A0"}
