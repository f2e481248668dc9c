"""The benchmark of architectures at sizes where it takes no time."""

import json

import pytest
from wing import run

from lrcssm.models import ARCHITECTURES
from lrcssm_paper.benchmark import ModelsBenchmark, ScalingBenchmark, models, scaling, step

pytestmark = pytest.mark.usefixtures("defaults")
SIZES = "--hidden-dim 5 --state-dim 4 --num-blocks 1 --batch 2 --rounds 2"


@pytest.mark.slow
def test_models(capsys, tmp_path):
    path = tmp_path / "record.json"
    words = f"benchmark models --architectures lru --length 12 {SIZES} --json"
    run(*words.split(), path)
    out = " ".join(capsys.readouterr().out.split())
    assert "One training step at T = 12, batch 2, hidden dimension 5, 4 states, 1 blocks, float32" in out
    record = json.loads(path.read_text())
    lrc, lru = record["rows"]
    assert (lrc["architecture"], lru["architecture"]) == ("lrcssm", "lru")
    assert lrc["to_lrcssm"] == 1 and lru["to_lrcssm"] == pytest.approx(lru["step"]["best_ms"] / lrc["step"]["best_ms"])
    for row in record["rows"]:
        assert row["note"] is None and row["parameters"] > 0 and row["compile_s"] > 0 and row["memory_mb"] > 0
        assert row["step"]["rounds"] == 2


@pytest.mark.slow
def test_scaling(capsys, tmp_path, monkeypatch):
    """An architecture that does not fit at one length is not tried at longer ones."""
    path = tmp_path / "record.json"
    monkeypatch.setattr(
        models, "too_large", lambda planned: "not measured, it is too large" if planned > limit else None
    )
    limit = 1e9
    words = f"benchmark scaling --architectures lrcssm --lengths 16 8 {SIZES} --picture {tmp_path / 'p.png'} --json"
    run(*words.split(), path)
    assert (tmp_path / "p.png").read_bytes()[1:4] == b"PNG"
    record = json.loads(path.read_text())
    assert [row["length"] for row in record["rows"]] == [8, 16]
    short, long = record["rows"]
    found = record["exponents"]["lrcssm"]
    assert found["time"] == pytest.approx(models.slope([(8, short["step"]["best_ms"]), (16, long["step"]["best_ms"])]))
    assert "~ T^" in capsys.readouterr().out
    limit = 0
    (row,) = scaling.measure(ScalingBenchmark(
        architectures=("lrcssm",), lengths=(8, 16), hidden_dim=5, state_dim=4, num_blocks=1, rounds=1,
    ))["rows"]  # fmt: skip
    assert row["note"] == "not measured, it is too large" and row["step"] is None


@pytest.mark.slow
def test_what_would_take_too_long_is_not_compiled(monkeypatch):
    monkeypatch.setattr(models, "_PROBE", 4)
    monkeypatch.setattr(models, "compiled_in", lambda given: pytest.fail("it was compiled"))
    options = ModelsBenchmark(
        architectures=("lrcssm",), length=8, hidden_dim=5, state_dim=4, num_blocks=1, rounds=1, limit=1e-9
    )
    (row,) = models.measure(options)["rows"]
    assert row["note"].startswith("not measured, at least") and row["step"] is None


def test_what_grows_with_the_square_of_the_length_is_foreseen(monkeypatch):
    monkeypatch.setattr(models, "_PROBE", 4)
    monkeypatch.setattr(models, "compiled_in", lambda given: pytest.fail("it was compiled"))
    options = ScalingBenchmark(architectures=("lrcssm",), hidden_dim=5, state_dim=4, num_blocks=1, limit=15.0)
    row, thunk = models._prepare("lrcssm", 64, options, [(16, 1e3), (32, 4e3)])
    assert row["note"] == "not measured, at least 16 s a step; raise --limit to have it" and thunk is None


def test_slopes():
    assert models.slope([(1000, 3.0), (2000, 12.0), (500, 99.0)]) == pytest.approx(2)
    assert models.slope([(1000, 3.0)]) is None


def test_every_architecture_can_be_measured():
    options = ModelsBenchmark(hidden_dim=6, state_dim=4, num_blocks=2)
    for name in (*ARCHITECTURES, "released"):
        assert models.configuration(name, options).cell == (ARCHITECTURES.get(name) or ARCHITECTURES["lrcssm"])["cell"]
    assert step.too_large(None) is None and "it needs" in str(step.too_large(1e12))


@pytest.mark.parametrize("wrong", [{"architectures": ()}, {"length": 0}, {"rounds": 0}])
def test_options_are_checked(wrong):
    with pytest.raises(ValueError, match=f"--{next(iter(wrong))} got"):
        ModelsBenchmark(**wrong)
    with pytest.raises(ValueError, match="--architectures got 'S5'; give all, or some of lrcssm, "):
        models.measure(ModelsBenchmark(architectures=("S5",)))
    with pytest.raises(ValueError, match="--lengths got 0"):
        ScalingBenchmark(lengths=(0,))


def test_a_picture_of_another_kind():
    with pytest.raises(ValueError, match=r"--picture got 'times.txt'; give a file that ends in .png, .svg or .pdf"):
        run("benchmark", "scaling", "--picture", "times.txt")


def test_published_sizes():
    options = ModelsBenchmark(published="EthanolConcentration")
    config = models.configuration("s5", options)
    assert (config.hidden_dim, config.state_dim, config.num_blocks, config.input_dim, config.output_dim) == (
        16,
        16,
        6,
        3,
        4,
    )
    assert models._batch("s5", options) == 32 and models._batch("lrcssm", options) == 4
    with pytest.raises(ValueError, match="--published got 'SCP3'; give one of Heartbeat, "):
        run("benchmark", "models", "--published", "SCP3")
