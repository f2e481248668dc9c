"""Finished runs as JSON lines, one line for each run, in a fixed order.

A store is a folder. Its `results.jsonl` holds the finished runs; next to it, each run has a folder, named by its identity, with
its checkpoint while it runs and its trained model afterwards. Only `results.jsonl` is needed for the tables.
"""

import contextlib
import dataclasses
import json
import pathlib
import time
from collections.abc import Iterable, Iterator
from typing import Any

from lrcssm.files import FileError, write_text
from lrcssm.locks import alone
from lrcssm.models import ModelConfig
from lrcssm.training import TrainingConfig
from lrcssm.training.folder import Folder

from .jobs import Job
from .tables import TABLES

RESULTS = "results.jsonl"
_FIRST = ("row", "dataset", "seed", "protocol", "solver")
_LAST = ("quirks", "training", "model")


@dataclasses.dataclass(frozen=True)
class Record:
    """A run of a store.

    **Attributes:**

    - `job`: its configuration.
    - `table`: the table that it was first run for.
    - `data`: the fingerprint of the data set.
    - `result`: `None` if it is not finished.
    - `failure`: the error that it ended with, if it did.
    """

    job: Job
    table: str = ""
    data: str = ""
    result: dict[str, Any] | None = None
    failure: str | None = None

    @property
    def identity(self) -> str:
        return self.job.identity(self.data)

    def to_line(self) -> str:
        """One line of JSON: the run, its result, then its whole configuration."""
        job = dataclasses.asdict(self.job)
        fields = {"table": self.table} | {name: job[name] for name in _FIRST} | (self.result or {})
        return json.dumps(fields | {"data": self.data} | {name: job[name] for name in _LAST}, ensure_ascii=False)

    @classmethod
    def from_line(cls, line: str) -> "Record":
        """The inverse of `to_line`."""
        fields = json.loads(line)
        job = Job(**{name: fields.pop(name) for name in (*_FIRST, *_LAST)})
        return cls(_completed(job), fields.pop("table"), fields.pop("data"), fields)


def _completed(job: Job) -> Job:
    """Add fields that configurations did not have when the run was recorded."""
    if job.model is None:
        return job
    model = json.loads(ModelConfig.from_json(json.dumps(job.model)).to_json())
    return dataclasses.replace(job, model=model, training=dataclasses.asdict(TrainingConfig(**job.training)))


def read_store(path: str | pathlib.Path) -> list[Record]:
    """All runs of a store: the finished ones in their order, then those that were begun or have failed."""
    folder = pathlib.Path(path)
    found = read_results(folder)
    done = {one.identity for one in found}
    for file in sorted(folder.glob("*/job.json")):
        run = Folder(file.parent)
        if run.path.name not in done:
            failure = run.read_json("failure.json")["error"] if run.file("failure.json").exists() else None
            found.append(Record(Job(**run.read_json("job.json")), failure=failure))
    return found


def read_results(folder: pathlib.Path) -> list[Record]:
    """Finished runs of a store."""
    path, found = folder / RESULTS, []
    if path.exists():
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            try:
                found.append(Record.from_line(line))
            except (ValueError, TypeError, KeyError) as error:
                raise FileError(f"{path}, line {number}: not a result of lrcssm reproduce ({error}).") from error
    return found


def add_results(folder: pathlib.Path, records: Iterable[Record]) -> None:
    """Merge finished runs into those of a store, in place of the same runs if they are there; other processes wait."""
    with _locked(folder):
        known = {one.identity: one for one in read_results(folder)} | {one.identity: one for one in records}
        lines = [one.to_line() for one in sorted(known.values(), key=_order)]
        write_text(folder / RESULTS, "".join(f"{line}\n" for line in lines))


@contextlib.contextmanager
def _locked(folder: pathlib.Path) -> Iterator[None]:
    while True:
        with alone(folder) as mine:
            if mine:
                yield
                return
        time.sleep(0.05)


def _order(one: Record) -> tuple[Any, ...]:
    """By table and row as the tables have them, then by data set, solver, budget, protocol and seed."""
    table, job = TABLES.get(one.table), one.job
    tables, rows = list(TABLES), list(table.rows) if table is not None else []
    place = lambda name, names: (names.index(name), "") if name in names else (len(names), name)
    steps = job.training.get("steps", 0)
    return (place(one.table, tables), place(job.row, rows), job.dataset, job.solver, steps, job.protocol, job.seed)
