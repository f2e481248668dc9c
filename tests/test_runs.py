"""The commands train, evaluate and predict: files, output and errors."""

import csv
import json
import re
import subprocess
import sys
import time

import jax
import numpy as np
import pytest
from test_training import as_a_user_has_it  # noqa: F401, a fixture

from lrcssm import cli
from lrcssm.cli.options import ModelOptions, TrainingOptions, given
from lrcssm.data import load
from lrcssm.training import Facts, recipe
from lrcssm.training.predictions import bootstrap, wilson
from lrcssm.training.recipe import find_preset

SMALL = [
    "--hidden-dim",
    "8",
    "--state-dim",
    "8",
    "--num-blocks",
    "1",
    "--check-every",
    "10",
    "--steps",
    "20",
    "--pool",
    "mean",
]
FILES = {
    "run.json",
    "history.jsonl",
    "checkpoint.lrcssm",
    "model.lrcssm",
    "predictions.csv",
    "scores.json",
    "report.html",
}


@pytest.fixture(scope="module")
def digits(tmp_path_factory):
    """A run on digits that learned a little."""
    folder = tmp_path_factory.mktemp("runs") / "digits"
    with jax.enable_x64(False), jax.numpy_dtype_promotion("standard"):
        words = ["train", "digits", "--out", str(folder), "--patch", "8", *SMALL, "--quiet", "--bidirectional", "no"]
        assert cli.main(words) == 0
    return folder


def wave_file(folder, channels=1, label=True, name="waves.csv"):
    """A file of twelve short series of two classes, one row for each step."""
    rng = np.random.default_rng(0)
    lines = ["case,time," + ",".join(f"c{k}" for k in range(channels)) + (",label" if label else "")]
    for case in range(12):
        phase = rng.uniform(0, 6)
        for t in range(9):
            values = [f"{np.sin(phase + t * (0.3, 0.9)[case % 2]):.5f}"] * channels
            lines.append(",".join([str(case), str(t), *values, *([("slow", "fast")[case % 2]] if label else [])]))
    path = folder / name
    path.write_text("\n".join(lines) + "\n")
    return path


def test_a_run_leaves_its_folder(digits):
    assert {one.name for one in digits.iterdir()} - {"checkpoint.lrcssm.previous"} == FILES
    facts = json.loads((digits / "run.json").read_text())
    assert facts["command"].startswith("lrcssm train digits --out") and "--patch 8" in facts["command"]
    assert facts["data"]["cases"] == {"train": 1257, "validation": 270, "test": 270}
    history = [json.loads(line) for line in (digits / "history.jsonl").read_text().splitlines()]
    assert [look["step"] for look in history] == [10, 20]
    found = json.loads((digits / "scores.json").read_text())
    low, high = found["interval"]
    assert low < found["accuracy"] < high
    rows = list(csv.DictReader((digits / "predictions.csv").read_text().splitlines()))
    assert len(rows) == 270 and sum(row["target"] == row["prediction"] for row in rows) / 270 == found["accuracy"]
    np.testing.assert_allclose([sum(float(row[f"p({k})"]) for k in range(10)) for row in rows], 1, atol=1e-4)


def test_the_report_stands_alone(digits):
    page = (digits / "report.html").read_text()
    for word in ("Learning curves", "Confusion matrix", "Most uncertain", "Memory", "lrcssm train digits"):
        assert word in page
    assert "Iterations of the solver" not in page  # a sequential sweep has none
    assert not re.search(r"(src|href)=[\"']https?:", page)
    # Confusion, reliability, six cases, two learning curves, memory.
    assert page.count("<svg") == page.count("</svg>") == 11


