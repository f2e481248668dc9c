"""Streams of ridge models: after each sample the output is that of the whole series so far."""

import io
import json
import sys

import jax
import numpy as np
import pytest
from test_features import by_loop, doubled, series
from test_runs import wave_file

from lrcssm import FileError, LrcFeatures, LrcRidgeClassifier, LrcRidgeRegressor, LrcSSMClassifier, cli
from lrcssm.data import Cases
from lrcssm.features import STATISTICS, STREAMED, FeatureMap, LiquidModel
from lrcssm.features.readout import Readout
from lrcssm.models import Stream
from lrcssm.training import Trained

SMALL = {"n_features": 280, "random_state": 0, "views": STREAMED}


@pytest.fixture
def as_a_user_has_it():
    with jax.enable_x64(False), jax.numpy_dtype_promotion("standard"):
        yield


def offset(lengths, seed=0, gaps=0.0):
    """Random walks with two channels, one of them far from 0."""
    return [one + np.array([1e4, 0.0]) for one in series(lengths, seed=seed, gaps=gaps)]


def pushed(stream, data, dt=None):
    """Outputs after each step; a step with a missing value is skipped."""
    outputs, passed = [], 0.0
    for t, sample in enumerate(data):
        passed += 1.0 if dt is None else dt[t]
        if np.isnan(sample).any():
            stream.skip()
        else:
            stream.push(sample, dt=None if passed == 1.0 else passed)
            passed = 0.0
        outputs.append(stream.outputs)
    return np.array(outputs)


@pytest.mark.parametrize("irregular", [False, True])
@pytest.mark.parametrize("views", [STREAMED, STREAMED[:1], STREAMED[1:]])
def test_stream_equals_a_plain_loop(views, irregular):
    data = series(lengths=(60, 41, 50), gaps=0.05)
    times = [np.cumsum(0.2 + np.random.default_rng(1).random(len(one))) for one in data] if irregular else None
    cases = Cases.of(data, times=times, missing="mask", dtype=np.float64)
    features = doubled(FeatureMap.of(cases, n_features=6 * len(STATISTICS), views=views))
    count = features.n_features
    rng = np.random.default_rng(0)
    readout = Readout(
        rng.standard_normal(count), 1 + rng.random(count), rng.standard_normal((count, 3)), rng.standard_normal(3), 1.0
    )
    stream = Trained(LiquidModel("classify", features, readout, factor=1.7)).stream()
    dt = None if times is None else np.diff(times[0], prepend=times[0][0] - cases.unit) / cases.unit
    found = pushed(stream, data[0], dt)
    assert cases.valid is not None and cases.dt is not None
    assert stream.steps == cases.valid[0].sum() < 60
    for t in (1, 2, 9, 30, 60):
        valid = cases.valid[0][:t]
        seen = features.views(cases, 0)[:t].astype(np.float64)
        z = (by_loop(features, seen, (cases.dt[0][:t] * valid).astype(np.float64)) - readout.mean) / readout.scale
        expected = 1.7 * (np.sign(z) * np.sqrt(np.abs(z)) @ readout.weights + readout.intercept)
        np.testing.assert_allclose(found[t - 1], expected, atol=2e-5, rtol=2e-5)


@pytest.mark.parametrize("kind", [LrcFeatures, LrcRidgeClassifier, LrcRidgeRegressor])
def test_stream_equals_the_whole_at_every_prefix(kind, as_a_user_has_it):
    X = [one.T for one in offset((30, 50, 40, 35, 45, 38))]
    model = kind(**SMALL).fit(X, [0, 1, 0, 1, 0, 1])
    stream = model.stream()
    found = pushed(stream, X[1].T)
    prefixes = [X[1][:, : t + 1] for t in range(50)]
    ask = model.transform if kind is LrcFeatures else getattr(model, "predict_proba", model.predict)
    expected = ask(prefixes)
    if kind is LrcRidgeClassifier:
        found = np.exp(found) / np.exp(found).sum(1, keepdims=True)
        np.testing.assert_allclose(stream.probabilities, found[-1], atol=1e-6)
    np.testing.assert_allclose(found, expected.reshape(found.shape), atol=1e-4)
    assert stream.steps == 50
    assert stream.nbytes < 4 * (20 * 280 + 2 * 50)


@pytest.fixture(scope="module")
def trained():
    cases = Cases.of(offset((30, 50, 40, 35), gaps=0.05), np.array([0, 1, 2, 0]), missing="mask")
    model = LiquidModel.fit(cases, "classify", 3, n_features=280, views=STREAMED)
    return Trained(model, np.array(["a", "b", "c"]), ("u", "v"), missing="mask")


