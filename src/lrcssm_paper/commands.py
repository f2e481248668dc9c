"""The paper's experiments: its tables as data, and the runs that give our side of them.

What the command can be asked is here and imports nothing heavy, so that the command line can show it at once.
"""

import dataclasses
from typing import Annotated, Literal

import tyro

from lrcssm.cli.options import DataDir, Int, SolverName
from lrcssm.errors import InvalidValue


@dataclasses.dataclass(frozen=True)
class Reproduce:
    """Run what a table of the paper needs, as far as it has not been run, and print it with the published numbers."""

    table: Annotated[str | None, tyro.conf.Positional, tyro.conf.arg(metavar="[TABLE]")] = None
    """table1, nonlinear, stc, dense, dependence, complex, equal, ppg, runtimes, iterations, grid or complexity; a list of them if
    not given."""
    datasets: tuple[str, ...] = ("all",)
    """Heart, SCP1, SCP2, Ethanol, Motor, Worms, or all."""
    models: tuple[str, ...] = ("all",)
    """Rows of the table, or all."""
    seeds: tuple[int, ...] = (2345, 3456, 4567, 5678, 6789)
    """Of the splits; these are the paper's."""
    protocol: Literal["clean", "published"] = "clean"
    """Full test sets, all channels and weights that differ with the seed; or what the paper's code does."""
    steps: Int = None
    """Steps of the optimiser for all models alike, where those of the published configurations are too many."""
    solver: SolverName = "auto"
    """How the recurrences are solved while training; auto is deer for the table of iterations."""
    store: Annotated[str, tyro.conf.arg(metavar="DIR")] = "runs/reproduce"
    """Where results are kept; what is there is not run again, what was interrupted is gone on with. Several processes may
    share it."""
    plan: bool = False
    """Only print the runs and an estimate of their time."""
    show: bool = False
    """Only print the table with the results that are there."""
    report: Annotated[str | None, tyro.conf.arg(metavar="FILE.html|FILE.md")] = None
    """Only write a report on the table, or on all of them, from the results that are there: a page with pictures, or Markdown.
    Every number of steps, solver and protocol is in it; --steps, --models, --datasets and --seeds choose."""
    json: bool = False
    """Print JSON."""
    data_dir: DataDir = None
    """Where data sets are; the variable LRCSSM_DATA or the cache if not given."""

    def __post_init__(self):
        for name in ("datasets", "models", "seeds"):
            if not getattr(self, name):
                raise InvalidValue(f"--{name} got no value; give at least one.")
        if self.steps is not None and self.steps < 1:
            raise InvalidValue(f"--steps got {self.steps}; give a whole number of at least 1.")

    def run(self) -> None:
        from .reproduce import run

        run(self)
