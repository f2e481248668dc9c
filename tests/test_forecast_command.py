"""`lrcssm forecast` from a table to files, and the sentences for what cannot be forecast."""

import csv
import json

import jax
import numpy as np
import pytest

import lrcssm
from lrcssm.cli import main
from lrcssm.data.readers.series import continued, read_series, uneven

QUICK = ["--origins", "2", "--horizon", "4"]


@pytest.fixture(autouse=True)
def in_a_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    with jax.enable_x64(False), jax.numpy_dtype_promotion("standard"):
        yield


def wave(length=90, seed=0):
    return 20 + 5 * np.sin(2 * np.pi * np.arange(length) / 12) + 0.3 * np.random.default_rng(seed).normal(size=length)


def months(length):
    return [f"{2010 + i // 12}-{i % 12 + 1:02}" for i in range(length)]


def write(path, header, columns, comma=","):
    rows = [comma.join(header)] if header else []
    path.write_text("\n".join([*rows, *(comma.join(map(str, row)) for row in zip(*columns, strict=True))]) + "\n")
    return str(path)


def rows_of(path):
    with open(path, newline="") as file:
        return list(csv.DictReader(file))


def test_from_a_table_to_files(tmp_path, capsys):
    source = write(tmp_path / "sales.csv", ["month", "sales"], [months(90), wave()])
    assert main(["forecast", source, *QUICK, "--save", "model.lrcssm", "--coverage", "0.8"]) == 0
    printed = " ".join(capsys.readouterr().out.split())
    for word in (
        "LrcRidgeForecaster",
        "ridge on lags",
        "seasonal naive",
        "MASE",
        "coverage",
        "a season of 12 steps (guessed",
    ):
        assert word in printed
    found = rows_of("sales-forecast.csv")
    assert [row["time"] for row in found] == ["2017-07", "2017-08", "2017-09", "2017-10"]
    model = lrcssm.LrcRidgeForecaster.load("model.lrcssm")
    np.testing.assert_allclose([float(row["sales"]) for row in found], model.predict()[:, 0], rtol=1e-4)
    low, high = model.predict_interval(coverage=0.8)
    np.testing.assert_allclose([float(row["sales low"]) for row in found], low[:, 0], rtol=1e-4)
    np.testing.assert_allclose([float(row["sales high"]) for row in found], high[:, 0], rtol=1e-4)
    page = (tmp_path / "sales-forecast.html").read_text()
    assert page.count("<svg") == 1 and "2017-10" in page and "src=" not in page and "<script" not in page


