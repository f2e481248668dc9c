"""`lrcssm train`: from data to the folder of a run."""

import contextlib
import dataclasses
import datetime
import functools
import json
import pathlib
import shlex
import sys
import time
from collections.abc import Callable
from typing import Annotated, Any, Literal

import jax
import numpy as np

from ..compilation import remember_compilations
from ..data import Cases, Dataset, load, padded_lengths
from ..engine.solvers import SOLVERS
from ..errors import WriteError
from ..features import LiquidModel
from ..interrupts import heeding_interrupts
from ..machine import environment
from ..memory import keep_memory
from ..models import ModelConfig, SequenceModel, parameter_count
from ..options import options_of
from ..training import Facts, Fitted, Trained, TrainingConfig, first_model, fit, recipe
from ..training.baseline import constant_of, constant_scores, doubt
from ..training.folder import Folder, RunError
from ..training.metrics import observed
from ..training.predictions import PARTS, as_csv, rows_of, score_cases, sentence
from ..training.provenance import divide, judged, origin, same_run
from ..training.recipe import choose_method, find_preset
from .compare import check_aeon, minirocket
from .devices import DeviceOptions, open_mesh, with_others
from .options import (
    ColumnOptions,
    DataDir,
    Missing,
    ModelOptions,
    SolverName,
    Task,
    TrainingOptions,
    given,
    refuse_missing,
)  # fmt: skip
from .parser import Arg, flag
from .progress import finite, shown
from .supervise import supervised

_NAMES = {
    "ridge": "ridge on random liquid features", "logistic": "ridge on random liquid features, then logistic regression if it is better on held-out cases",
    "gradient": "gradient steps",
}  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Train:
    """Train a model on a data set, and write a folder with the model, its predictions and a report."""

    source: Annotated[str, Arg("SOURCE", positional=True)]
    """A name (lrcssm data list), a file (.ts, .arff, .npz, .csv) or a folder of them."""
    out: Annotated[str | None, Arg("DIR")] = None
    """Run folder; by default runs/NAME."""
    method: Literal["auto", "ridge", "logistic", "gradient"] = "auto"
    """Ridge regression on random liquid features, in seconds; logistic regression that starts from it; or gradient steps. auto
    is ridge, or logistic to classify more than 500 cases, or gradient if a preset or an option of model, training or devices is
    given."""
    views: Annotated[tuple[str, ...], Arg("VIEW")] = ()
    """Views of a series for ridge and logistic: levels, differences, case-levels, case-differences; by default all that are not
    redundant. A model with levels and differences only can predict sample by sample."""
    preset: Annotated[str, Arg("PRESET")] = "default"
    """Settings to start from: default; or those of an extension: released, the code released with the paper, and
    paper:ARCHITECTURE:DATASET, a row of its tables, as in paper:s5:EthanolConcentration."""
    model: ModelOptions = ModelOptions()
    training: TrainingOptions = TrainingOptions()
    columns: ColumnOptions = ColumnOptions()
    task: Task | None = None
    """Targets of the data: classify, regress, or per-step if each time step has one. Guessed if not given, except per-step."""
    missing: Missing = "error"
    """Policy for missing values: raise an error, skip their steps (mask), or carry the last value forward (fill)."""
    split: str = "source"
    """Training, validation and test cases: source, the parts of the source if it has any; random; or paper, the paper's splits,
    with the seeds 2345, 3456, 4567, 5678 and 6789."""
    split_seed: int = 0
    """Seed of a random split."""
    seed: int = 0
    """Seed of the initial weights, the order of the data and dropout."""
    solver: SolverName = "auto"
    """Solver of the recurrences while training."""
    on: DeviceOptions = DeviceOptions()
    resume: bool = False
    """Resume the run in the folder; the result is that of an uninterrupted run. With more --steps than before, continue for the
    remaining steps, at the learning rate of the new number of steps."""
    overwrite: bool = False
    """Replace an existing run in the folder."""
    data_dir: DataDir = None
    """Folder of the data sets; by default the variable LRCSSM_DATA, or the cache."""
    compare: bool = False
    """Train MiniRocket too (it needs aeon), and print and report its score."""
    quiet: bool = False
    """Print the final scores only."""
    json: bool = False
    """Print one JSON object for each evaluation, and the scores as the last one."""

    def run(self) -> None:
        """Train, score and report."""
        try:
            if not supervised(self.on):
                run(self)
        except WriteError as error:
            raise RunError(f"{str(error)[:-1]}, and then run the same command with --resume.") from error


