"""The benchmark of long sequences at sizes where it takes no time."""

import json

import pytest
from wing import run

pytestmark = pytest.mark.usefixtures("defaults")


@pytest.mark.slow
def test_each_length_as_the_model_chooses_and_in_chunks(capsys, tmp_path):
    path = tmp_path / "record.json"
    words = "benchmark long --lengths 24 --chunks 8 --released --hidden-dim 5 --state-dim 4 --num-blocks 1 --rounds 2 --json"
    run(*words.split(), path)
    out = " ".join(capsys.readouterr().out.split())
    assert "One training step of LRC, batch 1, hidden dimension 5, 4 states, 1 blocks, released block" in out
    rows = json.loads(path.read_text())["rows"]
    assert [(row["length"], row["chunk"]) for row in rows] == [(24, None), (24, 8)]
    for row in rows:
        assert row["step"]["rounds"] == 2 and row["peak_mb"] > 0 and row["memory_mb"] > 0 and row["note"] is None


def test_a_chunk_of_nothing():
    with pytest.raises(ValueError, match="--chunks got 0; give numbers of at least 1"):
        run("benchmark", "long", "--chunks", "0")
