"""`lrcssm reproduce`: the runs of a table, those that are missing, and the table with ours beside the published."""

import contextlib
import json
import pathlib
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from jax.errors import JaxRuntimeError

from lrcssm.compilation import remember_compilations
from lrcssm.data import Dataset, load
from lrcssm.data.download import DataError
from lrcssm.engine.solvers import SOLVERS
from lrcssm.errors import InvalidValue
from lrcssm.memory import keep_memory
from lrcssm.training.folder import Folder, RunError

from . import cost
from .commands import Reproduce
from .jobs import Job, alone, command, make_job, run_job, why_not
from .published import DATASETS
from .splits import SEEDS, paper_parts
from .store import finished, lines_of, read_store
from .tables import TABLES, Table


def run(options: Reproduce) -> None:
    """Does what the options ask for."""
    if options.table is not None and options.table not in TABLES:
        raise InvalidValue(f"There is no table {options.table!r}; give one of {', '.join(TABLES)}.")
    if options.report is not None:
        from .report import write

        return write(options)
    if options.table is None:
        return _list(options.json)
    table = TABLES[options.table]
    if table.instead is not None:
        return _print(options, table, [])
    jobs, refused = plan(options)
    if options.plan:
        return _print_plan(options, jobs, refused)
    store = pathlib.Path(options.store)
    sets, missing = _load({job.dataset for job in jobs}, options.data_dir)
    known = [(job, Folder(store / job.identity(sets[job.dataset]))) for job in jobs if job.dataset in sets]
    if not options.show:
        _run_missing(known, sets, options)
    cells = collect(options, known, sets, refused | missing)
    if options.steps is None:
        _hint(options, cells)
    _print(options, table, cells)


def _hint(options: Reproduce, cells: list[dict[str, Any]]) -> None:
    """Says of a cell without runs which other numbers of steps there are runs of."""
    table, stored = TABLES[str(options.table)], read_store(options.store)
    for cell in cells:
        if cell["runs"]:
            continue
        lines = lines_of(table, [cell["model"]], [cell["dataset"]], options.seeds, None, stored)
        if found := sorted({line.steps for line in lines if line.results and line.steps}):
            cell["notes"].append(
                f"there are runs of {' and '.join(f'{steps:,}' for steps in found)} steps: give --steps"
            )


def plan(options: Reproduce) -> tuple[list[Job], dict[tuple[str, str], str]]:
    """The runs that the options ask for, and why some rows have none for a data set."""
    assert options.table is not None
    table = TABLES[options.table]
    solver = solver_of(options)
    changes = {} if options.steps is None else {"steps": options.steps}
    jobs, refused = [], {}
    for row in asked(options.models, tuple(table.rows), "models"):
        for dataset in asked(options.datasets, columns(table), "datasets"):
            if (reason := why_not(table, row, dataset)) is not None:
                refused[row, dataset] = reason
                continue
            try:
                jobs += [
                    make_job(table, row, dataset, seed, options.protocol, changes, solver) for seed in options.seeds
                ]
            except ValueError as error:
                refused[row, dataset] = str(error).rstrip(".")
    return jobs, refused


def solver_of(options: Reproduce) -> str:
    """How the runs are solved: the table of iterations needs a solver that has some."""
    return "deer" if options.table == "iterations" and options.solver == "auto" else options.solver


def columns(table: Table) -> tuple[str, ...]:
    """The data sets of a table, in order."""
    found = dict.fromkeys(name for row in table.rows.values() for name in row.published)
    return tuple(found) or tuple(name for name in DATASETS if name != "PPG")


def asked(given: tuple[str, ...], known: tuple[str, ...], option: str, lenient: bool = False) -> list[str]:
    """Those of a table's names that an option asks for; one that the table does not have is refused, unless `lenient`."""
    full = {full: short for short, full in DATASETS.items()}
    names = [full.get(name, name) for name in given]
    for name in names:
        if name not in known and name != "all" and not lenient:
            raise InvalidValue(f"--{option} got {name!r}; this table has {', '.join(known)}.")
    return [name for name in known if name in names or "all" in names]


