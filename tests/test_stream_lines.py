"""`lrcssm predict --stream`: lines in, lines out, and errors of single lines."""

import io
import json
import os
import signal
import subprocess
import sys

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from cases import distance, normal

import lrcssm
from lrcssm import cli
from lrcssm.deploy import lines
from lrcssm.training import Trained

CLASSES = np.array(["calm", "storm"])
INPUTS = np.asarray(normal(np.random.default_rng(0), (4, 3), jnp.float64))
call = eqx.filter_jit(lambda model, inputs, dt=None: model(inputs, dt=dt, throw=False)[0])


def make(path, facts, **changes):
    config = {
        "input_dim": 3,
        "output_dim": 2,
        "hidden_dim": 6,
        "state_dim": 4,
        "num_blocks": 1,
        "layout": "plain",
        "mixer": "none",
    }
    model = lrcssm.SequenceModel(lrcssm.ModelConfig(**(config | changes)), jax.random.key(0))
    Trained(model, **facts).save(path)
    return model


@pytest.fixture
def ask(monkeypatch, capsys):
    """A function that gives the predictions for some lines, and the errors."""

    def run(path, *lines, code=0):
        monkeypatch.setattr(sys, "stdin", io.StringIO("".join(line + "\n" for line in lines)))
        assert cli.main(["predict", str(path), "--stream"]) == code
        out, err = capsys.readouterr()
        return [json.loads(line) for line in out.splitlines()], err.splitlines()

    return run


def csv(sample):
    return ",".join(map(repr, sample.tolist()))


def test_lines(tmp_path, ask):
    """Three streams through each other, as CSV and JSON, with mistakes between them."""
    path = tmp_path / "model.lrcssm"
    model = make(path, {"classes": CLASSES, "channels": ("v", "u", "w")})
    more = lambda **said: json.dumps(said)
    answers, said = ask(
        path,
        "u,v,w",
        csv(INPUTS[0][[1, 0, 2]]),
        more(stream="a", values=INPUTS[0].tolist(), dt=0.5),
        "",
        "1,2",
        csv(INPUTS[1][[1, 0, 2]]),
        "u,v,w",
        "{oops",
        more(stream="a", values=dict(zip("vuw", INPUTS[1].tolist(), strict=True)), dt=1.5),
        more(stream="b", values=[1, None, 2]),
        more(stream="b", values=[1, "x", 2]),
        more(stream="b", values=[1, 2, 3], dt=0),
        more(stream="b", value=[1, 2, 3]),
        json.dumps(INPUTS[2].tolist()),
        more(stream="a", reset=True),
        more(stream="a", values=INPUTS[2].tolist()),
    )
    assert [(line.get("stream"), line["step"]) for line in answers] == [
        (None, 1), ("a", 1), (None, 2), ("a", 2), (None, 3), ("a", 1),
    ]  # fmt: skip
    logits = {
        4: np.asarray(call(model, jnp.asarray(INPUTS[:3]))),
        3: np.asarray(call(model, jnp.asarray(INPUTS[:2]), jnp.array([0.5, 1.5]))),
    }
    for i, row in logits.items():
        shares = np.exp(row) / np.exp(row).sum()
        assert abs(answers[i]["p(storm)"] - shares[1]) < 1e-6
        assert answers[i]["prediction"] == ("calm", "storm")[int(row.argmax())]
    assert [line.split(": ")[1] for line in said] == [f"line {n}" for n in (5, 7, 8, 10, 11, 12, 13)]
    texts = (
        "has 2 values; give 3",
        "'v' is not",
        "not valid JSON",
        "missing",
        "'x' is not",
        "above 0",
        "'value' is not",
    )
    for line, text in zip(said, texts, strict=True):
        assert text in line and line.startswith("lrcssm: line ")


def test_names_and_times(tmp_path, ask, capsys, monkeypatch):
    """Unknown names are an error; a model trained with times requires them."""
    path = tmp_path / "model.lrcssm"
    model = make(path, {"unit": 2.0, "channels": ("u", "v", "w")}, task="regress", output_dim=1)
    more = lambda **said: json.dumps(said)
    answers, said = ask(
        path, "1;2;3", csv(INPUTS[0]), csv(INPUTS[1]), more(values=INPUTS[1].tolist(), dt=3.0),
        more(values={"u": 1, "x": 2, "w": 3}, dt=1), more(values=5, dt=1),
    )  # fmt: skip
    want = call(model, jnp.asarray(INPUTS[:2]), jnp.array([1.0, 1.5]))
    assert [line["step"] for line in answers] == [1, 2] and distance(answers[1]["prediction"], want[0]) < 1e-10
    texts = ("1 values", "trained with times", "named u, x, w; give u, v, w", "no list of values")
    for line, text in zip(said, texts, strict=True):
        assert text in line
    monkeypatch.setattr(sys, "stdin", io.StringIO("u,v,x\n1,2,3\n"))
    assert cli.main(["predict", str(path), "--stream"]) == 2
    assert "names u, v, x, but the model was trained on u, v, w" in capsys.readouterr().err


