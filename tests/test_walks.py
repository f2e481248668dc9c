"""Three complete workflows: a sensor table written by pandas, a user-defined cell, and deployment."""

import csv
import io
import json
import sys

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
from cases import distance

import lrcssm
from lrcssm import cli


@pytest.fixture(autouse=True)
def as_a_user_has_it(defaults, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def sensors(cases, seed, steps=24):
    """Two sensors at irregular seconds; a worn machine vibrates faster."""
    rng = np.random.default_rng(seed)
    worn = np.arange(cases) % 2
    for i in range(cases):
        seconds = np.cumsum(rng.uniform(0.5, 1.5, steps)).round(3)
        angle = (0.3, 0.9)[worn[i]] * seconds + rng.uniform(0, 6)
        yield (
            seconds,
            np.sin(angle) + 0.05 * rng.normal(size=steps),
            20 + rng.normal(size=steps),
            ("fine", "worn")[worn[i]],
        )


def long_table(cases, seed, label=True):
    """One row for each sample, with the index that pandas writes."""
    columns = ["machine", "seconds", "vibration", "temperature", "state"]
    rows = [
        (f"m{i:02d}", *row, state)
        for i, (*values, state) in enumerate(sensors(cases, seed))
        for row in zip(*values, strict=True)
    ]
    frame = pd.DataFrame(rows, columns=columns)
    return frame if label else frame.drop(columns="state")


def wide_table(cases, seed, label=True):
    """One row for each machine, with the index that pandas writes."""
    rows = [(*vibration, state) for _, vibration, _, state in sensors(cases, seed)]
    frame = pd.DataFrame(rows, columns=[*(f"t{t}" for t in range(24)), "state"])
    return frame if label else frame.drop(columns="state")


@pytest.mark.parametrize("table", [long_table, wide_table])
def test_a_table_of_sensors(table, tmp_path, capsys):
    """Train, evaluate, predict for machines that are new, and read the report."""
    table(40, 0).to_csv("sensors.csv")
    table(30, 1, label=False).to_csv("new.csv")
    assert cli.main(["train", "sensors.csv", "--out", "run"]) == 0
    said = capsys.readouterr().err
    assert "40 cases" in said or "28 cases for training" in said
    assert (
        "target: 'state'" in said
        and "left out: '' (row numbers)" in said
        and ("case: 'machine'" in said) == (table is long_table)
    )
    scores = json.loads((tmp_path / "run" / "scores.json").read_text())
    assert scores["accuracy"] >= 0.8
    assert cli.main(["evaluate", "run", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["accuracy"] == scores["accuracy"]
    assert cli.main(["predict", "run", "new.csv"]) == 0
    rows = list(csv.DictReader(capsys.readouterr().out.splitlines()))
    assert len(rows) == 30 and (rows[0]["case"] == "m00" or table is wide_table)
    right = [row["prediction"] == ("fine", "worn")[i % 2] for i, row in enumerate(rows)]
    assert np.mean(right) >= 0.9
    page = (tmp_path / "run" / "report.html").read_text()
    assert "Confusion matrix" in page and "worn" in page and "<svg" in page


def test_noise_in_order_teaches_nothing(tmp_path, capsys):
    """Labels that are sorted as the row numbers are: an index that is read as data would score 100 %."""
    frame = pd.DataFrame(np.random.default_rng(0).normal(size=(60, 12)))
    frame["label"] = np.repeat(["a", "b"], 30)
    frame.to_csv("noise.csv")
    assert cli.main(["train", "noise.csv", "--out", "run", "--quiet"]) == 0
    predictions = list(csv.DictReader((tmp_path / "run" / "predictions.csv").read_text().splitlines()))
    assert len(predictions) == 9 and np.mean([row["target"] == row["prediction"] for row in predictions]) < 0.9


class MinGRU(lrcssm.cells.Cell):
    """`x' = (1 − z) x + z h`, gate `z` and candidate `h` from the input alone (Feng et al., 2024)."""

    structure = "diagonal"
    affine = True
    gate: jax.Array
    candidate: jax.Array
    input_dim: int = eqx.field(static=True)
    state_dim: int = eqx.field(static=True)

    def __init__(self, input_dim, state_dim, *, key):
        self.input_dim, self.state_dim = input_dim, state_dim
        self.gate, self.candidate = jax.random.normal(key, (2, input_dim, state_dim)) / input_dim**0.5

    def drive(self, inputs):
        return jax.nn.sigmoid(inputs @ self.gate), inputs @ self.candidate

    def step(self, state, drive, dt=1.0):
        z, h = drive
        keep = (1 - z) ** dt
        return keep * state + (1 - keep) * h


def test_a_cell_of_ones_own(tmp_path):
    """Solve, check, register, train, save."""
    cell = MinGRU(3, 4, key=jax.random.key(0))
    inputs = jax.random.normal(jax.random.key(1), (40, 3))
    solution = lrcssm.solve(cell, inputs, solver="deer")
    gate, candidate, x, want = np.asarray(cell.gate, float), np.asarray(cell.candidate, float), np.zeros(4), []
    for u in np.asarray(inputs, float):
        z = 1 / (1 + np.exp(-u @ gate))
        x = (1 - z) * x + z * (u @ candidate)
        want.append(x)
    assert distance(solution.states, np.array(want)) < 1e-5 and int(solution.iterations) <= 2
    text = io.StringIO()
    rows = lrcssm.check_agreement(cell, inputs, file=text)
    assert max(row.difference for row in rows) < 1e-4 and max(row.gradient_difference for row in rows) < 1e-4
    assert "DEER" in text.getvalue() and len(rows) >= 4

    lrcssm.cells.register(MinGRU)
    try:
        y = np.arange(48) % 2
        X = np.stack([vibration for _, vibration, _, _ in sensors(48, 0)])
        model = lrcssm.LrcSSMClassifier(
            cell="MinGRU", hidden_dim=16, state_dim=16, num_blocks=1, steps=120, learning_rate=1e-2, random_state=0
        ).fit(X[:32], y[:32])
        assert model.score(X[32:], y[32:]) >= 0.8
        model.save(tmp_path / "model.lrcssm")
        again = lrcssm.LrcSSMClassifier.load(tmp_path / "model.lrcssm")
        np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))
    finally:
        lrcssm.cells.REGISTERED.clear()


@pytest.fixture(scope="module")
def deployed(tmp_path_factory):
    """The folder of a run that can predict sample by sample, and a table for it."""
    folder = tmp_path_factory.mktemp("deployed")
    table = long_table(24, 0).drop(columns="seconds")
    table.to_csv(folder / "sensors.csv", index=False)
    table[table.machine == "m03"].drop(columns="state").to_csv(folder / "one.csv", index=False)
    words = [
        "--hidden-dim",
        "8",
        "--state-dim",
        "8",
        "--num-blocks",
        "1",
        "--bidirectional",
        "no",
        "--patch",
        "1",
        "--steps",
        "6",
    ]
    with jax.enable_x64(False), jax.numpy_dtype_promotion("standard"):
        code = cli.main(
            [
                "train",
                str(folder / "sensors.csv"),
                "--out",
                str(folder / "run"),
                "--method",
                "gradient",
                *words,
                "--quiet",
            ]
        )
    assert code == 0
    samples = table[table.machine == "m03"][["vibration", "temperature"]].to_numpy()
    return folder, samples


def probabilities(deployed, capsys):
    """Probabilities that the command gives for the whole series."""
    assert cli.main(["predict", str(deployed[0] / "run"), str(deployed[0] / "one.csv"), "--json"]) == 0
    row = json.loads(capsys.readouterr().out)
    return [row["p(fine)"], row["p(worn)"]]


def softmax(logits):
    return np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)