def _load(names: set[str], directory: str | None) -> tuple[dict[str, Dataset], dict[str, str]]:
    """The data sets that are there, and what is wrong with the others."""
    sets, missing = {}, {}
    for name in sorted(names):
        try:
            found = load(DATASETS[name], directory=directory)
            if name != "PPG":
                paper_parts(found, SEEDS[0])  # which a part of the data may not have
            sets[name] = found
        except (DataError, OSError, ValueError) as error:
            missing[name] = f"{DATASETS[name]} is not there" if isinstance(error, OSError) else str(error).rstrip(".")
            if name == "PPG":
                missing[name] += "; the folder PPG_FieldStudy of its archive belongs into the data folder, as PPG-DaLiA"
    return sets, missing


def _run_missing(known: list[tuple[Job, Folder]], sets: dict[str, Dataset], options: Reproduce) -> None:
    """Runs what has no result yet, and is not being run by another process."""
    waiting = [(job, folder) for job, folder in known if not folder.file("result.json").exists()]
    # One identity may stand in several rows.
    waiting = list({folder.path: (job, folder) for job, folder in waiting}.values())
    if not waiting:
        return
    keep_memory()
    remember_compilations()
    left = sum(cost.seconds(job) for job, _ in waiting)
    _say(
        f"{len(known) - len(waiting)} of {len(known)} runs are there; {len(waiting)} to go, about {cost.in_words(left)}."
    )
    estimated, taken = 0.0, 0.0
    for number, (job, folder) in enumerate(waiting, 1):
        with alone(folder) as mine:
            if not mine:
                _say(f"{number}/{len(waiting)} {_name(job)}: another process is at it.")
                continue
            if folder.file("result.json").exists():
                continue
            # What was measured so far corrects what was estimated.
            factor = taken / estimated if estimated else 1.0
            left = factor * sum(cost.seconds(job) for job, _ in waiting[number - 1 :])
            start = time.perf_counter()
            with _counting(f"{number}/{len(waiting)} {_name(job)}", job, left) as tick:
                try:
                    by = command(str(options.table), job, options.steps)
                    result = run_job(job, sets[job.dataset], folder, SOLVERS[solver_of(options)], tick, by=by)
                except KeyboardInterrupt:
                    raise KeyboardInterrupt(
                        f"interrupted in run {number} of {len(waiting)}; the same command goes on from there."
                    ) from None
                except (RunError, ValueError, ArithmeticError, ImportError, MemoryError, JaxRuntimeError) as error:
                    _say(f"{number}/{len(waiting)} {_name(job)}: failed: {error}")
                    folder.write_json("failure.json", {"error": str(error)})
                    continue
            taken, estimated = taken + time.perf_counter() - start, estimated + cost.seconds(job)
            score = f"{result['test']:.4g}" if job.dataset == "PPG" else f"{result['test']:.1%}"
            _say(f"{number}/{len(waiting)} {_name(job)}: {score} in {cost.in_words(result['seconds'])}")


