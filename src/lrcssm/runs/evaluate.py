"""`lrcssm evaluate` and `lrcssm predict`: what a trained model makes of data."""

import csv
import dataclasses
import io
import json
import pathlib
import sys
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from ..compilation import remember_compilations
from ..data import Cases, Dataset, load as load_data
from ..engine import DEER, ELK, Auto, Sequential, Solver
from ..files import load_with_metadata
from ..memory import keep_memory
from ..models import SequenceModel
from ..training import predict
from ..training.metrics import log_softmax, scores
from . import Evaluate, Predict
from .folder import Folder, RunError, write_text
from .intervals import bootstrap, wilson
from .progress import finite

SOLVERS: dict[str, Solver] = {"auto": Auto(), "sequential": Sequential(), "deer": DEER(), "elk": ELK()}


@dataclasses.dataclass(frozen=True)
class Trained:
    """A model and what else its file says: `classes` (or `None`), `missing`, `unit`, `data`."""

    model: SequenceModel
    metadata: dict[str, Any]

    @property
    def classes(self) -> tuple[str, ...] | None:
        found = self.metadata.get("classes")
        return None if found is None else tuple(found)

    def cases(self, data: Dataset) -> Cases:
        """Data as this model takes it: its channels, its classes in its order, its unit of time."""
        channels = data.series[0].shape[1]
        if channels != self.model.config.input_dim:
            raise RunError(
                f"{data.name} has {channels} channels, but the model was trained on {self.model.config.input_dim}; give "
                "data with the same channels."
            )
        renamed = dataclasses.replace(data, targets=self._targets(data), classes=self.classes)
        return renamed.cases(self.metadata.get("missing", "error"), self.metadata.get("unit"))

    def _targets(self, data: Dataset) -> np.ndarray | None:
        if data.targets is None or self.classes is None or data.classes is None:
            return data.targets
        if unknown := [name for name in data.classes if name not in self.classes]:
            raise RunError(
                f"{data.name} has the class {unknown[0]!r}, which the model does not know; its classes are "
                f"{', '.join(self.classes)}."
            )
        return np.array([self.classes.index(name) for name in data.classes])[data.targets]


def open_model(where: str) -> Trained:
    """A model by its file or its run's folder."""
    path = pathlib.Path(where)
    if path.is_dir():
        path = Folder(path).model
        if not path.exists():
            raise RunError(f"{where} holds no trained model; is it the folder of a finished run?")
    return Trained(*load_with_metadata(path))


def run_evaluate(options: Evaluate) -> None:
    keep_memory()
    remember_compilations()
    trained = open_model(options.model)
    if options.source is None:
        data, cases = _test_cases(options, trained)
    else:
        data = load_data(options.source, directory=options.data_dir)
        cases = trained.cases(data)
    if cases.targets is None:
        raise RunError(f"{data.name} has no targets; lrcssm predict gives predictions for it.")
    if (trained.classes is None) != (data.classes is None):
        kinds = ("numbers", "classes") if trained.classes is None else ("classes", "numbers")
        raise RunError(f"The model predicts {kinds[0]}, but the targets of {data.name} are {kinds[1]}.")
    outputs = predict(trained.model, cases, solver=SOLVERS[options.solver])
    found = score(outputs, np.asarray(cases.targets), classify=trained.classes is not None)
    if options.json:
        print(json.dumps(finite({"data": data.name, "cases": len(cases), **found})))
    else:
        print(sentence(found, len(cases), data.name))


def _test_cases(options: Evaluate, trained: Trained) -> tuple[Dataset, Cases]:
    path = pathlib.Path(options.model)
    if not path.is_dir():
        raise RunError(
            "A model's file alone does not say what its test cases are; name the data, or give the run's folder."
        )
    from .train import divide

    facts = Folder(path).read_json("run.json")
    data = load_data(facts["options"]["source"], directory=options.data_dir or facts["options"]["data_dir"])
    split = divide(data, facts["options"]["split"], facts["options"]["split_seed"])
    return data, trained.cases(data).take(split.test)


def run_predict(options: Predict) -> None:
    if options.source is None:
        raise RunError("There is nothing to predict; name the data, or give --stream for standard input.")
    keep_memory()
    remember_compilations()
    trained = open_model(options.model)
    data = load_data(options.source, directory=options.data_dir)
    # Predictions need no targets, so what is wrong with those of the data does not matter.
    cases = trained.cases(dataclasses.replace(data, targets=None, classes=None))
    outputs = predict(trained.model, cases, solver=SOLVERS[options.solver])
    rows = list(rows_of(outputs, trained.classes))
    text = "".join(json.dumps(row) + "\n" for row in rows) if options.json else as_csv(rows)
    if options.out is None:
        sys.stdout.write(text)
        return
    target = pathlib.Path(options.out)
    if not target.parent.is_dir():
        raise RunError(f"{target} cannot be written: its folder does not exist.")
    write_text(target, text)


def rows_of(outputs: np.ndarray, classes: Sequence[str] | None) -> Iterable[dict[str, Any]]:
    """One prediction for each case: its class and the probability of each, or its numbers."""
    if classes is None:
        for i, row in enumerate(outputs.reshape(len(outputs), -1)):
            names = ["prediction"] if row.size == 1 else [f"prediction_{k}" for k in range(row.size)]
            yield {"case": i} | {name: float(value) for name, value in zip(names, row, strict=True)}
        return
    for i, row in enumerate(np.exp(log_softmax(outputs.astype(np.float64)))):
        shares = {f"p({name})": round(float(value), 6) for name, value in zip(classes, row, strict=True)}
        yield {"case": i, "prediction": classes[int(row.argmax())]} | shares


def as_csv(rows: Sequence[dict[str, Any]]) -> str:
    """Rows with a header."""
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def score(outputs: np.ndarray, targets: np.ndarray, *, classify: bool) -> dict[str, Any]:
    """All scores, and a 95 % interval for the first of them: `interval`, and what it is of, `of`."""
    found: dict[str, Any] = dict(scores(outputs, targets, classify=classify))
    if classify:
        hits = int(np.sum(outputs.argmax(-1) == targets.astype(int)))
        return found | {"of": "accuracy", "interval": list(wilson(hits, len(targets)))}
    error = (outputs - targets.reshape(outputs.shape)).astype(np.float64) ** 2
    low, high = bootstrap(lambda which: float(np.mean(error[which])), len(error))
    return found | {"of": "mse", "interval": [low, high]}


def sentence(found: dict[str, Any], cases: int, where: str) -> str:
    """The scores for people."""
    low, high = found["interval"]
    if found["of"] == "accuracy":
        return (
            f"{where}: accuracy {found['accuracy']:.1%} (95 % interval {low:.1%} to {high:.1%}) on {cases} cases; balanced "
            f"accuracy {found['balanced_accuracy']:.1%}, F1 {found['f1']:.3f}, log-loss {found['log_loss']:.3f}"
        )
    return (
        f"{where}: mean squared error {found['mse']:.4g} (95 % interval {low:.4g} to {high:.4g}) on {cases} cases; mean "
        f"absolute error {found['mae']:.4g}, R² {found['r2']:.3f}"
    )
