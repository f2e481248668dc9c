"""Callbacks that log evaluations to TensorBoard, MLflow and Weights & Biases.

Each is a function of an `Evaluation`, for `callbacks=` of the estimators and `report=` of `lrcssm.training.fit`. The library
that it writes with is imported at the first evaluation. Copies and pickles contain the settings only, so that scikit-learn can
clone an estimator with callbacks.
"""

import abc
import importlib
import math
import os
from typing import Any

from ..errors import MissingExtra
from .evaluation import Evaluation


def metrics_of(evaluation: Evaluation) -> dict[str, float]:
    """Numbers of an evaluation by name; those that are not finite are left out.

    ```python
    from lrcssm.training import Evaluation
    from lrcssm.training.callbacks import metrics_of

    print(metrics_of(Evaluation(10, 0.5, {"accuracy": 0.9}, 1.5, 0.0)))
    ```

    **Arguments:**

    - `evaluation`: an `Evaluation`.

    **Returns:**

    `loss`, `seconds`, `iterations`, and `validation/NAME` for each score.
    """
    found = {"loss": evaluation.loss, "seconds": evaluation.seconds, "iterations": evaluation.iterations}
    found |= {f"validation/{name}": value for name, value in evaluation.scores.items()}
    return {name: float(value) for name, value in found.items() if math.isfinite(value)}


class Callback(abc.ABC):
    """A function of an `Evaluation` that writes its numbers somewhere."""

    _open: Any = None

    def __call__(self, evaluation: Evaluation) -> None:
        if self._open is None:
            self._open = self._start()
        self._write(self._open, metrics_of(evaluation), evaluation.step)

    @abc.abstractmethod
    def _start(self) -> Any:
        """Import the library and open the log."""

    @abc.abstractmethod
    def _write(self, to: Any, metrics: dict[str, float], step: int) -> None: ...

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_open"}


class TensorBoard(Callback):
    """Write evaluations for TensorBoard, with tensorboardX or the writer of PyTorch.

    ```python
    import lrcssm
    from lrcssm.training.callbacks import TensorBoard

    model = lrcssm.LrcSSMClassifier(steps=200, callbacks=TensorBoard("logs/first"))
    ```

    TensorBoard, started on the folder `logs`, shows the curves of all runs in it.

    **Arguments:**

    - `folder`: of the event files of this run.
    """

    def __init__(self, folder: str | os.PathLike[str]):
        self.folder = os.fspath(folder)

    def _start(self) -> Any:
        for name in ("tensorboardX", "torch.utils.tensorboard"):
            try:
                return importlib.import_module(name).SummaryWriter(self.folder)
            except ImportError:
                continue
        raise MissingExtra("The callback TensorBoard needs tensorboardX; install it with pip install tensorboardX.")

    def _write(self, to: Any, metrics: dict[str, float], step: int) -> None:
        for name, value in metrics.items():
            to.add_scalar(name, value, step)
        to.flush()

    def close(self) -> None:
        """Close the event file."""
        if self._open is not None:
            self._open.close()
            self._open = None


class MLflow(Callback):
    """Write evaluations to a run of MLflow: the active one, or a new one.

    ```python
    import lrcssm
    from lrcssm.training.callbacks import MLflow

    model = lrcssm.LrcSSMClassifier(steps=200, callbacks=MLflow())
    ```

    **Arguments:**

    - `run_id`: of another run than the active one.
    """

    def __init__(self, run_id: str | None = None):
        self.run_id = run_id

    def _start(self) -> Any:
        return _imported("mlflow", "MLflow")

    def _write(self, to: Any, metrics: dict[str, float], step: int) -> None:
        to.log_metrics(metrics, step=step, **({} if self.run_id is None else {"run_id": self.run_id}))


class WandB(Callback):
    """Write evaluations to a run of Weights & Biases: the active one, or a new one.

    ```python
    import lrcssm
    from lrcssm.training.callbacks import WandB

    model = lrcssm.LrcSSMClassifier(steps=200, callbacks=WandB(project="gestures", mode="offline"))
    ```

    **Arguments:**

    - `settings`: of `wandb.init`, for a new run.
    """

    def __init__(self, **settings: Any):
        self.settings = settings

    def _start(self) -> Any:
        wandb = _imported("wandb", "WandB")
        return wandb.run or wandb.init(**self.settings)

    def _write(self, to: Any, metrics: dict[str, float], step: int) -> None:
        to.log(metrics, step=step, commit=True)  # else the last one waits for the next


def _imported(library: str, name: str) -> Any:
    try:
        return importlib.import_module(library)
    except ImportError as error:
        raise MissingExtra(f"The callback {name} needs {library}; install it with pip install {library}.") from error
