"""`lrcssm reproduce`: run the missing experiments of a table, and print the results next to the published numbers."""

import contextlib
import dataclasses
import json
import pathlib
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from jax.errors import JaxRuntimeError

from lrcssm.compilation import remember_compilations
from lrcssm.data import Dataset, load
from lrcssm.data.download import DataError
from lrcssm.engine.solvers import SOLVERS
from lrcssm.errors import InvalidValue, LrcssmError
from lrcssm.locks import alone
from lrcssm.memory import keep_memory
from lrcssm.report.table import print_table
from lrcssm.training.folder import Folder

from . import cost
from .commands import Reproduce
from .jobs import Job, command, fingerprint, run_job
from .plan import cells, columns, plan, solver_of
from .published import DATASETS
from .records import Record, add_results, read_results, read_store
from .splits import SEEDS, paper_parts
from .store import Line, finished, lines_of
from .tables import TABLES, Table


def run(options: Reproduce) -> None:
    """Run the command."""
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
    sets, missing = _load({job.dataset for job in jobs}, options.data_dir)
    prints = {name: fingerprint(data) for name, data in sets.items()}
    if not options.show:
        _run_missing([job for job in jobs if job.dataset in sets], sets, prints, options)
    # Results of other data than that which is here are not shown.
    stored = [
        one for one in read_store(options.store) if not one.data or one.data == prints.get(one.job.dataset, one.data)
    ]
    _print(options, table, collect(options, jobs, stored, refused | missing))


def _load(names: set[str], directory: str | None) -> tuple[dict[str, Dataset], dict[Any, str]]:
    """Available data sets, and the problems with the others."""
    sets, missing = {}, {}
    for name in sorted(names):
        try:
            found = load(DATASETS[name], directory=directory)
            if name != "PPG":
                paper_parts(found, SEEDS[0])  # a part of the data may lack cases of the split
            sets[name] = found
        except (DataError, OSError, ValueError) as error:
            missing[name] = f"{DATASETS[name]} is not there" if isinstance(error, OSError) else str(error).rstrip(".")
            if name == "PPG":
                missing[name] += "; the folder PPG_FieldStudy of its archive belongs into the data folder, as PPG-DaLiA"
    return sets, missing


def _run_missing(jobs: list[Job], sets: dict[str, Dataset], prints: dict[str, str], options: Reproduce) -> None:
    """Run the jobs that have no result and that no other process is running."""
    store = pathlib.Path(options.store)
    names = {job.identity(prints[job.dataset]): job for job in jobs}  # one run may stand in several rows
    done = {one.identity for one in read_results(store)}
    waiting = [(name, job) for name, job in names.items() if name not in done]
    if not waiting:
        return
    keep_memory()
    remember_compilations()
    left = cost.in_words(sum(cost.seconds(job) for _, job in waiting))
    _say(f"{len(names) - len(waiting)} of {len(names)} runs are finished; {len(waiting)} to go, about {left}.")
    estimated, taken = 0.0, 0.0
    for number, (name, job) in enumerate(waiting, 1):
        folder, label = Folder(store / name), f"{number}/{len(waiting)} {job.name()}"
        with alone(folder.path) as mine:
            if not mine:
                _say(f"{label}: in progress in another process.")
                continue
            if name in {one.identity for one in read_results(store)}:
                continue
            # The runs so far correct the estimate of those to come.
            factor = taken / estimated if estimated else 1.0
            remaining = factor * sum(cost.seconds(job) for _, job in waiting[number - 1 :])
            start = time.perf_counter()
            folder.write_json("job.json", dataclasses.asdict(job))
            with _counting(label, job, remaining) as tick:
                try:
                    by = command(str(options.table), job, options.steps)
                    result = run_job(job, sets[job.dataset], folder, SOLVERS[solver_of(options)], tick, by=by)
                except KeyboardInterrupt:
                    raise KeyboardInterrupt(
                        f"interrupted in run {number} of {len(waiting)}; the same command resumes it."
                    ) from None
                except (LrcssmError, ValueError, ArithmeticError, ImportError, MemoryError, JaxRuntimeError) as error:
                    _say(f"{label}: failed: {error}")
                    folder.write_json("failure.json", {"error": str(error)})
                    continue
            add_results(store, [Record(job, str(options.table), prints[job.dataset], result)])
            taken, estimated = taken + time.perf_counter() - start, estimated + cost.seconds(job)
            score = f"{result['test']:.4g}" if job.dataset == "PPG" else f"{result['test']:.1%}"
            _say(f"{label}: {score} in {cost.in_words(result['seconds'])}")


