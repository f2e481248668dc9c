"""A target for each time step, from a table or from arrays to scores, reports and streams."""

import csv
import io
import json

import jax
import numpy as np
import pytest
from test_training import as_a_user_has_it  # noqa: F401, a fixture

import lrcssm
from lrcssm import cli
from lrcssm.data import Cases, from_frame, load
from lrcssm.errors import InvalidValue
from lrcssm.training.metrics import losses, observed
from lrcssm.training.predictions import score_cases, sentence

SMALL = {"hidden_dim": 8, "state_dim": 8, "num_blocks": 1, "steps": 150, "check_every": 50, "learning_rate": 1e-2}
ACTIVITIES = np.array(["run", "sit"])


def recordings(count=12, lengths=(40, 60), seed=0):
    """Two channels that turn quickly while running and slowly while sitting, and the activity of each step."""
    rng = np.random.default_rng(seed)
    found = []
    for _ in range(count):
        steps = int(rng.integers(*lengths))
        activity = np.repeat(rng.integers(0, 2, 10), 10)[:steps]
        phase = np.cumsum(np.where(activity == 0, 0.9, 0.2))
        values = np.stack([np.sin(phase), np.cos(phase)]) + 0.05 * rng.normal(size=(2, steps))
        found.append((values, ACTIVITIES[activity]))
    return [one for one, _ in found], [one for _, one in found]


@pytest.fixture(scope="module")
def fitted():
    with jax.enable_x64(False), jax.numpy_dtype_promotion("standard"):
        X, y = recordings()
        y[0] = y[0].astype(object)
        y[0][3:6] = [None, "", np.nan]  # labels that are missing
        return lrcssm.LrcSSMClassifier(task="per-step", random_state=0, **SMALL).fit(X, y)


def test_the_loss_leaves_steps_without_a_target_out():
    """Against a plain loop: cross-entropy or squared error, on average over observed steps that have a target."""
    rng = np.random.default_rng(0)
    outputs, mask = rng.normal(size=(5, 2, 3)), rng.random((5, 2)) < 0.7
    mask[0] = True
    for classify in (True, False):
        targets = rng.integers(0, 3, (5, 2)) if classify else rng.normal(size=(5, 2, 3))
        targets[2, 0] = -1 if classify else np.nan
        expected = np.zeros(2)
        for case in range(2):
            every = []
            for t in range(5):
                if not mask[t, case] or (t, case) == (2, 0):
                    continue
                row = outputs[t, case]
                if classify:
                    every.append(np.log(np.sum(np.exp(row - row.max()))) + row.max() - row[targets[t, case]])
                else:
                    every.append(np.mean((row - targets[t, case]) ** 2))
            expected[case] = np.mean(every)
        config = lrcssm.ModelConfig(input_dim=1, output_dim=3, task="per-step", hidden_dim=4, state_dim=4, num_blocks=1)
        model = lrcssm.SequenceModel(config, jax.random.key(0))
        found = losses(model, jax.numpy.asarray(outputs), jax.numpy.asarray(targets), jax.numpy.asarray(mask), 0.0)
        np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_scores_count_steps_and_their_interval_counts_cases():
    rng = np.random.default_rng(1)
    sizes = [10, 20, 30]
    targets = tuple(rng.integers(0, 2, size) for size in sizes)
    targets[0][:4] = -1
    series = [rng.normal(size=(size, 1)) for size in sizes]
    series[1][5] = np.nan  # not observed
    cases = Cases.of(series, targets, missing="mask")
    outputs = [rng.normal(size=(size, 2)) for size in sizes]
    hits, counts = [], []
    for i, size in enumerate(sizes):
        known = [t for t in range(size) if targets[i][t] >= 0 and not np.isnan(series[i][t, 0])]
        hits.append(sum(outputs[i][t].argmax() == targets[i][t] for t in known))
        counts.append(len(known))
    found = score_cases(outputs, cases, classify=True)
    assert found["steps"] == sum(counts) == len(observed(outputs, cases)[1])
    np.testing.assert_allclose(found["accuracy"], sum(hits) / sum(counts))
    shares = np.array(hits) / counts
    low, high = found["interval"]
    assert shares.min() <= low < found["accuracy"] < high <= shares.max()
    assert f"on {sum(counts)} steps of 3 cases" in sentence(found, 3, "test") and "over cases" in sentence(
        found, 3, "test"
    )
    alone = score_cases(outputs[:1], cases.take([0]), classify=True)
    assert alone["interval"] == [0.0, 1.0]  # one case says nothing about others


