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
from ..data import SEEDS, Dataset, Split, load as load_data, paper_parts
from ..files import save
from ..memory import keep_memory
from ..models import SequenceModel, parameter_count
from ..training import Fitted, fit, predict
from . import Train
from .devices import open_mesh, with_others
from .evaluate import SOLVERS, as_csv, rows_of, score, sentence
from .folder import Folder
from .presets import configure
from .progress import finite, shown


def run(options: Train) -> None:
    """Trains, scores and reports."""
    keep_memory()
    remember_compilations()
    mesh = open_mesh(options.on)
    first = jax.process_index() == 0
    if not first:  # the first one speaks and writes for all
        options = dataclasses.replace(options, quiet=True, json=False)
    data = load_data(options.source, directory=options.data_dir)
    split = divide(data, options.split, options.split_seed)
    config, training = configure(options.preset, data, options.model, options.training, options.seed)
    cases = data.cases(options.missing)
    train, validation, test = (cases.take(part) for part in split)
    folder = Folder(options.out or pathlib.Path("runs") / data.name)
    if first:
        folder.claim(resume=options.resume, overwrite=options.overwrite)
    model = SequenceModel(config, jax.random.key(options.seed)).with_statistics(*train.statistics())
    facts = {
        "command": command(options), "date": datetime.datetime.now().isoformat(timespec="seconds"),
        "versions": _versions(), "options": dataclasses.asdict(options),
        "data": {"name": data.name, "cases": {name: len(part) for name, part in split._asdict().items()},
                 "steps": cases.longest, "channels": cases.channels, "classes": data.classes},
        "model": json.loads(config.to_json()), "parameters": parameter_count(model),
        "training": dataclasses.asdict(training),
    }  # fmt: skip
    if first and not (options.resume and folder.file("run.json").exists()):
        folder.write_json("run.json", facts)
    if not (options.quiet or options.json):
        _say(f"{data.name}: {len(train)} cases for training, {len(validation)} for validation, {len(test)} for test; "
             f"{cases.longest} steps, {cases.channels} channels.")  # fmt: skip
        _say(
            f"{config.cell} model, {facts['parameters']:,} parameters; {training.steps} steps of {training.batch} cases."
        )
    at = 0

    try:
        with (
            shown(training.steps, quiet=options.quiet, as_json=options.json) as (tick, look),
            _heeding_interrupts() as interrupted,
            with_others(),
        ):

            def count(step):
                nonlocal at
                at = step
                tick(step)
                if interrupted:
                    raise KeyboardInterrupt

            fitted = fit(
                model, train, validation, training, solver=SOLVERS[options.solver], report=look,
                tick=count, checkpoint=folder.checkpoint, resume=options.resume, mesh=mesh,
            )  # fmt: skip
    except KeyboardInterrupt:
        raise KeyboardInterrupt(
            f"interrupted at step {at} of {training.steps}; the same command with --resume goes on."
        ) from None
    if first:
        _finish(options, data, split, fitted, test, folder, facts)


def _finish(options: Train, data: Dataset, split: Split, fitted: Fitted, test, folder: Folder, facts) -> None:
    """Model, predictions, scores and report; whatever is there already is written again, the same."""
    from .report import write_report

    classify = data.classes is not None
    metadata = {"data": data.name, "classes": data.classes, "missing": options.missing, "unit": test.unit}
    save(folder.model, fitted.model, metadata=metadata)
    outputs = predict(fitted.model, test, solver=SOLVERS[options.solver])
    targets = np.asarray(test.targets)
    found = score(outputs, targets, classify=classify) | {"cases": len(test), "best_step": fitted.step}
    rows = []
    for i, row in enumerate(rows_of(outputs, data.classes)):
        want = data.classes[int(targets[i])] if data.classes is not None else targets[i].tolist()
        rows.append({"case": int(split.test[i]), "target": want} | {k: v for k, v in row.items() if k != "case"})
    folder.write_text("predictions.csv", as_csv(rows))
    folder.write_text("history.jsonl", "".join(json.dumps(epoch.to_dict()) + "\n" for epoch in fitted.history))
    folder.write_json("scores.json", finite(found))
    write_report(folder, facts, fitted, test, outputs, found, rows)
    if options.json:
        print(json.dumps(finite({"test": found, "folder": str(folder.path)})))
        return
    print(sentence(found, len(test), "test"))
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
    if kind == "paper":
        return paper_parts(data, seed or SEEDS[0])
    if kind == "random":
        data = dataclasses.replace(data, split=None)
    return data.complete_split(seed)


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
