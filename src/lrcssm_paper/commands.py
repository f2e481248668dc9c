"""Options of `lrcssm reproduce`, without heavy imports, so that its help appears at once."""

import dataclasses
from typing import Annotated, Literal

from lrcssm.cli.parser import Arg
from lrcssm.errors import InvalidValue


@dataclasses.dataclass(frozen=True)
class Reproduce:
    """Run the missing experiments of a table of the paper, and print the results next to the published numbers."""

    table: Annotated[str | None, Arg("TABLE", positional=True)] = None
    """table1, nonlinear, stc, dense, dependence, complex, equal, ppg, runtimes, iterations, grid or complexity; without it the
    tables are listed."""
    datasets: tuple[str, ...] = ("all",)
    """Heart, SCP1, SCP2, Ethanol, Motor, Worms, or all."""
    models: tuple[str, ...] = ("all",)
    """Rows of the table, or all."""
    seeds: tuple[int, ...] = (2345, 3456, 4567, 5678, 6789)
    """Seeds of the splits; by default the paper's."""
    protocol: Literal["clean", "published"] = "clean"
    """clean: full test sets, all channels, and weights that differ with the seed; published: as in the paper's code."""
    steps: Annotated[int | None, Arg("INT")] = None
    """Number of training steps for all models, instead of the published numbers."""
    solver: Literal["auto", "sequential", "deer", "elk"] = "auto"
    """Solver of the recurrences while training; auto is deer for the table of iterations."""
    store: Annotated[str, Arg("DIR")] = "runs/reproduce"
    """Folder of the results. Finished runs are not repeated, interrupted ones are resumed, and several processes may share it."""
    plan: bool = False
    """Only print the runs and an estimate of their time."""
    show: bool = False
    """Only print the table with the existing results."""
    report: Annotated[str | None, Arg("FILE.html|FILE.md")] = None
    """Only write a report on the table, or on all of them, from the existing results: a page with pictures, or Markdown."""
    json: bool = False
    """Print JSON."""
    data_dir: Annotated[str | None, Arg("DIR")] = None
    """Folder of the data sets; by default the variable LRCSSM_DATA, or the cache."""

    def __post_init__(self):
        for name in ("datasets", "models", "seeds"):
            if not getattr(self, name):
                raise InvalidValue(f"--{name} got no value; give at least one.")
        if self.steps is not None and self.steps < 1:
            raise InvalidValue(f"--steps got {self.steps}; give a whole number of at least 1.")

    def run(self) -> None:
        from .reproduce import run

        run(self)