def test_evaluate_repeats_the_scores(digits, capsys):
    assert cli.main(["evaluate", str(digits), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    want = json.loads((digits / "scores.json").read_text())
    assert found["accuracy"] == want["accuracy"] and found["cases"] == 270
    assert cli.main(["evaluate", str(digits / "model.lrcssm"), "digits"]) == 0
    assert "95 % interval" in capsys.readouterr().out


def test_predict_writes_a_row_for_each_case(digits, tmp_path, capsys):
    assert cli.main(["predict", str(digits), "digits"]) == 0
    rows = list(csv.DictReader(capsys.readouterr().out.splitlines()))
    assert len(rows) == 1797
    chosen = {int(row["case"]): row["prediction"] for row in rows}
    for row in csv.DictReader((digits / "predictions.csv").read_text().splitlines()):
        assert chosen[int(row["case"])] == row["prediction"]
    assert cli.main(["predict", str(digits), "digits", "--json", "--out", str(tmp_path / "p.jsonl")]) == 0
    assert json.loads((tmp_path / "p.jsonl").read_text().splitlines()[0])["prediction"] == rows[0]["prediction"]


def test_resume_of_a_finished_run_changes_nothing(digits, capsys):
    before = {name: (digits / name).read_bytes() for name in ("model.lrcssm", "predictions.csv", "scores.json")}
    words = [
        "train",
        "digits",
        "--out",
        str(digits),
        "--patch",
        "8",
        *SMALL,
        "--bidirectional",
        "no",
        "--resume",
        "--json",
    ]
    assert cli.main(words) == 0
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["test"]["cases"] == 270
    assert before == {name: (digits / name).read_bytes() for name in before}


TINY = [
    "--hidden-dim", "4", "--state-dim", "4", "--num-blocks", "1", "--patch", "1", "--pool", "mean", "--steps", "2", "--batch", "4", "--quiet",
]  # fmt: skip


def refused(words, says, capsys):
    """A command that ends in one sentence."""
    capsys.readouterr()
    assert cli.main([str(word) for word in words]) == 2, words
    text = capsys.readouterr().err
    assert says in text.splitlines()[-1] and "Traceback" not in text, (words, text)


@pytest.mark.parametrize(
    "extra, says",
    {
        "--truncate 5 --bidirectional yes": "is bidirectional; leave truncate out",
        "--memory much": "got memory='much'; give a number of bytes",
        "--cell-options rho=2.0": "give a number between 0 and 1",
        "--cell-options rho=abc": "rho=abc: one of them is of the wrong type",
        "--cell-options max_time=abc": "max_time=abc: one of them is of the wrong type",
        "--cell S5 --cell-options blocks=abc": "No S5 can be made with the options blocks=abc",
        "--seed 99999999999999999999999": "give a whole number from 0 to 4294967295",
        "--split-seed -1": "The split got seed=-1; give a whole number of at least 0",
    }.items(),
)
def test_what_is_refused_leaves_an_older_run_as_it_is(extra, says, tmp_path, capsys):
    path, out = wave_file(tmp_path), tmp_path / "run"
    out.mkdir()
    for name in FILES:
        (out / name).write_text(f"old {name}")
    refused(["train", path, "--out", out, "--overwrite", *TINY, *extra.split()], says, capsys)
    assert {one.name: one.read_text() for one in out.iterdir()} == {name: f"old {name}" for name in FILES}


def test_a_source_without_a_test_part_is_scored_on_validation(tmp_path, capsys):
    rng = np.random.default_rng(0)
    facts = {"X": rng.normal(size=(10, 6, 1)), "y": rng.normal(size=(10, 2)), "split": np.arange(10) % 2}
    np.savez(tmp_path / "two.npz", **facts)
    words = ["train", str(tmp_path / "two.npz"), "--out", str(tmp_path / "run"), *TINY]
    for more in ([], ["--resume"]):
        assert cli.main([*words, *more]) == 0
        assert "validation (there is no test part): mean squared error" in capsys.readouterr().out
    rows = list(csv.DictReader((tmp_path / "run" / "predictions.csv").read_text().splitlines()))
    assert list(rows[0]) == ["case", "target_0", "target_1", "prediction_0", "prediction_1"]
    assert [int(row["case"]) for row in rows] == [1, 3, 5, 7, 9]
    np.testing.assert_allclose([float(row["target_1"]) for row in rows], facts["y"][1::2, 1])
    assert "Validation cases" in (tmp_path / "run" / "report.html").read_text()
    assert cli.main(["evaluate", str(tmp_path / "run")]) == 0
    assert "validation (there is no test part)" in capsys.readouterr().out
    np.savez(tmp_path / "late.npz", **facts | {"split": np.arange(10) % 2 + 1})
    refused(["train", tmp_path / "late.npz", *TINY, "--out", tmp_path / "o"], "has no training part", capsys)


@pytest.mark.slow
def test_own_file_with_unequal_steps(tmp_path, capsys):
    """From a file with irregular times to predictions for another file without labels."""
    path, out = wave_file(tmp_path), tmp_path / "run"
    assert cli.main(["train", str(path), "--out", str(out), *SMALL, "--batch", "4", "--json"]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line.get("step") for line in lines] == [10, 20, None]
    other = wave_file(tmp_path, label=False, name="unknown.csv")
    assert cli.main(["predict", str(out), str(other)]) == 0
    assert {row["prediction"] for row in csv.DictReader(capsys.readouterr().out.splitlines())} <= {"slow", "fast"}
    wide = wave_file(tmp_path, channels=2, name="wide.csv")
    for words, says in {
        ("predict", str(out), str(wide)): "has 2 channels, but the model was trained on 1",
        ("evaluate", str(out), str(other)): "has no targets",
        ("evaluate", str(out), "digits"): "the class '0', which is not a class of the model",
        ("evaluate", str(out / "model.lrcssm")): "does not contain its test cases",
        ("predict", str(out), str(other), "--out", str(tmp_path / "none" / "x.csv")): "its folder does not exist",
        ("train", str(path), "--out", str(out)): "already holds a run",
        (
            "train",
            str(path),
            "--out",
            str(out),
            *SMALL,
            "--seed",
            "3",
            "--batch",
            "4",
            "--resume",
        ): "belongs to another run: its training is seed=0, not 3",
        ("train", str(path), "--out", str(tmp_path)): "holds other files and no run",
        ("train", str(path), "--out", str(path)): "is a file",
        ("train", str(other), "--out", str(tmp_path / "o")): "has no targets to learn",
        ("train", str(path), "--cell", "XYZ", "--out", str(tmp_path / "o")): "give one of LRC",
        ("train", str(path), "--cell-options", "init", "--out", str(tmp_path / "o")): "give name=value",
        ("train", str(path), "--cell-options", "nit=3", "--out", str(tmp_path / "o")): "nit",
        ("train", str(path), "--steps", "0", "--out", str(tmp_path / "o")): "give a whole number of at least 1",
        ("predict", str(tmp_path / "nothing"), str(path)): "does not exist",
        ("predict", str(path), str(path)): "is not a file of lrcssm",
        ("predict", str(tmp_path), str(path)): "holds no trained model",
    }.items():
        assert cli.main(list(words)) == 2, words
        text = capsys.readouterr().err
        assert says in text.splitlines()[-1] and "Traceback" not in text, (words, text)
    assert not (tmp_path / "o").exists()


@pytest.mark.slow
def test_regression_and_the_released_preset(tmp_path, capsys):
    words = ["train", "adding:30", *SMALL, "--batch", "4", "--out", str(tmp_path / "adding"), "--overwrite"]
    assert cli.main(words) == 0
    assert "mean squared error" in capsys.readouterr().out
    assert "Residuals" in (tmp_path / "adding" / "report.html").read_text()
    assert cli.main(["evaluate", str(tmp_path / "adding")]) == 0
    released = [
        "train",
        str(wave_file(tmp_path)),
        "--preset",
        "released",
        "--steps",
        "10",
        "--out",
        str(tmp_path / "r"),
    ]
    assert cli.main(released) == 0


@pytest.mark.slow
def test_ctrl_c_says_how_to_go_on(tmp_path):
    words = [
        sys.executable,
        "-m",
        "lrcssm",
        "train",
        "digits",
        "--out",
        str(tmp_path / "run"),
        *SMALL[:-2],
        "--patch",
        "8",
    ]
    process = subprocess.Popen(
        [*words, "--steps", "100000", "--check-every", "100000"], stderr=subprocess.PIPE, text=True, cwd=tmp_path
    )
    assert process.stderr is not None
    for line in process.stderr:  # until it has begun
        if "parameters" in line:
            break
    time.sleep(3)
    process.send_signal(2)
    rest = process.communicate(timeout=60)[1]
    assert process.returncode == 130
    assert re.fullmatch(r"lrcssm: interrupted at step \d+ of 100000; the same command with --resume continues.\n", rest)


def configure(preset, data, model, training, seed):
    facts = Facts.of_dataset(data, data.cases())
    return recipe(facts, given(model), given(training) | {"seed": seed}, preset=find_preset(preset, data))


def test_presets():
    data = load("digits")
    options = ModelOptions(layout="bare", encoder="none", activation="tanh", final_norm=False)
    config, training = configure("default", data, options, TrainingOptions(warmup=0.3), 0)
    assert (config.layout, config.encoder, config.activation, config.final_norm) == ("bare", "none", "tanh", False)
    assert training.warmup == 0.3
    config, training = configure("default", data, ModelOptions(include_time=True), TrainingOptions(steps=5), 3)
    assert config.include_time and config.output_dim == 10 and training.steps == 5 and training.seed == 3
    config, training = configure("released", data, ModelOptions(), TrainingOptions(), 0)
    assert (
        (config.hidden_dim, config.state_dim, config.num_blocks) == (64, 64, 6)
        and training.batch == 4
        and training.ema == 0
    )
    options = ModelOptions(cell_options=("rho=0.9", "init=spread", "nonnegative=true"))
    assert given(options)["cell_options"] == {"rho": 0.9, "init": "spread", "nonnegative": True}
    patch = lambda steps: recipe(Facts(1, steps, False, "classify", 2))[0].patch
    assert [patch(steps) for steps in (3, 64, 896, 17984)] == [1, 8, 29, 134]


def test_intervals():
    """Against published values (Newcombe 1998, table I, method 3) and the normal theory of a mean."""
    np.testing.assert_allclose(wilson(81, 263), (0.2553, 0.3662), atol=1e-4)
    np.testing.assert_allclose(wilson(15, 148), (0.0624, 0.1605), atol=1e-4)
    np.testing.assert_allclose(wilson(0, 20), (0.0, 0.1611), atol=1e-4)
    for cases in range(1, 100):
        (low, middle), (between, high) = wilson(0, cases), wilson(cases, cases)
        assert low == 0 < middle < 1 and 0 < between < 1 == high
    values = np.random.default_rng(0).normal(size=400)
    low, high = bootstrap(lambda which: float(values[which].mean()), 400)
    np.testing.assert_allclose([low, high], values.mean() + np.array([-1.96, 1.96]) * values.std() / 20, atol=0.02)
