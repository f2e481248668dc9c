"""Callbacks for TensorBoard, MLflow and Weights & Biases: the numbers arrive in the real libraries, as far as they are installed."""

import copy
import pickle
import time

import numpy as np
import pytest

from lrcssm.errors import MissingExtra
from lrcssm.training import Evaluation
from lrcssm.training.callbacks import MLflow, TensorBoard, WandB, metrics_of

FIRST = Evaluation(10, 0.75, {"accuracy": 0.5, "log_loss": 0.7}, 1.5, 2.0)
SECOND = Evaluation(20, 0.25, {"accuracy": 0.875, "log_loss": float("nan")}, 3.0, 2.5)
WANTED = [
    {"loss": 0.75, "seconds": 1.5, "iterations": 2.0, "validation/accuracy": 0.5, "validation/log_loss": 0.7},
    {"loss": 0.25, "seconds": 3.0, "iterations": 2.5, "validation/accuracy": 0.875},
]


def test_numbers_of_an_evaluation():
    assert [metrics_of(FIRST), metrics_of(SECOND)] == WANTED


@pytest.mark.parametrize(
    "make, modules, says",
    [
        (lambda: TensorBoard("x"), ("tensorboardX", "torch.utils.tensorboard"), "pip install tensorboardX"),
        (MLflow, ("mlflow",), "pip install mlflow"),
        (WandB, ("wandb",), "pip install wandb"),
    ],
)
def test_a_missing_library_is_one_sentence(make, modules, says, monkeypatch):
    for name in modules:
        monkeypatch.setitem(__import__("sys").modules, name, None)
    with pytest.raises(MissingExtra, match=says):
        make()(FIRST)


@pytest.mark.parametrize("make", [lambda: TensorBoard("x"), lambda: MLflow("a"), lambda: WandB(project="p")])
def test_copies_hold_the_settings_alone(make):
    one = make()
    settings = dict(vars(one))
    one._open = open(__file__)  # noqa: SIM115, what can neither be copied nor pickled
    for same in (copy.deepcopy(one), pickle.loads(pickle.dumps(one))):
        assert type(same) is type(one) and vars(same) == settings and same._open is None
    one._open.close()


@pytest.mark.filterwarnings("ignore")
def test_tensorboard(tmp_path):
    pytest.importorskip("tensorboardX")
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    callback = TensorBoard(tmp_path / "log")
    for one in (FIRST, SECOND):
        callback(one)
    callback.close()
    found = accumulator.EventAccumulator(str(tmp_path / "log"))
    found.Reload()
    assert set(found.Tags()["scalars"]) == set(WANTED[0])
    for name in WANTED[0]:
        events = found.Scalars(name)
        assert [event.step for event in events] == [10, 20][: len(events)]
        np.testing.assert_allclose([event.value for event in events], [one[name] for one in WANTED if name in one])


@pytest.mark.filterwarnings("ignore")  # of the libraries themselves
def test_mlflow(tmp_path):
    mlflow = pytest.importorskip("mlflow")
    mlflow.set_tracking_uri(f"sqlite:///{tmp_path}/mlflow.db")
    with mlflow.start_run() as run:
        callback = MLflow()
        for one in (FIRST, SECOND):
            callback(one)
    for name in WANTED[0]:
        history = mlflow.tracking.MlflowClient().get_metric_history(run.info.run_id, name)
        pairs = [(step, one[name]) for step, one in zip((10, 20), WANTED, strict=True) if name in one]
        assert [(point.step, point.value) for point in history] == pairs
    MLflow(run.info.run_id)(Evaluation(30, 0.125, {}, 4.0, 0.0))
    assert mlflow.get_run(run.info.run_id).data.metrics["loss"] == 0.125


@pytest.mark.filterwarnings("ignore")
def test_wandb(tmp_path, monkeypatch):
    wandb = pytest.importorskip("wandb")
    monkeypatch.setenv("WANDB_SILENT", "true")
    callback = WandB(project="test", mode="offline", dir=str(tmp_path))
    for one in (FIRST, SECOND):
        callback(one)
    run = callback._open
    summary = dict(run.summary)
    run.finish()
    assert {name: summary[name] for name in WANTED[1]} == WANTED[1] and summary["_step"] == 20
    (file,) = (tmp_path / "wandb").glob("offline-run-*/run-*.wandb")
    until = time.monotonic() + 20
    while file.stat().st_size < 500 and time.monotonic() < until:  # its service writes a moment after finish() returns
        time.sleep(0.1)
    assert file.stat().st_size > 500  # 7 bytes are its header
    assert wandb.run is None
