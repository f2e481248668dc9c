"""Sweeps: many runs with different settings, by any number of processes, on Optuna.

What each command can be asked is here and imports nothing heavy, so that the command line can show it at once.
"""

import dataclasses
import re
from typing import Annotated, Literal

import tyro

from ..errors import InvalidValue
from ..runs import DataDir, Missing, ModelOptions, SolverName, TrainingOptions

StudyName = Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="STUDY")]
Storage = Annotated[str | None, tyro.conf.arg(metavar="PATH|URL")]
Seconds = Annotated[float | None, tyro.conf.arg(metavar="SECONDS")]


@dataclasses.dataclass(frozen=True)
class Start:
    """Make a study of how a model should be set for a data set, and work on it until it is done."""

    source: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="SOURCE")]
    """A name (lrcssm data list), a file (.ts, .arff, .npz, .csv) or a folder of them."""
    study: Annotated[str, tyro.conf.arg(metavar="NAME")]
    """What to call it. The same command again goes on with it."""
    space: Literal["search", "paper"] = "search"
    """What is tried: search, settings that Optuna chooses by what came of others; paper, the paper's grid, learning rate 1e-5,
    1e-4, 1e-3, width 16, 64, 128, state 16, 64, 256 and depth 2, 4, 6. A setting that is given as an option is held."""
    vary: Annotated[tuple[str, ...], tyro.conf.arg(metavar="NAME=VALUES", help_behavior_hint="")] = ()
    """Other values of an option, or another option to vary: hidden_dim=32,64 cell=LRC,GRU; a search also takes a range, on a
    logarithmic scale: learning_rate=1e-4..1e-2."""
    trials: Annotated[int | None, tyro.conf.arg(metavar="INT")] = None
    """How many settings a search tries; 50 if not given. More than before lengthens a study."""
    timeout: Seconds = None
    """Begin no other trial after so many seconds. What is left waits for the next worker."""
    seeds: tuple[int, ...] = (0,)
    """The value of a trial is the mean over these, each of which decides on first weights, the order of the data and what the
    split draws at random; for the paper's splits give its seeds."""
    pruner: Annotated[
        Literal["median", "halving", "none"] | None, tyro.conf.arg(help_behavior_hint="(default: median in a search)")
    ] = None
    """When to give a trial up: worse than the median of others at the same step, by successive halving, or never."""
    storage: Storage = None
    """Where the study is kept: a file, runs/tune/NAME.journal if not given, or an address of a database as Optuna takes it
    (postgresql://..., grpc://host:port), for workers on several machines."""
    preset: Annotated[str, tyro.conf.arg(metavar="PRESET")] = "default"
    """Where everything that is not varied comes from, as in lrcssm train."""
    model: Annotated[ModelOptions, tyro.conf.arg(name="")] = ModelOptions()
    training: Annotated[TrainingOptions, tyro.conf.arg(name="")] = TrainingOptions()
    split: Literal["source", "paper", "random"] = "source"
    """Who decides on training, validation and test cases. No test case is ever looked at."""
    missing: Missing = "error"
    """What to do with missing values: refuse them, skip their steps, or carry the last value forward."""
    solver: SolverName = "auto"
    """How the recurrences are solved while training."""
    together: int = 1
    """Runs of one shape that are trained in one program, where models are so small that this is faster and no pruner is at
    work; their results are then those of runs alone up to rounding. One that is killed begins these runs anew."""
    data_dir: DataDir = None
    """Where data sets are; the variable LRCSSM_DATA or the cache if not given."""

    def __post_init__(self):
        check_name(self.study)
        check_together(self.together)
        if not self.seeds:
            raise InvalidValue("--seeds got no value; give at least one.")
        if len(set(self.seeds)) < len(self.seeds):
            raise InvalidValue(f"--seeds got {' '.join(map(str, self.seeds))}; give each seed once.")
        if min(self.seeds) < 0:
            raise InvalidValue(f"--seeds got {min(self.seeds)}; give numbers of at least 0.")
        if self.trials is not None and self.space == "paper":
            raise InvalidValue("--trials was given with --space paper, whose grid has as many points as it has.")
        if self.trials is not None and self.trials < 1:
            raise InvalidValue(f"--trials got {self.trials}; give a number of at least 1.")
        check_timeout(self.timeout)

    def run(self) -> None:
        from .worker import start

        start(self)


@dataclasses.dataclass(frozen=True)
class Worker:
    """Help with a study: any number of these may work on it, from any time on, and any of them may be killed."""

    study: StudyName
    """Its name."""
    storage: Storage = None
    """Where the study is kept, as it was given to lrcssm tune start."""
    timeout: Seconds = None
    """Begin no other trial after so many seconds."""
    together: int = 1
    """As for lrcssm tune start; each worker may have its own."""
    data_dir: DataDir = None
    """Where data sets are on this machine, if that is not where they were for lrcssm tune start."""

    def __post_init__(self):
        check_name(self.study)
        check_together(self.together)
        check_timeout(self.timeout)

    def run(self) -> None:
        from .worker import help_with

        help_with(self)


@dataclasses.dataclass(frozen=True)
class Show:
    """Show what came of a study so far: its best trials, what mattered, and how to train the best setting."""

    study: StudyName
    """Its name."""
    storage: Storage = None
    """Where the study is kept, as it was given to lrcssm tune start."""
    top: int = 10
    """How many of the best trials."""
    json: bool = False
    """Print JSON, with all trials."""

    def __post_init__(self):
        check_name(self.study)

    def run(self) -> None:
        from .show import show

        show(self)


@dataclasses.dataclass(frozen=True)
class Dashboard:
    """Look at a study in a browser, with optuna-dashboard."""

    study: StudyName
    """Its name."""
    storage: Storage = None
    """Where the study is kept, as it was given to lrcssm tune start."""
    host: str = "localhost"
    """Where to listen."""
    port: int = 8080
    """Where to listen."""

    def __post_init__(self):
        check_name(self.study)
        if not 0 < self.port < 65536:
            raise InvalidValue(f"--port got {self.port}; give a number from 1 to 65535.")

    def run(self) -> None:
        from .show import serve

        serve(self)


def check_name(name: str) -> None:
    """Refuses a study's name that cannot be part of a file's."""
    if not re.fullmatch(r"\w[\w.-]{0,99}", name):
        raise InvalidValue(f"A study cannot be called {name!r}; give letters, digits, points, hyphens and underscores.")


def check_together(together: int) -> None:
    if together < 1:
        raise InvalidValue(f"--together got {together}; give a whole number of at least 1.")


def check_timeout(timeout: float | None) -> None:
    if timeout is not None and not timeout > 0:
        raise InvalidValue(f"--timeout got {timeout:g}; give a number of seconds above 0.")
