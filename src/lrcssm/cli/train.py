"""`lrcssm train`: from data to a run's folder."""

import contextlib
import dataclasses
import datetime
import json
import pathlib
import shlex
import signal
import sys
import threading
from collections.abc import Iterator
from typing import Any

import jax
import numpy as np

from ..compilation import remember_compilations
from ..data import SEEDS, Cases, Dataset, Split, load as load_data, paper_parts
from ..engine.solvers import SOLVERS
from ..files import save
from ..memory import keep_memory
from ..models import ModelConfig, SequenceModel, parameter_count
from ..training import Fitted, fit, predict
from . import Train
from .devices import open_mesh, with_others
from .evaluate import PARTS, as_csv, ready, rows_of, score, sentence, wanted
from .folder import Folder, RunError
from .origin import origin, same_run
from .presets import configure
from .progress import finite, shown

_LARGEST_SEED = 2**32 - 1  # in single precision keys ignore what is above


def run(options: Train) -> None:
    """Trains, scores and reports."""
    keep_memory()
    remember_compilations()
    mesh = open_mesh(options.on)
    first = jax.process_index() == 0
    if not first:  # the first one speaks and writes for all
        options = dataclasses.replace(options, quiet=True, json=False)
    data = load_data(options.source, directory=options.data_dir, target=options.target)
    split = divide(data, options.split, options.split_seed)
    config, training = configure(options.preset, data, options.model, options.training, options.seed)
    cases = ready(data, options.missing)
    train, validation = cases.take(split.train), cases.take(split.validation)
    folder = Folder(options.out or pathlib.Path("runs") / data.name)
    model = _first_model(config, options.seed).with_statistics(*train.statistics())
    if first:
        folder.claim(resume=options.resume, overwrite=options.overwrite)
    facts = {
        "command": command(options), "date": datetime.datetime.now().isoformat(timespec="seconds"),
        "versions": _versions(), "options": dataclasses.asdict(options),
        "data": {"name": data.name, "cases": {name: len(part) for name, part in split._asdict().items()},
                 "steps": cases.longest, "channels": cases.channels, "classes": data.classes}
                 | origin(data, options.source, options.data_dir),
        "model": json.loads(config.to_json()), "parameters": parameter_count(model),
        "training": dataclasses.asdict(training),
    }  # fmt: skip
    if first and options.resume and folder.file("run.json").exists():
        same_run(folder, facts)
    if not (options.quiet or options.json):
        _say(f"{data.name}: {len(train)} cases for training, {len(validation)} for validation, {len(split.test)} for test; "
             f"{cases.longest} steps, {cases.channels} channels.")  # fmt: skip
        _say(
            f"{config.cell} model, {facts['parameters']:,} parameters; {training.steps} steps of {training.batch} cases."
        )
    at, begun = 0, False

    def begin():
        nonlocal begun
        if first and not begun:
            folder.begin(facts, resume=options.resume)
            begun = True

    try:
        with (
            shown(training.steps, quiet=options.quiet, as_json=options.json) as (tick, look),
            _heeding_interrupts() as interrupted,
            with_others(),
        ):

            def count(step):
                nonlocal at
                at = step
                begin()  # not before: whatever may be refused or fail to compile leaves an older run as it is
                tick(step)
                if interrupted:
                    raise KeyboardInterrupt

            fitted = fit(
                model, train, validation, training, solver=SOLVERS[options.solver], report=look,
                tick=count, checkpoint=folder.checkpoint, resume=options.resume, mesh=mesh,
            )  # fmt: skip
    except KeyboardInterrupt:
        if options.overwrite and not begun:
            raise KeyboardInterrupt("interrupted before the first step; the folder is as it was.") from None
        raise KeyboardInterrupt(
            f"interrupted at step {at} of {training.steps}; the same command with --resume goes on."
        ) from None
    if first:
        begin()  # also if no step was left to be done
        part, which = judged(split)
        _finish(options, data, part, which, fitted, cases.take(which), folder, facts)


