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
from ..files import write_text
from ..memory import keep_memory
from ..training import Trained
from ..training.baseline import constant_of, constant_scores, known_constant
from ..training.folder import Folder, RunError
from ..training.metrics import observed
from ..training.predictions import PARTS, score_cases, sentence
from ..training.provenance import divide, judged, original, run_facts
from ..training.trained import load as load_trained
from .options import Model, NewData, refuse_missing
from .parser import Arg
from .progress import finite


@dataclasses.dataclass(frozen=True)
class Evaluate:
    """Score a trained model on data with targets."""

    model: Model
    """Run folder or model file."""
    source: Annotated[str | None, Arg("SOURCE", positional=True)] = None
    """A name, file or folder of data, all cases of which are scored; by default the test cases of the run."""
    new: NewData = NewData()
    report: Annotated[str | None, Arg("FILE")] = None
    """Page to write: the scores in words and pictures, .html."""
    json: bool = False
    """Print JSON."""

    def run(self) -> None:
        """Print the scores."""
        if self.report is not None:
            _check_page(self.report)
        keep_memory()
        remember_compilations()
        trained = open_model(self.model)
        if self.source is None:
            if self.new.columns.as_arguments():
                raise RunError("The data of a run has the columns of training; leave them out, or name other data.")
            data, cases, part, which = self._run_cases(trained)
        else:
            data, part = load_new(self.source, self.new, trained, task=trained.task), None
            cases, which = new_cases(data, self.new, trained), range(len(data))
        if cases.targets is None:
            raise RunError(f"{data.name} has no targets; lrcssm predict gives predictions for it.")
        if (trained.classes is None) != (data.classes is None):
            kinds = ("numbers", "classes") if trained.classes is None else ("classes", "numbers")
            raise RunError(f"The model predicts {kinds[0]}, but the targets of {data.name} are {kinds[1]}.")
        solver, classify = SOLVERS[self.new.solver], trained.classes is not None
        predicted = trained.outputs(cases, solver=solver)
        _, targets = observed(predicted, cases)
        constant = known_constant(trained.provenance.get("constant"), trained.model.config.output_dim)
        if constant is None:  # a model from elsewhere
            constant = constant_of(cases, classify=classify)
        found = score_cases(predicted, cases, classify=classify)
        found |= {"baseline": constant_scores(constant, targets, trained.names)}
        if self.report is not None:
            from ..report.judged import Judged  # matplotlib is slow to import

            ids = [data.id_of(int(case)) for case in which]
            self._write(data.name, Judged(trained, cases, predicted, found, part or "given", ids, solver=solver))
        if self.json:
            print(json.dumps(finite({"data": data.name, "part": part, "cases": len(cases), **found})))
        else:
            print(sentence(found, len(cases), data.name if part in (None, "test") else f"{data.name}, {PARTS[part]}"))

    def _write(self, name: str, judged: Any) -> None:
        from ..report.run import evaluation_page

        about = f"{len(judged.cases):,} cases, up to {judged.cases.longest:,} steps, {judged.cases.channels} channels."
        title = f"{name}, evaluation"
        write_text(pathlib.Path(str(self.report)), evaluation_page(self.model, title, about, judged))

    def _run_cases(self, trained: Trained) -> tuple[Dataset, Cases, str, Any]:
        """Data of a run, the cases to score, the name of their part, and their positions."""
        path = pathlib.Path(self.model)
        if not path.is_dir():
            raise RunError("A model file does not contain its test cases; name the data, or give the run folder.")
        kept = run_facts(Folder(path))["options"]
        data = original(Folder(path), self.new.data_dir)
        part, which = judged(divide(data, kept["split"], kept["split_seed"]))
        return data, new_cases(data, self.new, trained).take(which), part, which


def _check_page(path: str) -> None:
    """Check that the report can be written, before anything is computed."""
    target = pathlib.Path(path)
    if target.suffix != ".html":
        raise RunError(f"--report got {path}; give a name that ends in .html.")
    if not target.parent.is_dir():
        raise RunError(f"--report got {path}, but its folder does not exist; create it first.")


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
    """New data for a model; columns default to those of training, where they exist."""
    known: dict[str, Any] = dict(trained.provenance.get("columns", {}))
    given = new.columns.as_arguments()
    if "target" in known and "target" not in given:
        with contextlib.suppress(NoTargetColumn):
            return load(source, directory=new.data_dir, task=task, **known | given)
        known.pop("target")
    return load(source, directory=new.data_dir, task=task, **known | given)