def run(options: Train) -> None:
    """Train, score and report, in this process."""
    keep_memory()
    remember_compilations()
    mesh = open_mesh(options.on)
    first = jax.process_index() == 0
    if not first:  # the first one prints and writes for all
        options = dataclasses.replace(options, quiet=True, json=False)
    if options.compare:
        check_aeon()
    data = load(options.source, directory=options.data_dir, task=options.task, **options.columns.as_arguments())
    split = divide(data, options.split, options.split_seed)
    refuse_missing(data, options.missing)
    cases = data.cases(options.missing)
    train, validation = cases.take(split.train), cases.take(split.validation)
    known = Facts.of_dataset(data, cases)
    # Without gradient steps no validation cases are needed, so these are for training too.
    whole = cases.take(np.sort(np.concatenate([split.train, split.validation])))
    method, reason = choose_method(
        options.method, known.task, len(whole), _asked(options), ["--views"] if options.views else []
    )
    folder = Folder(options.out or pathlib.Path("runs") / data.name)
    facts = {
        "command": command(options), "date": datetime.datetime.now().isoformat(timespec="seconds"),
        "versions": environment()["versions"], "options": dataclasses.asdict(options),
        "data": {"name": data.name, "cases": {name: len(part) for name, part in split._asdict().items()},
                 "steps": cases.longest, "channels": cases.channels, "classes": data.classes}
                 | origin(data, options.source, options.data_dir),
        "method": method,
    }  # fmt: skip
    if method == "gradient":
        config, training = recipe(
            known, given(options.model), given(options.training) | {"seed": options.seed},
            preset=find_preset(options.preset, data),
        )  # fmt: skip
        lengths = padded_lengths(train, patch=config.patch)
        try:
            model = first_model(config, train, options.seed)
        except TypeError as error:
            raise RunError(_bad_options(config)) from error
        facts |= {
            "model": json.loads(config.to_json()), "parameters": parameter_count(model),
            "training": dataclasses.asdict(training),
        }  # fmt: skip
        about = f"{config.cell} model, {facts['parameters']:,} parameters; {training.steps} steps of {training.batch} cases."
    else:
        model, training, lengths = None, None, ()
        facts |= {"model": {}, "training": {"seed": options.seed}}
        about = "--method gradient trains an LrcSSM by gradients instead."
    with folder.claimed(resume=options.resume, overwrite=options.overwrite) if first else contextlib.nullcontext():
        if first and options.resume and folder.file("run.json").exists():
            same_run(folder, facts)
        if not (options.quiet or options.json):
            _say(f"{data.name}: {len(train)} cases for training, {len(validation)} for validation, {len(split.test)} for test; "
                 f"{cases.longest} steps, {cases.channels} channels.{f' {data.guess}' if data.guess else ''}")  # fmt: skip
            _say(f"Method: {_NAMES[method]}, {reason}. {about}")
        begin = functools.cache(lambda: folder.begin(facts, resume=options.resume)) if first else lambda: None
        learned = train
        if model is not None and training is not None:
            fitted = _fit(options, model, train, validation, training, mesh, folder, begin)
            if first and (text := doubt(fitted, train, validation, training)) is not None:
                _say(f"Warning: {text}")
        else:
            learned = whole
            start = time.perf_counter()
            liquid = LiquidModel.fit(
                whole, known.task, known.outputs, views=options.views or None, seed=options.seed,
                logistic=method == "logistic",
            )  # fmt: skip
            fitted = Fitted(liquid, float("nan"), 0, (), time.perf_counter() - start)
            facts |= {"model": json.loads(liquid.config.to_json()), "parameters": liquid.parameter_count()}
        if first:
            begin()  # also if no step was left to be done
            part, which = judged(split)
            _finish(options, data, part, which, fitted, learned, cases.take(which), lengths, folder, facts)


def _asked(options: Train) -> list[str]:
    """Given options that apply to gradient steps only."""
    asked = [name for group in (options.model, options.training) for name in given(group)]
    asked += [name for name in ("preset", "solver") if getattr(options, name) != getattr(Train, name)]
    asked += ["devices"] if options.on != DeviceOptions() else []
    return [flag(name) for name in asked]


