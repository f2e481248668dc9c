"""Selection of runs by the options of `lrcssm reproduce`."""

from typing import Any

from lrcssm.errors import InvalidValue

from .commands import Reproduce
from .jobs import Job, make_job, why_not
from .published import DATASETS
from .tables import TABLES, Table


def plan(options: Reproduce) -> tuple[list[Job], dict[tuple[str, str], str]]:
    """The selected runs, and the reasons why some rows have none for a data set."""
    table = TABLES[str(options.table)]
    solver = solver_of(options)
    changes: dict[str, Any] = {} if options.steps is None else {"steps": options.steps}
    jobs, refused = [], {}
    for row, dataset in cells(options, table):
        if (reason := why_not(table, row, dataset)) is not None:
            refused[row, dataset] = reason
            continue
        try:
            jobs += [make_job(table, row, dataset, seed, options.protocol, changes, solver) for seed in options.seeds]
        except ValueError as error:
            refused[row, dataset] = str(error).rstrip(".")
    return jobs, refused


def cells(options: Reproduce, table: Table, lenient: bool = False) -> list[tuple[str, str]]:
    """The selected rows and data sets of a table."""
    models = asked(options.models, tuple(table.rows), "models", lenient)
    datasets = asked(options.datasets, columns(table), "datasets", lenient)
    return [(row, dataset) for row in models for dataset in datasets]


def solver_of(options: Reproduce) -> str:
    """Solver of the runs: the table of iterations needs one that iterates."""
    return "deer" if options.table == "iterations" and options.solver == "auto" else options.solver


def columns(table: Table) -> tuple[str, ...]:
    """Data sets of a table, in order."""
    found = dict.fromkeys(name for row in table.rows.values() for name in row.published)
    return tuple(found) or tuple(name for name in DATASETS if name != "PPG")


def asked(given: tuple[str, ...], known: tuple[str, ...], option: str, lenient: bool = False) -> list[str]:
    """Select names of a table by an option; unknown ones raise `InvalidValue` unless `lenient`."""
    full = {full: short for short, full in DATASETS.items()}
    names = [full.get(name, name) for name in given]
    for name in names:
        if name not in known and name != "all" and not lenient:
            raise InvalidValue(f"--{option} got {name!r}; this table has {', '.join(known)}.")
    return [name for name in known if name in names or "all" in names]
