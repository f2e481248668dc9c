"""Cells of a table with the runs that a store has for them.

A cell may have been run with fewer steps, by another solver or under both protocols: each way is a separate line. Nothing
but the store is needed, not even the data.
"""

import dataclasses
import json
from collections.abc import Sequence
from typing import Any

import numpy as np

from .jobs import Job, Protocol, make_job, why_not
from .published import TRAINING_CASES
from .records import Record
from .tables import Table


@dataclasses.dataclass(frozen=True)
class Line:
    """Runs of a cell in one way: none if it has not been run.

    **Attributes:**

    - `model`, `dataset`, `published`: the row, the column and the published number.
    - `protocol`, `steps`, `solver`: the way.
    - `whole`: largest number of steps of the published runs.
    - `results`: of its runs, in the order of their seeds.
    - `of`: number of seeds.
    - `notes`, `remarks`: about the published number, and about ours.
    """

    model: str
    dataset: str
    published: tuple[float, float] | str | None
    of: int
    notes: tuple[str, ...]
    protocol: Protocol = "clean"
    steps: int | None = None
    solver: str = ""
    whole: int | None = None
    results: tuple[dict[str, Any], ...] = ()
    remarks: tuple[str, ...] = ()

    @property
    def ours(self) -> tuple[float, float] | None:
        """Mean and standard deviation over the runs, in the table's unit."""
        scores = [100 * result["test"] for result in self.results]
        return (float(np.mean(scores)), float(np.std(scores))) if scores else None

    @property
    def complete(self) -> bool:
        return len(self.results) == self.of

    @property
    def seconds(self) -> float | None:
        """Mean training time of a run."""
        found = [result.get("training_seconds", result["seconds"]) for result in self.results]
        return float(np.mean(found)) if found else None

    def mean(self, name: str) -> Any:
        """Mean of a number or an array over the runs that have it; `None` if none has."""
        found = [result[name] for result in self.results if result.get(name)]
        return np.mean(found, 0) if found else None


def finished(jobs: list[Job], stored: Sequence[Record]) -> set[int]:
    """Positions of the jobs that have a result, for any data."""
    key = lambda job: (_facts(job), job.training.get("steps"), job.solver)
    done = {key(one.job) for one in stored if one.result is not None}
    return {number for number, job in enumerate(jobs) if key(job) in done}


def lines_of(
    table: Table,
    cells: Sequence[tuple[str, str]],
    seeds: tuple[int, ...],
    steps: int | None,
    stored: Sequence[Record],
) -> list[Line]:
    """Find the runs of a store for cells of a table.

    **Arguments:**

    - `cells`: rows and data sets of the table.
    - `seeds`: of the runs.
    - `steps`: leaves out runs with another number of steps, if given.
    - `stored`: runs of a store.

    **Returns:**

    At least one line for each cell, in the order of the cells.
    """
    index: dict[str, list[Record]] = {}
    for one in stored:
        if steps is None or one.job.training.get("steps") in (None, steps):
            index.setdefault(_facts(one.job), []).append(one)
    return [line for row, dataset in cells for line in _lines(table, row, dataset, seeds, index)]


def _lines(table: Table, row: str, dataset: str, seeds: tuple[int, ...], index: dict[str, list[Record]]) -> list[Line]:
    entry = table.rows[row]
    published = entry.published.get(dataset)
    notes = tuple(note for key in ("", dataset) if (note := entry.notes.get(key)) is not None)
    if (reason := why_not(table, row, dataset)) is not None:
        return [Line(row, dataset, published, len(seeds), notes, remarks=(reason,))]
    ways: dict[tuple[Protocol, int | None, str], list[Record]] = {}
    whole = None
    protocols: tuple[Protocol, ...] = ("clean", "published")
    for seed in seeds:
        for protocol in protocols:
            job = make_job(table, row, dataset, seed, protocol, {}, "auto")
            whole = job.training.get("steps")
            if protocol == "published" and not job.quirks:
                continue  # the same run
            for one in index.get(_facts(job), ()):
                ways.setdefault((protocol, one.job.training.get("steps"), one.job.solver), []).append(one)
    lines = []
    for (protocol, steps, solver), own in sorted(ways.items(), key=str):
        results = tuple(one.result for one in own if one.result is not None)
        more = [f"failed: {text}" for text in dict.fromkeys(one.failure for one in own if one.failure is not None)]
        more += _remarks(dataset, steps, whole, table, results)
        if results or more:
            lines.append(
                Line(row, dataset, published, len(seeds), notes, protocol, steps, solver, whole, results, tuple(more))
            )  # fmt: skip
    return lines or [Line(row, dataset, published, len(seeds), notes)]


def _remarks(dataset: str, steps: int | None, whole: int | None, table: Table, results) -> list[str]:
    notes = []
    cases = {result["train_cases"] for result in results}
    full = TRAINING_CASES.get(dataset)
    if full is not None and cases and max(cases) < full:
        notes.append(f"trained on {max(cases)} of {full} cases: the others are not there; the test cases are complete")
    if table.sizes == "equal":
        notes += [f"{steps:,} steps instead of {whole:,}"] if steps is not None and steps != whole else []
    elif steps is not None and whole is not None and steps < whole:
        notes.append("fewer steps than the published runs had at most")
    return notes


def _facts(job: Job) -> str:
    """A run without its solver and number of steps, as text."""
    training = job.training | {"steps": None} if job.training else {}
    return json.dumps([job.dataset, job.seed, job.quirks, job.model, training], sort_keys=True, default=str)