def collect(
    options: Reproduce, jobs: list[Job], stored: Sequence[Record], reasons: dict[Any, str]
) -> list[dict[str, Any]]:
    """Cells of the table as JSON values: published, ours, and remarks on either.

    **Arguments:**

    - `options`: the command.
    - `jobs`: the selected runs.
    - `stored`: existing runs.
    - `reasons`: why a data set, or a row of one, has no runs.
    """
    table, found = TABLES[str(options.table)], []
    first = {(job.row, job.dataset): job for job in reversed(jobs)}
    for row, dataset in cells(options, table):
        lines = lines_of(table, [(row, dataset)], options.seeds, None, stored)
        job = first.get((row, dataset))
        line = next((line for line in lines if job is not None and _is_way(line, job)), None)
        notes = [reason for key in ((row, dataset), dataset) if (reason := reasons.get(key)) is not None]
        if line is None:
            line = Line(row, dataset, lines[0].published, len(options.seeds), lines[0].notes)
            others = sorted({one.steps for one in lines if one.results and one.steps})
            if others and options.steps is None:
                notes.append(f"there are runs of {' and '.join(f'{steps:,}' for steps in others)} steps: give --steps")
        iterations = line.mean("iterations")
        found.append({
            "model": row, "dataset": dataset, "published": line.published,
            "ours": None if line.ours is None else list(line.ours), "runs": len(line.results), "of": line.of,
            "steps": line.steps, "whole": line.whole, "iterations": None if iterations is None else float(iterations),
            "seconds": sum(result["seconds"] for result in line.results), "notes": [*notes, *line.remarks, *line.notes],
        })  # fmt: skip
    return found


def _is_way(line: Line, job: Job) -> bool:
    protocol = job.protocol if job.quirks else "clean"
    return (line.protocol, line.steps, line.solver) == (protocol, job.training.get("steps"), job.solver)


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
    impossible: dict[tuple[str, str], list[str]] = {}
    for (row, dataset), text in refused.items():
        impossible.setdefault((row, text), []).append(dataset)
    count = lambda value: "–" if value is None else f"{value:,}"
    print_table(
        ["model<", "data<", "runs", "done", "steps", "batch", "about"],
        [
            [entry["model"], entry["dataset"], str(entry["runs"]), str(entry["finished"]), count(entry["steps"]),
             count(entry["batch"]), cost.in_words(entry["seconds"])]
            for entry in entries
        ],
        title=f"{options.table}: {TABLES[str(options.table)].title}, protocol {options.protocol}",
        notes=[
            *(f"{row} cannot be run on {', '.join(names)}: {text}." for (row, text), names in impossible.items()),
            f"{len(jobs)} runs, {len(done)} of them finished; the others take about {cost.in_words(total)} on two cores of a "
            "CPU if none stops early; expect a factor of two for LrcSSM and more for the others. --steps, --seeds, --models and "
            "--datasets select less.",
        ],
    )  # fmt: skip


def _print(options: Reproduce, table: Table, found: list[dict[str, Any]]) -> None:
    """Print the table: published, ours, difference, and remarks."""
    if options.json:
        published = {name: row.published for name, row in table.rows.items()}
        print(json.dumps({
            "table": options.table, "title": table.title, "unit": table.unit, "protocol": options.protocol,
            "cells": found, "published": published, "notes": table.notes, "instead": table.instead,
        }))  # fmt: skip
        return
    if table.instead is not None:
        names, rows, remarks = as_published(table)
        notes = [*remarks, *table.notes, f"Ours: {table.instead}"]
        print_table(["<", *(f"{name}<" for name in names)], rows, title=f"{table.title} (published)", notes=notes)
        return
    marks: dict[str, int] = {}
    lines = []
    for cell in found:
        numbers = [marks.setdefault(note, len(marks) + 1) for note in cell["notes"]]
        steps = "–" if cell["steps"] is None else f"{cell['steps']:,}"
        lines.append([
            cell["model"], cell["dataset"], plus_minus(cell["published"], table), plus_minus(cell["ours"], table, cell["runs"]),
            difference(cell["ours"], cell["published"], table), f"{cell['runs']}/{cell['of']}",
            steps if cell["steps"] == cell["whole"] else f"{steps} of {cell['whole']:,}",
            "–" if cell["iterations"] is None else f"{cell['iterations']:.2f}", " ".join(f"[{number}]" for number in numbers),
        ])  # fmt: skip
    unit = f" ({table.unit})" if table.unit else ""
    print_table(
        ["model<", "data<", "published", "ours", "difference", "runs", "steps", "iterations", "notes<"],
        lines,
        title=f"{table.title}{unit}, protocol {options.protocol}",
        notes=[*(f"[{number}] {note[0].upper()}{note[1:]}." for note, number in marks.items()), *table.notes],
    )


def as_published(table: Table) -> tuple[tuple[str, ...], list[list[str]], list[str]]:
    """Columns, rows and remarks of a table that is only quoted."""
    names = columns(table)
    rows = [[name, *(str(row.published.get(one, "–")) for one in names)] for name, row in table.rows.items()]
    return names, rows, [f"{name}: {note}." for name, row in table.rows.items() for note in row.notes.values()]


def plus_minus(score: Any, table: Table, runs: int | None = None) -> str:
    """Mean and standard deviation with as many digits as the paper has; the score alone if there is one run."""
    if score is None or isinstance(score, str):
        return score or "–"
    digits = 1 if table.unit == "%" else 2
    return f"{score[0]:.{digits}f}" if runs == 1 else f"{score[0]:.{digits}f} ± {score[1]:.{digits}f}"


def difference(ours: Any, published: Any, table: Table) -> str:
    """Ours minus the published score."""
    if ours is None or published is None or isinstance(published, str):
        return "–"
    return f"{ours[0] - published[0]:+.{1 if table.unit == '%' else 2}f}"


@contextlib.contextmanager
def _counting(text: str, job: Job, left: float) -> Iterator[Callable[[int], None]]:
    """Show a progress bar for one run, with the time left for all."""
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
