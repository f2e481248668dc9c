"""The benchmark of runs side by side, at a size where it takes no time."""

import json

import pytest

from lrcssm import cli
from lrcssm_paper.benchmark import TogetherBenchmark, together

pytestmark = pytest.mark.usefixtures("defaults")


@pytest.mark.slow
def test_together(capsys, tmp_path, monkeypatch):
    _, batch, channels, fields = together.SIZES["digits-small"]
    monkeypatch.setitem(
        together.SIZES, "digits-small", (16, batch, channels, fields | {"hidden_dim": 2, "state_dim": 2})
    )
    path = tmp_path / "record.json"
    words = ["--sizes", "digits-s", "--runs", "2", "--steps", "1", "--rounds", "2", "--json", str(path)]
    assert cli.main(["benchmark", "together", *words]) == 0
    assert "A training step of one run, 2 runs, float32" in " ".join(capsys.readouterr().out.split())
    record = json.loads(path.read_text())
    (row,) = record["rows"]
    assert row["size"] == "digits-small" and row["alone"]["rounds"] == 2
    assert row["ratio"] == pytest.approx(row["together"]["best_ms"] / row["alone"]["best_ms"])
    assert record["command"].startswith("lrcssm benchmark together --sizes digits-s")


def test_mistakes():
    with pytest.raises(ValueError, match="--sizes got 'worms'; give all, or beginnings of digits-small, "):
        together.measure(TogetherBenchmark(sizes=("worms",)))
    with pytest.raises(ValueError, match="--runs got 0"):
        TogetherBenchmark(runs=0)
