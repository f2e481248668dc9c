"""`lrcssm evaluate`: scores of a trained model."""

import contextlib
import dataclasses
import json
import pathlib
from typing import Annotated, Any

from ..compilation import remember_compilations
from ..data import Cases, Dataset, load
from ..data.readers import NoTargetColumn
from ..engine.solvers import SOLVERS
from ..memory import keep_memory
from ..training import Trained
from ..training.folder import Folder, RunError
from ..training.metrics import observed
from ..training.predictions import PARTS, score, sentence
from ..training.provenance import divide, judged, original
from ..training.trained import load as load_trained
from .options import Model, NewData, refuse_missing
from .parser import Arg
from .progress import finite


@dataclasses.dataclass(frozen=True)
class Evaluate:
    """Score a trained model on data with targets."""

    model: Model
    """Folder of a run, or file of a model."""
    source: Annotated[str | None, Arg("SOURCE", positional=True)] = None
    """A name, file or folder of data, all of whose cases are scored; the test cases of the run if not given."""
    new: NewData = NewData()
    json: bool = False
    """Print JSON."""

    def run(self) -> None:
        """Print the scores."""
        keep_memory()
        remember_compilations()
        trained = open_model(self.model)
        if self.source is None:
            if self.new.columns.as_arguments():
                raise RunError("The data of a run has the columns of training; leave them out, or name other data.")
            data, cases, part = self._run_cases(trained)
        else:
            data, part = load_new(self.source, self.new, trained, task=trained.task), None
            cases = new_cases(data, self.new, trained)
        if cases.targets is None:
            raise RunError(f"{data.name} has no targets; lrcssm predict gives predictions for it.")
        if (trained.classes is None) != (data.classes is None):
            kinds = ("numbers", "classes") if trained.classes is None else ("classes", "numbers")
            raise RunError(f"The model predicts {kinds[0]}, but the targets of {data.name} are {kinds[1]}.")
        outputs, targets = observed(trained.outputs(cases, solver=SOLVERS[self.new.solver]), cases)
        found = score(outputs, targets, classify=trained.classes is not None)
        if self.json:
            print(json.dumps(finite({"data": data.name, "part": part, "cases": len(cases), **found})))
        else:
            print(sentence(found, len(cases), data.name if part in (None, "test") else f"{data.name}, {PARTS[part]}"))

    def _run_cases(self, trained: Trained) -> tuple[Dataset, Cases, str]:
        """The data of a run, the cases that it is scored on, and which part they are."""
        path = pathlib.Path(self.model)
        if not path.is_dir():
            raise RunError(
                "A model's file alone does not say what its test cases are; name the data, or give the run's folder."
            )
        kept = Folder(path).read_json("run.json")["options"]
        data = original(Folder(path), self.new.data_dir)
        part, which = judged(divide(data, kept["split"], kept["split_seed"]))
        return data, new_cases(data, self.new, trained).take(which), part


def open_model(where: str) -> Trained:
    """A trained model by its file or the folder of its run."""
    path = pathlib.Path(where)
    if path.is_dir() and not Folder(path).model.exists():
        raise RunError(f"{where} holds no trained model; is it the folder of a finished run?")
    trained = load_trained(path)
    if trained.task == "forecast":
        raise RunError(
            "The model is that of a forecaster; load it in Python with its class, such as lrcssm.LrcRidgeForecaster.load."
        )
    return trained


def new_cases(data: Dataset, new: NewData, trained: Trained) -> Cases:
    """Cases of new data as a model takes them."""
    refuse_missing(data, new.missing or trained.missing)
    return trained.cases(data, new.missing)


def load_new(source: str, new: NewData, trained: Trained, task: str | None = None) -> Dataset:
    """New data for a model; its columns are those of training, as far as there are such columns and no others were named."""
    known: dict[str, Any] = dict(trained.provenance.get("columns", {}))
    given = new.columns.as_arguments()
    if "target" in known and "target" not in given:
        with contextlib.suppress(NoTargetColumn):
            return load(source, directory=new.data_dir, task=task, **known | given)
        known.pop("target")
    return load(source, directory=new.data_dir, task=task, **known | given)