def test_numbers_and_missing_values(tmp_path, ask):
    path = tmp_path / "model.lrcssm"
    model = make(path, {"missing": "mask"}, task="regress", output_dim=1)
    answers, said = ask(path, ",,", csv(INPUTS[0]), "1,,2", csv(INPUTS[1]))
    want = call(model, jnp.asarray(INPUTS[:2]), jnp.array([2.0, 2.0]))
    assert not said and [line["step"] for line in answers] == [0, 1, 1, 2]
    assert answers[0] == {"step": 0, "prediction": None, "skipped": True}
    assert answers[2] == answers[1] | {"skipped": True}
    assert distance(answers[3]["prediction"], want[0]) < 1e-10

    make(path, {"missing": "fill"}, task="regress", output_dim=2, patch=2, differences=True)
    answers, said = ask(path, "1,?,3", "1,2,3", "1,,3", ",,")
    assert answers[0] == {"step": 1, "prediction": None} and set(answers[1]) == {"step", "prediction_0", "prediction_1"}
    assert "no earlier value" in said[0] and "cannot skip a sample" in said[1]


def test_per_step(tmp_path, ask):
    """The prediction for each sample is that of its own step, before and after a restart."""
    path = tmp_path / "model.lrcssm"
    model = make(path, {"classes": CLASSES}, task="per-step", differences=True)
    logits = np.asarray(call(model, jnp.asarray(INPUTS)))
    shares = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
    answers, said = ask(path, *map(csv, INPUTS), '{"reset": true}', *map(csv, INPUTS[:2]))
    assert not said and [line["step"] for line in answers] == [1, 2, 3, 4, 1, 2]
    for line, wanted in zip(answers, [*shares, *shares[:2]], strict=True):
        assert abs(line["p(storm)"] - wanted[1]) < 1e-6 and line["prediction"] == CLASSES[wanted.argmax()]
    assert len({line["p(storm)"] for line in answers}) == 4


def test_all_lines_refused(tmp_path, ask):
    """No prediction at all is a failure; one valid line, or empty input, is a success."""
    path = tmp_path / "model.lrcssm"
    make(path, {"classes": CLASSES})
    answers, said = ask(path, "1,2", "a,2,3", code=2)
    assert not answers and len(said) == 3 and said[-1] == "lrcssm: All 2 lines were refused; see above."
    answers, said = ask(path, "1,2", csv(INPUTS[0]))
    assert len(answers) == 1 and len(said) == 1
    assert ask(path) == ([], [])


def test_outputs_that_are_not_finite_are_refused(tmp_path, ask, defaults):
    """Values that single precision holds, but whose products it does not."""
    path = tmp_path / "model.lrcssm"
    make(path, {}, task="regress", output_dim=1, cell="LRU", layout="bare")
    answers, said = ask(
        path, "1,2,3", "3e38,-3e38,3e38", "1,2,3", "1e39,2,3", '{"stream": "other", "values": [1, 2, 3]}'
    )
    assert [(line.get("stream"), line["step"]) for line in answers] == [(None, 1), ("other", 1)]
    assert "line 2: the output is not finite" in said[0] and "line 3: the output is not finite" in said[1]
    assert "line 4: " in said[2] and "not finite" in said[2] and len(said) == 3


def test_mistakes(tmp_path, capsys):
    path = tmp_path / "model.lrcssm"
    make(path, {}, bidirectional=True)
    for words, text in [
        (["--stream"], "is bidirectional, so it cannot predict sample by sample; train one with --bidirectional no"),
        (["data.csv", "--stream"], "give neither SOURCE nor --out"),
        ([], "nothing to predict"),
    ]:
        assert cli.main(["predict", str(path), *words]) == 2
        assert text in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="signals")
def test_answers_come_at_once_and_the_end_is_quiet(tmp_path):
    path = tmp_path / "model.lrcssm"
    with jax.enable_x64(False):
        make(path, {"classes": CLASSES})
    command = [sys.executable, "-m", "lrcssm", "predict", str(path), "--stream"]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, **pipes, env=os.environ) as run:
        assert run.stdin is not None and run.stdout is not None and run.stderr is not None
        for step in (1, 2):
            run.stdin.write("1,2,3\n")
            run.stdin.flush()
            assert json.loads(run.stdout.readline())["step"] == step
        run.send_signal(signal.SIGINT)
        assert run.wait(20) == 0 and run.stderr.read() == ""
    with subprocess.Popen(command, **pipes, env=os.environ) as run:
        assert run.stdin is not None and run.stdout is not None and run.stderr is not None
        run.stdout.close()
        run.stdin.write("1,2,3\n" * 3)
        run.stdin.close()
        run.stdin = None
        assert run.wait(60) == 0 and run.stderr.read() == ""


@pytest.mark.slow
def test_benchmark(capsys):
    words = ["--streams", "1", "3", "--steps", "6", "--rounds", "1", "--threads", "--json", "-"]
    assert cli.main(["benchmark", "stream", *words]) == 0
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert [row["streams"] for row in rows][:2] == [1, 3] and all(row["best_us"] <= row["p99_us"] for row in rows)


@pytest.mark.parametrize(
    "line, says",
    [
        ('{"values": [1, 2, ' + "9" * 5000 + "]}", "not valid JSON"),
        ('{"values": [1, 2, 3], "dt": ' + "9" * 400 + "}", "give a number"),
        ('{"values": [1, 2, 3], "dt": true}', "give a number"),
        ('{"values": [1, 2, ' + "9" * 400 + "]}", "is not a finite number"),
    ],
    ids=range(4),
)
def test_numbers_of_too_many_digits(line, says):
    with pytest.raises(lines.LineError, match=says):
        lines.parse(line, 3)