def _first_model(config: ModelConfig, seed: int) -> SequenceModel:
    """The model before training; what a cell cannot make of its options is said in a sentence."""
    if seed > _LARGEST_SEED:
        raise RunError(f"--seed got {seed}; give a whole number from 0 to {_LARGEST_SEED}.")
    try:
        return SequenceModel(config, jax.random.key(seed))
    except TypeError as error:
        given = " ".join(f"{name}={value}" for name, value in config.cell_options)
        raise RunError(
            f"No {config.cell} can be made with the options {given}: one of them is of the wrong kind, such as text where a "
            "number is expected; mend --cell-options."
        ) from error


def _finish(
    options: Train,
    data: Dataset,
    part: str,
    which: np.ndarray,
    fitted: Fitted,
    test: Cases,
    folder: Folder,
    facts: dict[str, Any],
) -> None:
    """Model, predictions, scores and report; whatever is there already is written again, the same."""
    from .report import write_report

    classify = data.classes is not None
    metadata = {
        "data": data.name, "classes": data.classes, "missing": options.missing, "unit": test.unit,
        "channel_names": data.channel_names, "target": options.target,
    }  # fmt: skip
    save(folder.model, fitted.model, metadata=metadata)
    outputs = predict(fitted.model, test, solver=SOLVERS[options.solver])
    targets = np.asarray(test.targets)
    found = score(outputs, targets, classify=classify) | {"cases": len(test), "best_step": fitted.step, "part": part}
    ids = [data.id_of(i) for i in which.tolist()]
    rows = [
        {"case": row.pop("case")} | wanted(target, data.classes) | row
        for target, row in zip(targets, rows_of(outputs, data.classes, ids), strict=True)
    ]
    folder.write_text("predictions.csv", as_csv(rows))
    folder.write_history(fitted.history)
    folder.write_json("scores.json", finite(found))
    write_report(folder, facts, fitted, test, outputs, found, rows)
    if options.json:
        print(json.dumps(finite({part: found, "folder": str(folder.path)})))
        return
    print(sentence(found, len(test), PARTS[part]))
    _say(f"report: {folder.file('report.html')}")


@contextlib.contextmanager
def _heeding_interrupts() -> Iterator[list[bool]]:
    """Gives a list that is no longer empty after Ctrl-C: an exception that is raised while Python calls back from compiled
    code may be lost."""
    pressed: list[bool] = []
    if threading.current_thread() is not threading.main_thread():
        yield pressed  # only the main thread may have a handler
        return

    def handle(number, frame):
        pressed.append(True)
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGINT, handle)
    try:
        yield pressed
    finally:
        signal.signal(signal.SIGINT, before)


def divide(data: Dataset, kind: str, seed: int) -> Split:
    """Which cases are for what."""
    if seed < 0:
        raise RunError(f"--split-seed got {seed}; give a whole number of at least 0.")
    if kind == "paper":
        return paper_parts(data, seed or SEEDS[0])
    if kind == "random":
        data = dataclasses.replace(data, split=None)
    split = data.complete_split(seed)
    if not len(split.train):
        raise RunError(f"{data.name} has no training part; --split random draws one.")
    return split


def judged(split: Split) -> tuple[str, np.ndarray]:
    """The part that a run is scored on and its cases: those for test, or for validation where a source has no others."""
    return ("test", split.test) if len(split.test) else ("validation", split.validation)


def command(options: Train) -> str:
    """What to type to get this run."""
    words = ["lrcssm", "train", options.source]
    for name, value in _flags(options):
        words += [f"--{name.replace('_', '-')}"] + ([] if value is True else [str(one) for one in _listed(value)])
    return shlex.join(words)


def _flags(options: Any):
    for field in dataclasses.fields(options):
        value = getattr(options, field.name)
        if field.name in ("source", "resume", "overwrite", "quiet", "json"):
            continue
        if dataclasses.is_dataclass(value):
            yield from _flags(value)
        elif value != field.default:
            yield field.name, value


def _listed(value: Any) -> list[Any]:
    return list(value) if isinstance(value, tuple) else [value]


def _versions() -> dict[str, str]:
    from ..benchmark.timing import environment

    return environment()["versions"]


def _say(text: str) -> None:
    print(text, file=sys.stderr)