def test_deployment_as_a_stream(deployed, monkeypatch, capsys):
    folder, samples = deployed
    want = probabilities(deployed, capsys)
    monkeypatch.setattr(sys, "stdin", io.StringIO("".join(f"{a!r},{b!r}\n" for a, b in samples.tolist())))
    assert cli.main(["predict", str(folder / "run"), "--stream"]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line["step"] for line in lines] == [*range(1, len(samples) + 1)]
    np.testing.assert_allclose([lines[-1]["p(fine)"], lines[-1]["p(worn)"]], want, atol=1e-5)
    assert abs(lines[0]["p(fine)"] - want[0]) > 1e-6


def test_deployment_as_stablehlo(deployed, capsys):
    pytest.importorskip("flatbuffers")
    from jax import export

    folder, samples = deployed
    want = probabilities(deployed, capsys)
    assert cli.main(["export", str(folder / "run"), "--out", str(folder / "model.stablehlo")]) == 0
    program = export.deserialize(bytearray((folder / "model.stablehlo").read_bytes()))
    (logits,) = program.call(jnp.asarray(samples[:, None], jnp.float32))
    np.testing.assert_allclose(softmax(np.asarray(logits)[0]), want, atol=1e-5)


def test_deployment_as_onnx(deployed, capsys):
    onnxruntime = pytest.importorskip("onnxruntime")
    pytest.importorskip("jax2onnx")
    folder, samples = deployed
    want = probabilities(deployed, capsys)
    assert cli.main(["export", str(folder / "run"), "--out", str(folder / "step.onnx"), "--what", "step"]) == 0
    session = onnxruntime.InferenceSession(str(folder / "step.onnx"))
    shapes = {one.name: one.shape for one in session.get_inputs()}
    state, begin = np.zeros(shapes["state"], np.float32), True
    for sample in samples.astype(np.float32):
        output, state = session.run(None, {"sample": sample[None], "state": state, "begin": np.array([begin])})
        begin = False
    np.testing.assert_allclose(softmax(output[0]), want, atol=1e-5)