def collect(
    options: Reproduce, known: list[tuple[Job, Folder]], sets: dict[str, Dataset], reasons: dict[Any, str]
) -> list[dict[str, Any]]:
    """One cell of the table for each row and data set: published and ours, and what is to be known about them."""
    assert options.table is not None
    table, cells = TABLES[options.table], []
    for row in asked(options.models, tuple(table.rows), "models"):
        for dataset in asked(options.datasets, columns(table), "datasets"):
            mine = [(job, folder) for job, folder in known if (job.row, job.dataset) == (row, dataset)]
            found = [folder.read_json("result.json") for _, folder in mine if folder.file("result.json").exists()]
            failed = [folder.read_json("failure.json")["error"] for _, folder in mine
                      if folder.file("failure.json").exists() and not folder.file("result.json").exists()]  # fmt: skip
            scores = [100 * result["test"] for result in found]
            cells.append({
                "model": row, "dataset": dataset, "published": table.rows[row].published.get(dataset),
                "ours": [float(np.mean(scores)), float(np.std(scores))] if scores else None,
                "runs": len(found), "of": len(options.seeds),
                "iterations": float(np.mean(each)) if (each := [r["iterations"] for r in found if r.get("iterations")]) else None,
                "seconds": sum(result["seconds"] for result in found),
                "notes": _remarks(table, row, dataset, mine, found, failed, sets, reasons),
            })  # fmt: skip
    return cells


def _remarks(table, row, dataset, mine, found, failed, sets, reasons) -> list[str]:
    notes = [reason for key in ((row, dataset), dataset) if (reason := reasons.get(key)) is not None]
    notes += [f"failed: {error}" for error in dict.fromkeys(failed)]
    notes += [note for key in ("", dataset) if (note := table.rows[row].notes.get(key)) is not None]
    if found and dataset in sets:
        total, here = sets[dataset].total, len(sets[dataset])
        if total is not None and here < total:
            notes.append(f"{total - here} of {total} cases of the data are not there, all of them training cases")
    if mine and mine[0][0].model is not None:
        steps, whole = mine[0][0].training["steps"], make_job(
            table, row, dataset, mine[0][0].seed, mine[0][0].protocol, {}, mine[0][0].solver
        ).training["steps"]  # fmt: skip
        if steps != whole and (table.sizes == "equal" or table.rows[row].block == "ours"):
            notes.append(f"{steps:,} steps instead of {whole:,}")
        elif steps < whole:
            notes.append(f"{steps:,} steps, where the published runs had up to {whole:,}")
    return notes


def _list(as_json: bool) -> None:
    if as_json:
        print(json.dumps({name: table.title for name, table in TABLES.items()}))
        return
    width = max(map(len, TABLES))
    for name, table in TABLES.items():
        print(f"{name:{width}}  {table.title}")


def _print_plan(options: Reproduce, jobs: list[Job], refused: dict[tuple[str, str], str]) -> None:
    rows: dict[tuple[str, str], list[tuple[Job, bool]]] = {}
    done = finished(jobs, read_store(options.store))
    for number, job in enumerate(jobs):
        rows.setdefault((job.row, job.dataset), []).append((job, number in done))
    entries = [
        {
            "model": row, "dataset": dataset, "runs": len(own), "finished": sum(there for _, there in own),
            "steps": own[0][0].training.get("steps"), "batch": own[0][0].training.get("batch"),
            "seconds": sum(cost.seconds(job) for job, there in own if not there),
        }
        for (row, dataset), own in rows.items()
    ]  # fmt: skip
    total = sum(entry["seconds"] for entry in entries)
    if options.json:
        why = [{"model": row, "dataset": dataset, "why": text} for (row, dataset), text in refused.items()]
        print(json.dumps({"runs": entries, "seconds": total, "not possible": why}))
        return
    from lrcssm.report.table import print_table

    impossible: dict[tuple[str, str], list[str]] = {}
    for (row, dataset), text in refused.items():
        impossible.setdefault((row, text), []).append(dataset)
    print_table(
        ["model<", "data<", "runs", "done", "steps", "batch", "about"],
        [
            [
                entry["model"], entry["dataset"], str(entry["runs"]), str(entry["finished"]), *(
                    "–" if entry[name] is None else f"{entry[name]:,}" for name in ("steps", "batch")
                ), cost.in_words(entry["seconds"]),
            ]
            for entry in entries
        ],
        title=f"{options.table}: {TABLES[str(options.table)].title}, protocol {options.protocol}",
        notes=[
            *(f"{row} cannot be run on {', '.join(names)}: {text}." for (row, text), names in impossible.items()),
            f"{len(jobs)} runs, {len(done)} of them finished; the others take about {cost.in_words(total)} on two cores of a CPU if none stops early; "
            "expect a factor of two for LrcSSM and more for the others. --steps, --seeds, --models and --datasets take less of it.",
        ],
    )  # fmt: skip