def _fit(
    options: Train,
    model: SequenceModel,
    train: Cases,
    validation: Cases,
    training: TrainingConfig,
    mesh: Any,
    folder: Folder,
    begin: Callable[[], None],
) -> Fitted:
    """Train with progress and checkpoints. `begin` is called at the first step, so that an error before it leaves an older run
    unchanged."""
    at = 0
    try:
        with (
            shown(training.steps, quiet=options.quiet, as_json=options.json) as (tick, report),
            heeding_interrupts() as interrupted,
            with_others(),
        ):

            def count(step):
                nonlocal at
                at = step
                begin()
                tick(step)
                if interrupted:
                    raise KeyboardInterrupt

            return fit(
                model, train, validation, training, solver=SOLVERS[options.solver], report=report,
                tick=count, checkpoint=folder.checkpoint, resume=options.resume, mesh=mesh,
            )  # fmt: skip
    except KeyboardInterrupt:
        if options.overwrite and not at:
            raise KeyboardInterrupt("interrupted before the first step; the folder is unchanged.") from None
        raise KeyboardInterrupt(
            f"interrupted at step {at} of {training.steps}; the same command with --resume continues."
        ) from None


def _finish(
    options: Train,
    data: Dataset,
    part: str,
    which: np.ndarray,
    fitted: Fitted,
    learned: Cases,
    test: Cases,
    lengths: tuple[int, ...],
    folder: Folder,
    facts: dict[str, Any],
) -> None:
    """Write model, predictions, scores and report; existing files are written again with the same content."""
    from ..report.judged import Judged  # matplotlib is slow to import
    from ..report.run import write_report

    solver, constant = SOLVERS[options.solver], constant_of(learned, classify=data.classes is not None)
    classes = None if data.classes is None else np.array(data.classes)
    trained = Trained(
        fitted.model, classes, data.channel_names, options.missing, test.unit,
        {"data": data.name, "columns": options.columns.as_arguments(), "command": facts["command"],
         "constant": constant.tolist()}, lengths=lengths,
    )  # fmt: skip
    trained.save(folder.model)
    outputs = trained.outputs(test, solver=solver)
    found = score_cases(outputs, test, classify=classes is not None)
    found |= {"cases": len(test), "best_step": fitted.step, "part": part}
    found["baseline"] = constant_scores(constant, observed(outputs, test)[1], data.classes)
    if options.compare:
        rival = minirocket(learned, test, classify=classes is not None, seed=options.seed)
        if isinstance(rival, str):
            _say(rival)
        else:
            found["minirocket"] = rival
    ids = [data.id_of(case) for case in which.tolist()]
    rows = list(rows_of(outputs, data.classes, ids, test.targets))
    folder.write_text("predictions.csv", as_csv(rows))
    folder.write_history(fitted.history)
    folder.write_json("scores.json", finite(found))
    # A quick training is not followed by a slow report.
    seconds = min(max(fitted.seconds / 4, 2.0), 20.0)
    write_report(folder, facts, fitted, Judged(trained, test, outputs, found, part, ids, seconds, solver))
    if options.json:
        print(json.dumps(finite({part: found, "folder": str(folder.path)})))
        return
    print(sentence(found, len(test), PARTS[part]))
    _say(f"report: {folder.file('report.html')}")


def _bad_options(config: ModelConfig) -> str:
    given = " ".join(f"{name}={value}" for name, value in config.cell_options)
    return (
        f"No {config.cell} can be made with the options {given}: one of them is of the wrong type, such as text where a number "
        "is expected; correct --cell-options."
    )


def command(options: Train) -> str:
    """The command line of a run."""
    words = ["lrcssm", "train", options.source]
    for name, value in _flags(options):
        words.append(flag(name))
        if value is not True or name in options_of(ModelOptions):
            words += [
                {True: "yes", False: "no"}.get(one, str(one)) if isinstance(one, bool) else str(one)
                for one in _listed(value)
            ]
    return shlex.join(words)


def _flags(options: Any):
    for field in dataclasses.fields(options):
        value = getattr(options, field.name)
        if field.name in ("source", "resume", "overwrite", "quiet", "json", "compare"):
            continue
        if dataclasses.is_dataclass(value):
            yield from _flags(value)
        elif value != field.default:
            yield field.name, value


def _listed(value: Any) -> list[Any]:
    return list(value) if isinstance(value, tuple) else [value]


def _say(text: str) -> None:
    print(text, file=sys.stderr)
