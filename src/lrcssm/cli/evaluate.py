"""`lrcssm evaluate` and `lrcssm predict`: what a trained model makes of data."""

import contextlib
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
from ..data.readers import NoTargetColumn
from ..engine.solvers import SOLVERS
from ..files import load_with_metadata
from ..memory import keep_memory
from ..models import SequenceModel
from ..training import predict
from ..training.metrics import log_softmax, scores
from . import Evaluate, Predict
from .folder import Folder, RunError, write_text
from .intervals import bootstrap, wilson
from .origin import original
from .progress import finite

PARTS = {"test": "test", "validation": "validation (there is no test part)"}
"""What scores are of, for people."""


@dataclasses.dataclass(frozen=True)
class Trained:
    """A model and what else its file says: `classes` (or `None`), `missing`, `unit`, `data`, `channel_names`."""

    model: SequenceModel
    metadata: dict[str, Any]

    @property
    def classes(self) -> tuple[str, ...] | None:
        found = self.metadata.get("classes")
        return None if found is None else tuple(found)

    @property
    def task(self) -> str:
        return "regress" if self.classes is None else "classify"

    def cases(self, data: Dataset, missing: str | None = None) -> Cases:
        """Data as this model takes it: its channels and its classes in its order, its unit of time. Missing values are
        dealt with as in training if `missing` does not say otherwise."""
        if self.metadata.get("estimator", {}).get("class") == "LrcSSMForecaster":
            raise RunError("The model is that of an LrcSSMForecaster, which forecasts only with LrcSSMForecaster.load.")
        channels = data.series[0].shape[1]
        if channels != self.model.config.input_dim:
            raise RunError(
                f"{data.name} has {channels} channels, but the model was trained on {self.model.config.input_dim}; give "
                "data with the same channels."
            )
        renamed = dataclasses.replace(
            self._timed(data), targets=self._targets(data), classes=self.classes, series=self._channels(data)
        )
        return ready(renamed, missing or self.metadata.get("missing", "error"), self.metadata.get("unit"))

    def _channels(self, data: Dataset) -> tuple[np.ndarray, ...]:
        """The series with their channels in the order of training, if both have names for them."""
        given = data.channel_names
        order = None if given is None else self.order_of(given, f"The channels of {data.name} are")
        if order is None:
            return data.series
        return tuple(one[:, order] for one in data.series)

    def order_of(self, given: Sequence[str], words: str, advice: str = "") -> list[int] | None:
        """Where the channels of training are among some names; `None` where they are in their places, or have no names.

        **Arguments:**

        - `given`: the names of all channels.
        - `words`, `advice`: the beginning and the end of the sentence that refuses other names.
        """
        known = self.metadata.get("channel_names")
        if known is None or tuple(known) == tuple(given):
            return None
        if set(known) != set(given) or len(set(given)) < len(given):
            raise RunError(
                f"{words} {', '.join(given)}, but the model was trained on {', '.join(known)}; give the same names, in any "
                f"order{advice}."
            )
        return [given.index(name) for name in known]

    def _timed(self, data: Dataset) -> Dataset:
        """The data with times if the model knows a unit of them, and without if it does not."""
        if "unit" not in self.metadata:
            return data
        if self.metadata["unit"] is None:
            if data.times is not None:
                raise RunError(
                    f"The steps of {data.name} take unequal times, but those that the model was trained on took equal ones; "
                    "bring the data to equal steps, or train on data like this."
                )
            return data
        timed = data.with_times()
        if timed.times is None:
            raise RunError(f"{data.name} has no times, but the model was trained with them; add those of its steps.")
        return timed

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
    model, metadata = load_with_metadata(path)
    return Trained(model, metadata | _of_estimator(metadata))


def _of_estimator(metadata: dict[str, Any]) -> dict[str, Any]:
    """What an estimator that was saved says, under the names that a run uses."""
    if "estimator" not in metadata:
        return {}
    fitted, parameters = metadata["estimator"]["fitted"], metadata["estimator"]["parameters"]
    labels = fitted.get("classes_")
    return {
        "classes": None if labels is None else [str(label) for label in labels["values"]],
        "missing": parameters.get("missing", "error"),
        "unit": fitted.get("unit_"),
    }


def ready(data: Dataset, missing: str, unit: float | None = None) -> Cases:
    """The cases of data; what is missing in them is refused with what to say on the command line."""
    if missing == "error" and data.missing:
        first = next(i for i, one in enumerate(data.series) if np.isnan(one).any())
        raise RunError(
            f"{data.name} has {data.missing:,} missing values, the first of them in case {data.id_of(first)}; --missing mask "
            "skips such steps, --missing fill carries the last value forward."
        )
    return data.cases(missing, unit)