def test_classifier(fitted, tmp_path, as_a_user_has_it):  # noqa: F811
    X, y = recordings(6, seed=1)
    assert fitted.model_.config.task == "per-step" and not fitted.model_.config.bidirectional
    found, shares = fitted.predict(X), fitted.predict_proba(X)
    assert [one.shape for one in found] == [one.shape for one in y] and isinstance(found, list)
    right = sum(int(np.sum(a == b)) for a, b in zip(found, y, strict=True)) / sum(map(len, y))
    np.testing.assert_allclose(fitted.score(X, y), right)
    assert right > 0.8  # the more frequent activity has about one half
    np.testing.assert_allclose(shares[2].sum(-1), 1, rtol=1e-6)
    blanked = [np.where(np.arange(len(one)) % 2, one, None) for one in y]
    odd = [(a == b)[1::2] for a, b in zip(found, y, strict=True)]
    np.testing.assert_allclose(fitted.score(X, blanked), np.concatenate(odd).mean())
    cube = np.stack([one[:, :40] for one in X])
    assert fitted.predict(cube).shape == (6, 40) and fitted.predict_proba(cube).shape == (6, 40, 2)
    # What comes later changes nothing, so a stream gives the same.
    np.testing.assert_array_equal(fitted.predict(cube)[1], found[1][:40])
    stream = fitted.model_.stream()
    outputs = np.stack([stream.push(sample) for sample in X[0].T.astype(np.float32)])
    np.testing.assert_array_equal(fitted.classes_[outputs.argmax(-1)], found[0])
    fitted.save(tmp_path / "model")
    again = lrcssm.LrcSSMClassifier.load(tmp_path / "model")
    np.testing.assert_array_equal(again.predict_proba(X)[3], shares[3])
    assert lrcssm.load(tmp_path / "model").task == "per-step"


def test_regressor(as_a_user_has_it):  # noqa: F811
    X, y = recordings(8, lengths=(30, 31))
    pace = np.stack([np.where(one == "run", 2.0, 1.0) for one in y])
    pace[0, 4] = np.nan
    model = lrcssm.LrcSSMRegressor(task="per-step", random_state=0, **SMALL).fit(np.stack(X), pace)
    found = model.predict(np.stack(X))
    assert found.shape == pace.shape
    known = ~np.isnan(pace)
    spread = np.mean((pace[known] - pace[known].mean()) ** 2)
    np.testing.assert_allclose(
        model.score(np.stack(X), pace), 1 - np.mean((found - pace)[known] ** 2) / spread, rtol=1e-6
    )
    two = lrcssm.LrcSSMRegressor(task="per-step", random_state=0, **SMALL | {"steps": 5})
    two.fit(X, [np.stack([one, one], -1) for one in np.nan_to_num(pace, nan=1.0)])
    assert two.n_outputs_ == 2 and two.predict(X)[0].shape == (30, 2)