def _print(options: Reproduce, table: Table, cells: list[dict[str, Any]]) -> None:
    """The table: published, ours, difference, and what speaks against either."""
    if options.json:
        published = {name: row.published for name, row in table.rows.items()}
        print(json.dumps({
            "table": options.table, "title": table.title, "unit": table.unit, "protocol": options.protocol,
            "cells": cells, "published": published, "notes": table.notes, "instead": table.instead,
        }))  # fmt: skip
        return
    from lrcssm.report.table import print_table

    if table.instead is not None:
        names = columns(table)
        rows = [[name, *(str(row.published.get(one, "–")) for one in names)] for name, row in table.rows.items()]
        remarks = [f"{name}: {note}." for name, row in table.rows.items() for note in row.notes.values()]
        notes = [*remarks, *table.notes, f"Ours: {table.instead}"]
        print_table(["<", *(f"{name}<" for name in names)], rows, title=f"{table.title} (published)", notes=notes)
        return
    marks: dict[str, int] = {}
    lines = []
    for cell in cells:
        numbers = [marks.setdefault(note, len(marks) + 1) for note in cell["notes"]]
        lines.append([
            cell["model"], cell["dataset"], plus_minus(cell["published"], table), plus_minus(cell["ours"], table, cell["runs"]),
            difference(cell, table), f"{cell['runs']}/{cell['of']}",
            "–" if cell["iterations"] is None else f"{cell['iterations']:.2f}",
            " ".join(f"[{number}]" for number in numbers),
        ])  # fmt: skip
    unit = f" ({table.unit})" if table.unit else ""
    print_table(
        ["model<", "data<", "published", "ours", "difference", "runs", "iterations", "notes<"],
        lines,
        title=f"{table.title}{unit}, protocol {options.protocol}",
        notes=[*(f"[{number}] {note[0].upper()}{note[1:]}." for note, number in marks.items()), *table.notes],
    )


def plus_minus(score: Any, table: Table, runs: int | None = None) -> str:
    """Mean and standard deviation, or the word in their place, with as many digits as the paper has; of one run its score."""
    if score is None:
        return "–"
    digits = 1 if table.unit == "%" else 2
    if runs == 1:
        return f"{score[0]:.{digits}f}"
    return score if isinstance(score, str) else f"{score[0]:.{digits}f} ± {score[1]:.{digits}f}"


def difference(cell: dict[str, Any], table: Table) -> str:
    """Ours less the published."""
    if cell["ours"] is None or cell["published"] is None or isinstance(cell["published"], str):
        return "–"
    return f"{cell['ours'][0] - cell['published'][0]:+.{1 if table.unit == '%' else 2}f}"


def _name(job: Job) -> str:
    return f"{job.row}, {job.dataset}, seed {job.seed}"


@contextlib.contextmanager
def _counting(text: str, job: Job, left: float) -> Iterator[Callable[[int], None]]:
    """A bar for one run, with the time that all of them have left."""
    if not sys.stderr.isatty() or job.model is None:
        yield lambda step: None
        return
    from rich import progress
    from rich.console import Console

    with progress.Progress(
        progress.TextColumn("{task.description}"), progress.BarColumn(), progress.MofNCompleteColumn(),
        progress.TimeRemainingColumn(), progress.TextColumn(f"all: about {cost.in_words(left)}"),
        console=Console(stderr=True), transient=True,
    ) as bar:  # fmt: skip
        task = bar.add_task(text, total=job.training["steps"])
        yield lambda step: bar.update(task, completed=step)


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