def _load(source: str, options: Evaluate | Predict, trained: Trained, task: str | None = None) -> Dataset:
    """New data; the column of its targets is that of training, if there is such a column and no other was named."""
    if options.target is None and (known := trained.metadata.get("target")):
        with contextlib.suppress(NoTargetColumn):
            return load_data(source, directory=options.data_dir, task=task, target=known)
    return load_data(source, directory=options.data_dir, task=task, target=options.target)


def run_evaluate(options: Evaluate) -> None:
    keep_memory()
    remember_compilations()
    trained = open_model(options.model)
    if options.source is None:
        if options.target is not None:
            raise RunError("The data of a run has the targets of training; leave --target out, or name other data.")
        data, cases, part = _run_cases(options, trained)
    else:
        data, part = _load(options.source, options, trained, task=trained.task), None
        cases = trained.cases(data, options.missing)
    if cases.targets is None:
        raise RunError(f"{data.name} has no targets; lrcssm predict gives predictions for it.")
    if (trained.classes is None) != (data.classes is None):
        kinds = ("numbers", "classes") if trained.classes is None else ("classes", "numbers")
        raise RunError(f"The model predicts {kinds[0]}, but the targets of {data.name} are {kinds[1]}.")
    outputs = predict(trained.model, cases, solver=SOLVERS[options.solver])
    found = score(outputs, np.asarray(cases.targets), classify=trained.classes is not None)
    if options.json:
        print(json.dumps(finite({"data": data.name, "part": part, "cases": len(cases), **found})))
    else:
        print(sentence(found, len(cases), data.name if part in (None, "test") else f"{data.name}, {PARTS[part]}"))


def _run_cases(options: Evaluate, trained: Trained) -> tuple[Dataset, Cases, str]:
    """The data of a run, the cases that it is scored on, and which part they are."""
    path = pathlib.Path(options.model)
    if not path.is_dir():
        raise RunError(
            "A model's file alone does not say what its test cases are; name the data, or give the run's folder."
        )
    from .train import divide, judged

    kept = Folder(path).read_json("run.json")["options"]
    data = original(Folder(path), options.data_dir)
    part, which = judged(divide(data, kept["split"], kept["split_seed"]))
    return data, trained.cases(data, options.missing).take(which), part


def run_predict(options: Predict) -> None:
    if options.source is None:
        raise RunError("There is nothing to predict; name the data, or give --stream for standard input.")
    keep_memory()
    remember_compilations()
    trained = open_model(options.model)
    data = _load(options.source, options, trained)
    # Predictions need no targets, so what is wrong with those of the data does not matter.
    cases = trained.cases(dataclasses.replace(data, targets=None, classes=None), options.missing)
    outputs = predict(trained.model, cases, solver=SOLVERS[options.solver])
    rows = list(rows_of(outputs, trained.classes, data.ids))
    text = "".join(json.dumps(row) + "\n" for row in rows) if options.json else as_csv(rows)
    if options.out is None:
        sys.stdout.write(text)
        return
    target = pathlib.Path(options.out)
    if not target.parent.is_dir():
        raise RunError(f"{target} cannot be written: its folder does not exist.")
    write_text(target, text)


def rows_of(
    outputs: np.ndarray, classes: Sequence[str] | None, ids: Sequence[str | int] | None = None
) -> Iterable[dict[str, Any]]:
    """One prediction for each case: its class and the probability of each, or its numbers. Without `ids` cases are
    counted."""
    ids = range(len(outputs)) if ids is None else ids
    if classes is None:
        for case, row in zip(ids, outputs, strict=True):
            yield {"case": case} | _numbered("prediction", row)
        return
    for case, row in zip(ids, np.exp(log_softmax(outputs.astype(np.float64))), strict=True):
        shares = {f"p({name})": round(float(value), 6) for name, value in zip(classes, row, strict=True)}
        yield {"case": case, "prediction": classes[int(row.argmax())]} | shares


def wanted(target: Any, classes: Sequence[str] | None) -> dict[str, Any]:
    """The target of a case as columns like those of `rows_of`."""
    return _numbered("target", target) if classes is None else {"target": classes[int(target)]}


def _numbered(name: str, values: Any) -> dict[str, float]:
    """A column for one number, or a numbered one for each of several."""
    row = np.ravel(values)
    names = [name] if row.size == 1 else [f"{name}_{k}" for k in range(row.size)]
    return {one: float(value) for one, value in zip(names, row, strict=True)}


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