@pytest.mark.parametrize(
    ("options", "y", "text"),
    [
        (
            {},
            recordings(4)[1],
            r'y is a list of arrays, with a target for each time step; give LrcSSMClassifier\(task="per-step"\)',
        ),
        ({}, np.zeros((4, 30), int), r"y has shape \(4, 30\), with a target for each time step"),
        (
            {"task": "per-step"},
            ["run", "sit"] * 2,
            r'LrcSSMClassifier\(task="per-step"\) got y with one target for each case',
        ),
        (
            {"task": "steps"},
            ["run", "sit"] * 2,
            r"got task='steps'; give \"per-step\" for a target of each time step, or None",
        ),
        (
            {"task": "per-step", "method": "ridge"},
            recordings(4)[1],
            "The method ridge predicts no targets of each step",
        ),
        ({"task": "per-step"}, [one[:-1] for one in recordings(4)[1]], "they need as many steps as their series"),
        ({"task": "per-step"}, [*recordings(4)[1][:3], [None] * 10], "y of case 3 has no label; leave the case out"),
        ({"task": "per-step"}, [np.linspace(0, 1, 9)] * 4, "holds numbers that are not whole, which are no classes"),
    ],
)
def test_mistakes(options, y, text):
    with pytest.raises(InvalidValue, match=text):
        lrcssm.LrcSSMClassifier(**options).fit(recordings(4)[0], y)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run of the command line on a table with a label in each row."""
    folder = tmp_path_factory.mktemp("steps")
    X, y = recordings(20)
    lines = ["person,time,ax,ay,activity"]
    for case, (values, labels) in enumerate(zip(X, y, strict=True)):
        for t, label in enumerate(labels):
            lines.append(f"p{case},{t},{values[0, t]:.4f},{values[1, t]:.4f},{'' if (case, t) == (0, 3) else label}")
    (folder / "walks.csv").write_text("\n".join(lines) + "\n")
    words = [f"--{name.replace('_', '-')}={value}" for name, value in SMALL.items()]
    columns = ["--case", "person", "--target", "activity"]
    with jax.enable_x64(False), jax.numpy_dtype_promotion("standard"), pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(folder / "cache"))
        before = jax.config.jax_compilation_cache_dir
        code = cli.main(["train", str(folder / "walks.csv"), "--task", "per-step", "--out", str(folder / "run"), *columns,
                         *[part for word in words for part in word.split("=")]])  # fmt: skip
        jax.config.update("jax_compilation_cache_dir", before)
    assert code == 0
    return folder


def test_train_on_a_table(run, as_a_user_has_it):  # noqa: F811
    data = load(run / "walks.csv", task="per-step", case="person", target="activity")
    assert data.targets[0][3] == -1 and data.classes == ("run", "sit")
    test = data.complete_split(0).test
    with open(run / "run" / "predictions.csv") as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0]) == ["case", "step", "target", "prediction", "p(run)", "p(sit)"]
    assert len(rows) == sum(len(data.series[i]) for i in test)
    assert {row["case"] for row in rows} == {data.ids[i] for i in test}
    found = json.loads((run / "run" / "scores.json").read_text())
    known = [row for row in rows if row["target"]]
    np.testing.assert_allclose(found["accuracy"], np.mean([row["target"] == row["prediction"] for row in known]))
    assert found["steps"] == len(known) and found["accuracy"] > 0.75
    pairs = [(row["target"], row["prediction"]) for row in known]
    each = [2 * pairs.count((name, name)) / sum(pair.count(name) for pair in pairs) for name in ("run", "sit")]
    np.testing.assert_allclose(found["f1"], np.mean(each))
    assert found["interval"][0] <= found["accuracy"] <= found["interval"][1]
    assert "<svg" in (run / "run" / "report.html").read_text()


def test_evaluate_and_predict(run, capsys, as_a_user_has_it):  # noqa: F811
    found = json.loads((run / "run" / "scores.json").read_text())
    assert cli.main(["evaluate", str(run / "run"), "--json"]) == 0
    again = json.loads(capsys.readouterr().out)
    np.testing.assert_allclose(again["accuracy"], found["accuracy"])
    assert again["steps"] == found["steps"]
    assert cli.main(["evaluate", str(run / "run"), str(run / "walks.csv")]) == 0
    assert "steps of 20 cases" in capsys.readouterr().out
    assert cli.main(["predict", str(run / "run"), str(run / "walks.csv")]) == 0
    labelled = capsys.readouterr().out
    text = (run / "walks.csv").read_text()
    (run / "bare.csv").write_text("".join(line.rpartition(",")[0] + "\n" for line in text.splitlines()))
    assert cli.main(["predict", str(run / "run"), str(run / "bare.csv")]) == 0
    assert capsys.readouterr().out == labelled and labelled.startswith("case,step,prediction,p(run),p(sit)\n")
    assert len(labelled.splitlines()) == len(text.splitlines())


def test_a_stream_says_what_the_file_says(run, capsys, monkeypatch, as_a_user_has_it):  # noqa: F811
    rows = [row for row in csv.DictReader((run / "walks.csv").read_text().splitlines()) if row["person"] == "p1"]
    monkeypatch.setattr("sys.stdin", io.StringIO("".join(f"{row['ax']},{row['ay']}\n" for row in rows)))
    try:
        assert cli.main(["predict", str(run / "run"), "--stream"]) == 0
    finally:
        jax.config.update("jax_cpu_enable_async_dispatch", True)
    streamed = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert cli.main(["predict", str(run / "run"), str(run / "walks.csv")]) == 0
    expected = [row for row in csv.DictReader(capsys.readouterr().out.splitlines()) if row["case"] == "p1"]
    assert [one["prediction"] for one in streamed] == [row["prediction"] for row in expected]
    np.testing.assert_allclose(
        [one["p(run)"] for one in streamed], [float(row["p(run)"]) for row in expected], atol=1e-5
    )


def test_a_data_set_brings_its_targets(run, as_a_user_has_it):  # noqa: F811
    pandas = pytest.importorskip("pandas")
    data = from_frame(pandas.read_csv(run / "walks.csv"), case="person", target="activity", task="per-step")
    model = lrcssm.LrcSSMClassifier(task="per-step", random_state=0, **SMALL).fit(data)
    assert model.trained_.channels == ("ax", "ay") and model.classes_.tolist() == ["run", "sit"]
    labels = [np.array([*data.classes, None], object)[one] for one in data.targets]
    assert model.score(data) == model.score(data, labels) > 0.8
    with pytest.raises(InvalidValue, match="with a target for each time step"):
        lrcssm.LrcSSMClassifier().fit(data)
