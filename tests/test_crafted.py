"""Foreign run descriptions, study journals and checkpoints: used, or rejected with one sentence."""

import contextlib
import errno
import json
import os

import jax
import numpy as np
import pytest
from mutants import mutants, text_mutants
from test_checkpoint import CONFIG, model, run, waves
from test_training import as_a_user_has_it  # noqa: F401, a fixture
from tuning.studies import made, options, wave_file

import lrcssm
from lrcssm import LrcssmError, cli, files
from lrcssm.errors import WriteError
from lrcssm.files import FileError, read_arrays, write_arrays
from lrcssm.training import CheckpointError, checkpoint, fit
from lrcssm.training.folder import Folder, RunError
from lrcssm.training.provenance import same_run
from lrcssm.tuning import worker

COUNTS = [pytest.param(15, id="15"), pytest.param(150, id="150", marks=pytest.mark.slow)]
SMALL = [
    "--hidden-dim",
    "4",
    "--state-dim",
    "4",
    "--num-blocks",
    "1",
    "--steps",
    "4",
    "--check-every",
    "2",
    "--batch",
    "4",
]


@pytest.fixture(autouse=True)
def alone(tmp_path, monkeypatch):
    """No cache of the user, and a folder of our own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    before = jax.config.jax_compilation_cache_dir
    wave_file(tmp_path)
    yield
    jax.config.update("jax_compilation_cache_dir", before)


def said(words, capsys):
    """The exit code of a command and its message of one line; a traceback would be raised here."""
    code = cli.main(words)
    out, err = capsys.readouterr()
    complaint = [line for line in err.splitlines() if line.startswith("lrcssm: ")]
    assert code in (0, 2) and len(complaint) == (code == 2)
    assert all(line.isprintable() for line in (out + err).splitlines())
    return code


@pytest.mark.parametrize("count", COUNTS)
def test_descriptions_of_runs(capsys, count):
    assert cli.main(["train", "waves.csv", "--out", "run", "--quiet", *SMALL]) == 0
    folder = Folder("run")
    text = folder.file("run.json").read_text()
    good, refused = json.loads(text), 0
    texts = [json.dumps(one).encode() for one in mutants(good, count)]
    for data in (*texts, *text_mutants(text, count // 3)):
        folder.file("run.json").write_bytes(data)
        refused += said(["evaluate", "run"], capsys) == 2
        try:
            same_run(folder, good)
        except (FileError, RunError) as error:
            assert "\n" not in str(error)
    assert refused > count // 10
    folder.file("run.json").write_text(text)
    assert said(["evaluate", "run"], capsys) == 0


@pytest.mark.parametrize("count", COUNTS)
def test_journals_of_studies(tmp_path, capsys, monkeypatch, count):
    monkeypatch.setattr(worker.Shift, "_value", lambda self, mine, running, settings: 0.5)
    monkeypatch.setattr(worker, "PAUSE", 0.01)
    study, material = made(options())
    worker.work(study, material)
    path = next((tmp_path / "runs" / "tune").glob("*.journal"))
    lines = path.read_text().splitlines()
    # All but the last entries, so that a trial is left to be run.
    entries, refused = [json.loads(line) for line in lines[:-1]], 0
    documents = [
        "".join(json.dumps(one) + "\n" for one in own) for own in mutants(entries, count, 1) if type(own) is list
    ]
    texts = [one.encode() for one in documents]
    for data in (*texts, *text_mutants("\n".join(lines) + "\n", count // 3)):
        for words in (["show", "s"], ["worker", "s", "--timeout", "2"]):
            path.write_bytes(data)
            refused += said(["tune", *words], capsys) == 2
    assert refused > count // 10
    path.write_text("\n".join(lines) + "\n")
    assert said(["tune", "show", "s"], capsys) == 0


SERIES = np.random.default_rng(0).normal(size=(8, 2, 12))
WAVE = np.sin(np.arange(60) / 3)
FEW = {"hidden_dim": 4, "state_dim": 4, "num_blocks": 1, "steps": 1, "random_state": 0}
ESTIMATORS = {
    "gradient": lambda: lrcssm.LrcSSMRegressor(**FEW, patch=1).fit(SERIES, np.arange(8.0)),
    "ridge": lambda: lrcssm.LrcRidgeClassifier(n_features=28, random_state=0).fit(SERIES, list("abababab")),
    "ridge forecaster": lambda: lrcssm.LrcRidgeForecaster(horizon=2, season=3, n_units=4, random_state=0).fit(WAVE),
    "forecaster": lambda: lrcssm.LrcSSMForecaster(**FEW, horizon=2, window=8, season=1).fit(WAVE),
}


@pytest.mark.parametrize(
    ("kind", "count"),
    [
        ("ridge", 20),
        ("ridge forecaster", 20),
        *(pytest.param(kind, 150, marks=pytest.mark.slow) for kind in ESTIMATORS),
    ],
)
def test_model_files(tmp_path, kind, count, defaults):
    """A header that was changed: the estimator predicts, or one sentence says what is wrong with the file."""
    estimator = ESTIMATORS[kind]()
    path, given = tmp_path / "model", () if hasattr(estimator, "window_") else (SERIES,)
    estimator.save(path)
    want = estimator.predict(*given)
    header, arrays = read_arrays(path, kind="model")
    document, refused, same = {name: header[name] for name in header if name not in ("format", "arrays")}, 0, 0
    for mutant in mutants(document, count, 3):
        try:
            write_arrays(path, mutant if isinstance(mutant, dict) else {}, arrays)
        except ValueError:  # a number that JSON does not have
            continue
        try:
            same += np.array_equal(type(estimator).load(path).predict(*given), want)
        except LrcssmError as error:
            assert str(error).isprintable()
            refused += 1
        with contextlib.suppress(LrcssmError):
            lrcssm.load(path)
    assert refused > count // 2 and same > 0


@pytest.mark.parametrize(
    "name, value",
    [("dilations", 2**30), ("dilations", -1), ("sources", 2**20), ("mixes", 0), ("cell.b_u", 0), ("views.mean", 0)],
)
def test_arrays_of_a_ridge_model_fit_together(tmp_path, name, value, defaults):
    """A stream keeps eight times the largest dilation: 2³⁰ would be 32 GB of samples. Other arrays get another shape."""
    path = tmp_path / "model"
    lrcssm.LrcRidgeClassifier(n_features=28, views=["levels"], random_state=0).fit(SERIES, list("abababab")).save(path)
    header, arrays = read_arrays(path, kind="model")
    array = arrays[f"model{name}"]
    arrays[f"model{name}"] = np.full_like(array, value) if value else np.repeat(array, 2, 0)
    write_arrays(path, {key: header[key] for key in header if key not in ("format", "arrays")}, arrays)
    with pytest.raises(FileError, match=f"its {name} has shape|its {name} are not whole numbers from 0 to"):
        lrcssm.load(path)


@pytest.mark.parametrize("count", COUNTS)
def test_checkpoints(tmp_path, monkeypatch, count):
    monkeypatch.setattr(checkpoint, "LEAST_SECONDS", 0.0)
    path = tmp_path / "checkpoint"
    with pytest.raises(KeyboardInterrupt):
        run(path, stop_at=6)
    path.with_name("checkpoint.previous").unlink(missing_ok=True)
    header, arrays = read_arrays(path, kind="checkpoint")
    refused = 0
    for mutant in mutants({"run": header["run"], "facts": header["facts"]}, count, 2):
        write_arrays(path, {"kind": "checkpoint", **(mutant if isinstance(mutant, dict) else {})}, arrays)
        try:
            fit(model(), waves(), waves(seed=1), CONFIG, checkpoint=path, resume=True)
        except CheckpointError as error:
            assert "\n" not in str(error) and str(path) in str(error)
            refused += 1
        path.with_name("checkpoint.previous").unlink(missing_ok=True)
    assert refused > count // 2


@pytest.mark.parametrize(
    "change", [{"dtype": np.float64}, {"shape": (1,)}, {"step": -1}, {"step": 10**6}, {"nan": True}]
)
def test_checkpoints_with_other_arrays(tmp_path, monkeypatch, change):
    monkeypatch.setattr(checkpoint, "LEAST_SECONDS", 0.0)
    path = tmp_path / "checkpoint"
    with pytest.raises(KeyboardInterrupt):
        run(path, stop_at=6)
    path.with_name("checkpoint.previous").unlink(missing_ok=True)
    header, arrays = read_arrays(path, kind="checkpoint")
    name = next(name for name, array in arrays.items() if array.ndim > 1)
    step = next(name for name in arrays if name.endswith(".step"))
    match change:
        case {"dtype": dtype}:
            arrays[name] = arrays[name].astype(dtype)
        case {"shape": shape}:
            arrays[name] = np.zeros(shape, np.float32)
        case {"step": number}:
            arrays[step] = np.array(number, arrays[step].dtype)
        case _:
            arrays[name] = np.full_like(arrays[name], np.nan)
    write_arrays(path, {name: header[name] for name in ("kind", "run", "facts")}, arrays)
    if "dtype" in change:
        assert run(path).step
        return
    with pytest.raises(LrcssmError) as caught:
        run(path)
    assert "\n" not in str(caught.value)


def full(monkeypatch, name, after=0):
    """Let the disk be full for files whose name begins with `name`, after some of them."""
    real, seen = os.fsync, []

    def fsync(handle):
        if os.path.basename(os.readlink(f"/proc/self/fd/{handle}")).startswith(f".{name}."):
            seen.append(handle)
            if len(seen) > after:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return real(handle)

    monkeypatch.setattr(files.os, "fsync", fsync)


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="needs /proc")
@pytest.mark.parametrize(
    "name", ["run.json", "checkpoint.lrcssm.next", "model.lrcssm", "predictions.csv", "report.html"]
)
def test_a_full_disk_names_the_file_and_the_way_to_go_on(tmp_path, capsys, monkeypatch, name):
    monkeypatch.setattr(checkpoint, "LEAST_SECONDS", 0.0)
    words = ["train", "waves.csv", "--out", "run", "--quiet", *SMALL]
    with monkeypatch.context() as patch:
        full(patch, name, after=1 if name.startswith("checkpoint") else 0)
        assert cli.main(words) == 2
    complaint = capsys.readouterr().err.splitlines()[-1]
    assert "disk is full" in complaint and os.path.join("run", name) in complaint and "--resume" in complaint
    assert not [one for one in os.listdir("run") if one.startswith(f".{name}")]
    assert cli.main([*words, "--resume"]) == 0
    resumed = (tmp_path / "run" / "predictions.csv").read_bytes()
    assert cli.main([*words, "--overwrite"]) == 0
    assert resumed == (tmp_path / "run" / "predictions.csv").read_bytes()


def test_a_full_disk_in_a_program(tmp_path, monkeypatch):
    def fsync(handle):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(files.os, "fsync", fsync)
    with pytest.raises(WriteError, match=r"a.lrcssm cannot be written: the disk is full; free some space\.$") as caught:
        write_arrays(tmp_path / "a.lrcssm", {"kind": "x"}, {"a": np.zeros(3)})
    assert isinstance(caught.value, OSError) and not list(tmp_path.glob("*a.lrcssm*"))


def test_a_full_disk_in_a_study(tmp_path, capsys, monkeypatch):
    study, _ = made(options())
    path = study.place.runs / "s.journal"
    monkeypatch.setattr(worker.Shift, "_value", lambda self, mine, running, settings: 0.5)

    def fsync(handle):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", fsync)
        assert cli.main(["tune", "worker", "s"]) == 2
    complaint = capsys.readouterr().err.splitlines()[-1]
    assert (
        f"{path} cannot be written: the disk is full; free some space, and then run lrcssm tune worker s." in complaint
    )
    assert cli.main(["tune", "worker", "s"]) == 0