def test_json_and_the_rivals(tmp_path, capsys):
    source = write(tmp_path / "y.csv", ["y"], [wave()])
    assert main(["forecast", source, *QUICK, "--season", "12", "--json", "--out", "f.csv", "--report", "r.html"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["season"] == 12 and not found["season_guessed"] and found["origins"] == [54, 86]
    assert found["files"] == {"forecast": "f.csv", "report": "r.html"}
    assert [row["time"] for row in found["forecast"]] == ["90", "91", "92", "93"]
    naive = np.mean([abs(wave()[o - 12 + h] - wave()[o + h]) for o in (54, 86) for h in range(4)])
    assert found["scores"]["seasonal naive"]["mae"] == pytest.approx(naive, rel=1e-4)
    assert found["scores"]["LrcRidgeForecaster"]["coverage"] is not None
    assert found["scores"]["ridge on lags"]["coverage"] is None


def test_targets_and_covariates(tmp_path, capsys):
    rng = np.random.default_rng(0)
    plan = rng.normal(size=94)
    y = [f"{2 * one:.4f}".replace(".", ",") for one in plan[:90]] + [""] * 4
    days = [f"{1 + i % 28:02}.{1 + i // 28:02}.2024" for i in range(94)]
    other = [f"{one:.3f}".replace(".", ",") for one in rng.normal(size=94)]
    texts = [f"{one:.4f}".replace(".", ",") for one in plan]
    source = write(tmp_path / "d.csv", ["day", "y", "plan", "other"], [days, y, texts, other], comma=";")
    assert main(["forecast", source, *QUICK, "--target", "y", "--future", "plan", "--season", "1", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [row["time"] for row in found["forecast"]] == days[90:]
    np.testing.assert_allclose([row["y"]["forecast"] for row in found["forecast"]], 2 * plan[90:], atol=0.3)
    assert found["scores"]["LrcRidgeForecaster"]["mase"] < 0.2
    assert main(["forecast", source, *QUICK, "--target", "y", "--ignore", "plan", "--season", "1", "--json"]) == 0
    assert "The last 4 rows have no value" in json.loads(capsys.readouterr().out)["notes"][0]


@pytest.mark.slow
def test_gradient_steps(tmp_path, capsys):
    source = write(tmp_path / "y.csv", ["a", "b"], [wave(), wave(seed=1)])
    words = [
        "forecast",
        source,
        *QUICK,
        "--season",
        "1",
        "--window",
        "12",
        "--method",
        "gradient",
        "--steps",
        "3",
        "--coverage",
        "0.5",
    ]
    assert main([*words, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert set(found["forecast"][0]) == {"time", "a", "b"} and "LrcSSMForecaster" in found["scores"]


@pytest.mark.parametrize(
    ("columns", "words", "sentence"),
    [
        ([wave(5)], [], "no origin with a horizon of 4"),
        ([["a", "b"] * 20], [], "has no column of numbers"),
        ([wave()], ["--target", "z"], "--target got 'z', which is not the name of one column of numbers; there are y"),
        ([wave()], ["--horizon", "0"], "--horizon got 0; give a whole number of at least 1"),
        ([wave()], ["--season", "60"], "less than one season|it needs at least"),
        ([wave()], ["--coverage", "1.5"], "--coverage got 1.5"),
        ([wave()], ["--coverage", "0.99"], "needs more than the .* rolling errors"),
        ([wave()], ["--steps", "5"], "--steps is for gradient steps"),
        ([["1", "?", "2", *map(str, wave(60))]], [], "y has 1 missing values; --missing fill"),
        ([wave()], ["--future", "y"], "No column is left to forecast"),
        ([wave()], ["--out", "nowhere/f.csv"], "nowhere"),
    ],
)
def test_mistakes(tmp_path, capsys, columns, words, sentence):
    import re

    source = write(tmp_path / "y.csv", ["y"], columns)
    assert main(["forecast", source, *QUICK, *words]) == 2
    said = capsys.readouterr().err
    assert re.search(sentence, said) and said.count("\n") == 1 and "Traceback" not in said
    assert not (tmp_path / "y-forecast.csv").exists()


def test_a_file_that_is_not_there(capsys):
    assert main(["forecast", "nothing.csv"]) == 2
    assert "nothing.csv does not exist" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("stamps", "following"),
    [
        (["2024-01", "2024-02", "2024-03"], ["2024-04", "2024-05"]),
        (["2024-01-31", "2024-02-01", "2024-02-02"], ["2024-02-03", "2024-02-04"]),
        (["01/11/2023", "01/12/2023", "01/01/2024"], ["2024-02-01", "2024-03-01"]),
        (["2024-01-01 22:00", "2024-01-01 23:00", "2024-01-02 00:00"], ["2024-01-02 01:00:00", "2024-01-02 02:00:00"]),
        (["1990", "1992", "1994"], ["1996", "1998"]),
        (["0.5", "1.0", "1.5"], ["2", "2.5"]),
    ],
)
def test_times_go_on(tmp_path, stamps, following):
    found = read_series(write(tmp_path / "a.csv", ["time", "value"], [stamps, [1, 2, 3]]))
    assert continued(found, 2) == following and not uneven(found)
    assert found.values[:, 0].tolist() == [1, 2, 3]


def test_rows_are_brought_into_the_order_of_time(tmp_path):
    found = read_series(write(tmp_path / "a.csv", ["time", "value"], [[3, 1, 2], [30, 10, 20]]))
    assert found.values[:, 0].tolist() == [10, 20, 30] and found.stamps == ("1", "2", "3")
    with pytest.raises(lrcssm.FileError, match="line 4: this time occurs twice"):
        read_series(write(tmp_path / "b.csv", ["time", "value"], [[1, 2, 2], [1, 2, 3]]))
    bare = read_series(write(tmp_path / "c.csv", [], [[1.5, 2.5, 3.5]]))
    assert bare.times is None and bare.values[:, 0].tolist() == [1.5, 2.5, 3.5] and continued(bare, 2) == ["3", "4"]
    assert uneven(read_series(write(tmp_path / "d.csv", ["time", "v"], [[1, 2, 9, 10], [1, 2, 3, 4]])))