def test_streams_side_by_side(trained, tmp_path):
    data = offset((20,) * 3, seed=1)
    alone = [pushed(trained.stream(), one) for one in data]
    many: Stream = trained.stream(3)
    many.push(np.array(data)[:, 0])
    for t in range(1, 10):
        for rows in ([2, 0], [1]):
            outputs = many.push(np.array(data)[rows, t], which=rows)
            np.testing.assert_allclose(outputs, [alone[i][t] for i in rows], atol=2e-5)
    many.skip(which=[1])
    many.save(tmp_path / "state")
    with_a_gap = data[1][:11].copy()
    with_a_gap[10] = np.nan
    expected = pushed(trained.stream(), np.concatenate([with_a_gap, data[1][11:12]]))[-1]
    np.testing.assert_allclose(many.push(data[1][[11]], 2.0, which=[1])[0], expected, atol=2e-5)
    many.reset([0])
    np.testing.assert_allclose(many.push(data[0][[0]], which=[0])[0], alone[0][0], atol=2e-5)
    many.restore(tmp_path / "state")
    assert many.steps.tolist() == [10, 10, 10]
    np.testing.assert_allclose(many.push(data[1][[11]], 2.0, which=[1])[0], expected, atol=2e-5)
    other = trained.model._replace(factor=2 * trained.model.factor)
    with pytest.raises(FileError, match="another model"):
        Trained(other).stream(3).restore(tmp_path / "state")


def test_lines(trained, tmp_path, monkeypatch, capsys):
    """The same lines as the command reads them, a value missing, give the prediction of a file of them."""
    trained.save(tmp_path / "model.lrcssm")
    one = offset((12,), seed=3)[0]
    one[4:6, 0] = np.nan
    lines = ["v,u", *(",".join("" if np.isnan(x) else repr(float(x)) for x in row[::-1]) for row in one)]
    monkeypatch.setattr(sys, "stdin", io.StringIO("\n".join(lines) + "\n"))
    with jax.enable_x64(False), jax.numpy_dtype_promotion("standard"):
        assert cli.main(["predict", str(tmp_path), "--stream"]) == 0
        replies = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
        expected = [trained.probabilities(Cases.of([one[: t + 1]], missing="mask"))[0] for t in range(12)]
    assert [reply.get("skipped", False) for reply in replies] == [t in (4, 5) for t in range(12)]
    found = [[reply[f"p({name})"] for name in "abc"] for reply in replies]
    np.testing.assert_allclose(found, expected, atol=1e-4)


def test_models_of_whole_series_say_so(tmp_path, monkeypatch, capsys, as_a_user_has_it):
    X = np.array([one.T for one in offset((20,) * 6)])
    model = LrcRidgeClassifier(n_features=280).fit(X, [0, 1, 0, 1, 0, 1])
    with pytest.raises(
        ValueError, match=r"as a whole \(case-levels and case-differences\); fit it with views=\('levels'"
    ):
        model.stream()
    model.save(tmp_path / "model.lrcssm")
    assert cli.main(["predict", str(tmp_path), "--stream"]) == 2
    assert "--views levels differences" in capsys.readouterr().err


def test_default_doors_have_views(tmp_path, monkeypatch, capsys, as_a_user_has_it):
    """A model that the command line or `LrcSSMClassifier` fits to streamed views predicts sample by sample."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    path, run = wave_file(tmp_path), tmp_path / "run"
    words = ["train", str(path), "--out", str(run)]
    assert cli.main([*words, "--views", *STREAMED]) == 0
    assert json.loads((run / "run.json").read_text())["model"]["views"] == list(STREAMED)
    capsys.readouterr()
    monkeypatch.setattr(sys, "stdin", io.StringIO("0.1\n0.2\n"))
    assert cli.main(["predict", str(run), "--stream"]) == 0
    assert [json.loads(line)["step"] for line in capsys.readouterr().out.splitlines()] == [1, 2]
    assert cli.main([*words, "--overwrite", "--views", "levels", "--dropout", "0.1"]) == 2
    assert "required by --dropout, does not use --views" in capsys.readouterr().err
    X, y = np.random.default_rng(0).standard_normal((6, 2, 20)), np.arange(6) % 2
    model = LrcSSMClassifier(views=STREAMED, random_state=0).fit(X, y)
    found = pushed(model.stream(), X[0].T)[-1]
    np.testing.assert_allclose(found, model.trained_.outputs(Cases.of([X[0].T]))[0], atol=1e-3)
    with pytest.raises(ValueError, match="required by hidden_dim, does not use views"):
        LrcSSMClassifier(views=STREAMED, hidden_dim=8).fit(X, y)
