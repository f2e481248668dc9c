"""The step of a ridge model as a program that runs without lrcssm: the numbers of the stream."""

import json

import jax
import numpy as np
import pytest
from test_ridge_stream import offset

from lrcssm import cli
from lrcssm.data import Cases
from lrcssm.deploy.export import ExportError, to_stablehlo
from lrcssm.deploy.export.programs import RIDGE_TOLERANCE, program
from lrcssm.features import STREAMED, LiquidModel
from lrcssm.training import Trained


@pytest.fixture(autouse=True)
def single_precision():
    with jax.enable_x64(False), jax.numpy_dtype_promotion("standard"):
        yield


def fitted(task="classify", views=STREAMED, channels=2, length=40, n_features=280):
    """A model that has learned something: its targets turn the first channel quickly, slowly or not at all."""
    targets = np.arange(12) % 3
    waves = 3 * np.sin(np.outer([0.0, 0.3, 0.9], np.arange(length)))[targets]
    data = [one[:, :channels] + wave[:, None] for one, wave in zip(offset((length,) * 12), waves, strict=True)]
    if task == "features":
        return LiquidModel.fit(Cases.of(data, targets), "regress", 1, n_features=n_features, views=views)._replace(
            task="features", readout=None
        )
    return LiquidModel.fit(
        Cases.of(data, targets), task, 3 if task == "classify" else 1, n_features=n_features, views=views
    )


# Programs round in different places, states by about 1e-6 of their scale. Three things make more of it. The spread of a single
# step, which is 0, is the root of a difference of two equal squares: up to √eps = 3e-4 of the state. The read-out takes the root
# of the distance of a feature from its mean in training, which has an infinite slope there. And whether a state counts as above
# a threshold is decided by its last digit if both are equal to rounding; that is one of some million in a model of the default
# size, where a step more or less in a share is up to 1e-3 of the outputs, and none in the small ones here.
ROUNDING = 1e-4


def agrees(model, run, timed, tolerance=ROUNDING):
    """Compare a program, called with arrays of one stream by name, with the stream of the model."""
    stream, outputs = Trained(model).stream(), []
    (samples,) = offset((25,), seed=5)
    samples = samples[:, : model.config.input_dim].astype(np.float32)
    dt = np.random.default_rng(0).uniform(0.5, 1.5, 25).astype(np.float32)
    size = program(model, "step").inputs["state"][1]
    state = np.full((1, size), np.nan, np.float32)  # ignored at the start
    for t, sample in enumerate(samples):
        now = {"sample": sample[None], "state": state, "begin": np.array([t == 0])}
        output, state = run(now | ({"dt": dt[t : t + 1]} if timed else {}))
        expected = stream.push(sample, float(dt[t]) if timed else None)
        np.testing.assert_allclose(output[0], expected, atol=tolerance * max(1, np.abs(expected).max()))
        outputs.append(expected)
    assert np.ptp(outputs, 0).max() > 0.05


@pytest.mark.parametrize("timed", [False, True])
def test_stablehlo(tmp_path, capsys, timed):
    pytest.importorskip("flatbuffers")
    model = fitted()
    Trained(model, np.array(["a", "b", "c"])).save(tmp_path / "model.lrcssm")
    path = tmp_path / "step.stablehlo"
    words = ["export", str(tmp_path), "--out", str(path), "--json"]
    assert cli.main([*words, "--what", "step", *(["--timed"] if timed else [])]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["error"] < ROUNDING and facts["inputs"]["sample"] == ["b", 2]
    loaded = jax.export.deserialize(bytearray(path.read_bytes()))
    agrees(model, lambda given: [np.asarray(part) for part in loaded.call(*given.values())], timed)
    assert cli.main(words) == 2
    assert "pass --what step" in capsys.readouterr().err


def test_models_without_a_step(tmp_path):
    pytest.importorskip("flatbuffers")
    with pytest.raises(ExportError, match='give what="step"'):
        to_stablehlo(tmp_path / "program", fitted())
    with pytest.raises(ValueError, match="fit it with views="):
        to_stablehlo(tmp_path / "program", fitted(views=None), what="step")


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"task": "regress", "channels": 1},
        {"task": "features", "views": STREAMED[:1]},
        pytest.param({"n_features": 16, "views": STREAMED[1:]}, id="one unit"),
        pytest.param({"length": 300, "n_features": 14_336}, marks=pytest.mark.slow, id="default size"),
    ],
)
@pytest.mark.parametrize("timed", [False, True])
def test_onnx(tmp_path, given, timed):
    pytest.importorskip("onnxruntime")
    pytest.importorskip("onnx")
    from lrcssm.deploy.export.lean import lean_model
    from lrcssm.deploy.export.onnx import open_session, to_onnx

    model = fitted(**given)
    lean_model(program(model, "step", timed=timed))  # our own translator knows all of it
    tolerance = RIDGE_TOLERANCE if "length" in given or model.readout is None else ROUNDING
    assert to_onnx(tmp_path / "step.onnx", model, what="step", timed=timed) < tolerance
    session = open_session((tmp_path / "step.onnx").read_bytes())
    agrees(model, lambda now: session.run(None, now), timed, tolerance)
