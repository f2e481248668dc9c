"""The results of a store, and which cells of a table they are for.

A table's cell may have been run with fewer steps, by another solver or under both protocols: each such way is a line of its
own. Nothing but the store is needed, not even the data.
"""

import dataclasses
import json
import pathlib
from typing import Any

import numpy as np

from lrcssm.models import ModelConfig
from lrcssm.training import TrainingConfig
from lrcssm.training.folder import Folder

from .jobs import Job, Protocol, make_job, why_not
from .published import TRAINING_CASES
from .tables import Table


@dataclasses.dataclass(frozen=True)
class Stored:
    """What a folder of a store holds: a run and its result, or why it has none."""

    job: Job
    result: dict[str, Any] | None
    failure: str | None


@dataclasses.dataclass(frozen=True)
class Line:
    """The runs of a cell that were done in one way; none of them if it has not been run.

    **Attributes:**

    - `model`, `dataset`, `published`: the row, the column and what stands there.
    - `protocol`, `steps`, `solver`: the way.
    - `whole`: how many steps the published runs had at most.
    - `results`: of its runs, in the order of their seeds.
    - `of`: how many seeds there are.
    - `notes`, `remarks`: what is to be known about the published number, and about ours.
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
        """What a run took to train, on average."""
        found = [result.get("training_seconds", result["seconds"]) for result in self.results]
        return float(np.mean(found)) if found else None

    def mean(self, name: str) -> Any:
        """The mean over the runs of a number or an array of their results, as far as these have it."""
        found = [result[name] for result in self.results if result.get(name)]
        return np.mean(found, 0) if found else None


def read_store(path: str | pathlib.Path) -> list[Stored]:
    """All runs of a store, finished or not."""
    found = []
    for file in sorted(pathlib.Path(path).glob("*/job.json")):
        folder = Folder(file.parent)
        has = lambda name, folder=folder: folder.file(name).exists()
        result = folder.read_json("result.json") if has("result.json") else None
        failure = folder.read_json("failure.json")["error"] if result is None and has("failure.json") else None
        found.append(Stored(_completed(Job(**folder.read_json("job.json"))), result, failure))
    return found


def finished(jobs: list[Job], stored: list[Stored]) -> set[int]:
    """Which of some jobs have a result, by their place; whether the data is still the same is not asked."""
    key = lambda job: (_facts(job), job.training.get("steps"), job.solver)
    done = {key(one.job) for one in stored if one.result is not None}
    return {number for number, job in enumerate(jobs) if key(job) in done}


def lines_of(
    table: Table,
    models: list[str],
    datasets: list[str],
    seeds: tuple[int, ...],
    steps: int | None,
    stored: list[Stored],
) -> list[Line]:
    """Every cell of a table, with the runs that the store has for it; `steps` leaves others out."""
    index: dict[str, list[Stored]] = {}
    for one in stored:
        if steps is None or one.job.training.get("steps") in (None, steps):
            index.setdefault(_facts(one.job), []).append(one)
    found = []
    for row in models:
        for dataset in datasets:
            found += _lines(table, row, dataset, seeds, index)
    return found


def _lines(table: Table, row: str, dataset: str, seeds: tuple[int, ...], index: dict[str, list[Stored]]) -> list[Line]:
    entry = table.rows[row]
    published = entry.published.get(dataset)
    notes = tuple(note for key in ("", dataset) if (note := entry.notes.get(key)) is not None)
    if (reason := why_not(table, row, dataset)) is not None:
        return [Line(row, dataset, published, len(seeds), notes, remarks=(reason,))]
    ways: dict[tuple[Protocol, int | None, str], list[Stored]] = {}
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
    """What a run is, whatever its solver and number of steps."""
    training = job.training | {"steps": None} if job.training else {}
    return json.dumps([job.dataset, job.seed, job.quirks, job.model, training], sort_keys=True, default=str)


def _completed(job: Job) -> Job:
    """A run that an earlier version wrote down, with the fields that configurations have got since."""
    if job.model is None:
        return job
    model = json.loads(ModelConfig.from_json(json.dumps(job.model)).to_json())
    return dataclasses.replace(job, model=model, training=dataclasses.asdict(TrainingConfig(**job.training)))
