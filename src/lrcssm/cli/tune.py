"""`lrcssm tune`: hyper-parameter searches with Optuna."""

import contextlib
import dataclasses
import json
import os
import re
import sys
from collections.abc import Iterator
from typing import Annotated, Any, Literal

from ..data import load
from ..data.catalogue import from_anywhere
from ..errors import InvalidValue, WriteError, printable
from ..report.table import print_table
from .options import ColumnOptions, DataDir, Missing, ModelOptions, SolverName, TrainingOptions, given
from .parser import Arg
from .progress import finite
from .train import Train, command

StudyName = Annotated[str, Arg("STUDY", positional=True)]
Storage = Annotated[str | None, Arg("PATH|URL")]
Seconds = Annotated[float | None, Arg("SECONDS")]


@dataclasses.dataclass(frozen=True)
class Start:
    """Start a study of settings for a data set, and run its trials until all are finished."""

    source: Annotated[str, Arg("SOURCE", positional=True)]
    """A name (lrcssm data list), a file (.ts, .arff, .npz, .csv) or a folder of them."""
    study: Annotated[str, Arg("NAME")]
    """Name of the study. The same command again resumes it."""
    space: Literal["search", "paper"] = "search"
    """Settings to try: search, chosen by Optuna from the results so far; paper, the paper's grid of learning_rate 1e-5, 1e-4,
    1e-3, hidden_dim 16, 64, 128, state_dim 16, 64, 256 and num_blocks 2, 4, 6. A setting that is given as an option is fixed."""
    vary: Annotated[tuple[str, ...], Arg("NAME=VALUES")] = ()
    """Further options to vary, or other values: hidden_dim=32,64 cell=LRC,GRU; in a search also a range, on a logarithmic
    scale: learning_rate=1e-4..1e-2."""
    trials: Annotated[int | None, Arg("INT")] = None
    """Number of trials of a search; by default 50 for a new study. A larger number extends a study."""
    timeout: Seconds = None
    """Start no trial after this time; other workers can run the rest."""
    seeds: tuple[int, ...] = (0,)
    """Seeds of the runs of a trial, whose value is their mean; a seed determines the initial weights, the order of the data and
    the random part of the split. For the paper's splits use its seeds."""
    pruner: Annotated[Literal["median", "halving", "none"] | None, Arg(default="median in a search")] = None
    """Rule to stop a trial early: worse than the median of the others at the same step, successive halving, or none."""
    storage: Storage = None
    """Storage of the study: a file, by default runs/tune/NAME.journal, or the address of a database for workers on several
    machines, as for Optuna (postgresql://..., grpc://host:port)."""
    preset: Annotated[str, Arg("PRESET")] = "default"
    """Settings to start from, as in lrcssm train."""
    model: ModelOptions = ModelOptions()
    training: TrainingOptions = TrainingOptions()
    columns: ColumnOptions = ColumnOptions()
    split: str = "source"
    """Training, validation and test cases, as in lrcssm train. Test cases are never used."""
    missing: Missing = "error"
    """Policy for missing values: raise an error, skip their steps (mask), or carry the last value forward (fill)."""
    solver: SolverName = "auto"
    """Solver of the recurrences while training."""
    data_dir: DataDir = None
    """Folder of the data sets; by default the variable LRCSSM_DATA, or the cache."""

    def __post_init__(self):
        check_name(self.study)
        if not self.seeds:
            raise InvalidValue("--seeds got no value; give at least one.")
        if len(set(self.seeds)) < len(self.seeds):
            raise InvalidValue(f"--seeds got {' '.join(map(str, self.seeds))}; give each seed once.")
        if min(self.seeds) < 0:
            raise InvalidValue(f"--seeds got {min(self.seeds)}; give numbers of at least 0.")
        if self.trials is not None and self.space == "paper":
            raise InvalidValue(
                "--trials was given with --space paper, a grid with a fixed number of points; leave it out."
            )
        if self.trials is not None and self.trials < 1:
            raise InvalidValue(f"--trials got {self.trials}; give a number of at least 1.")
        check_timeout(self.timeout)

    def run(self) -> None:
        """Create the study and work on it."""
        from ..tuning.plan import Material
        from ..tuning.storage import open_place
        from ..tuning.study import Study
        from ..tuning.worker import work

        data = load(self.source, directory=self.data_dir, **self.columns.as_arguments())
        plan = self.plan().checked(data)
        with _writing(self.study):
            study = Study.make(self.study, open_place(self.study, self.storage, make=True), plan, self.trials)
            work(study, Material(plan, data), self.timeout)
        _print_command(study)

    def plan(self) -> Any:
        """The plan of the study."""
        from ..tuning.plan import Plan
        from ..tuning.space import make_space

        model, training = given(self.model), given(self.training)
        space = make_space(self.space, self.vary, [*model, *training])
        return Plan(
            from_anywhere(self.source),
            None if self.data_dir is None else os.path.abspath(os.path.expanduser(self.data_dir)),
            self.columns.as_arguments(),
            {name: getattr(self, name) for name in ("preset", "split", "missing", "solver")},
            model, training, self.seeds, space, self.pruner or ("none" if space.grid else "median"),
        )  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Worker:
    """Work on a study. Any number of workers can run at the same time, and any of them can be killed."""

    study: StudyName
    """Name of the study."""
    storage: Storage = None
    """Storage of the study, as it was given to lrcssm tune start."""
    timeout: Seconds = None
    """Start no trial after this time."""
    data_dir: DataDir = None
    """Folder of the data sets on this machine; by default that of lrcssm tune start."""

    def __post_init__(self):
        check_name(self.study)
        check_timeout(self.timeout)

    def run(self) -> None:
        """Work on the study."""
        from ..tuning.plan import Material
        from ..tuning.worker import work

        study = _open(self)
        with _writing(self.study):
            study.complete()
            work(study, Material.of(study.plan, self.data_dir), self.timeout)
        _print_command(study)


@dataclasses.dataclass(frozen=True)
class Show:
    """Show the results of a study so far: its best trials, the importance of settings, and the command that trains the best."""

    study: StudyName
    """Name of the study."""
    storage: Storage = None
    """Storage of the study, as it was given to lrcssm tune start."""
    top: int = 10
    """Number of trials to show, the best first."""
    json: bool = False
    """Print JSON, with all trials."""

    def __post_init__(self):
        check_name(self.study)

    def run(self) -> None:
        """Print the results."""
        from ..tuning.summary import facts, short

        study = _open(self)
        found: dict[str, Any] = facts(study) | {"command": best_command(study)}
        if self.json:
            print(json.dumps(finite(found)))
            return
        names = [axis.name for axis in study.plan.space.axes]
        done = [trial for trial in found["trials"] if trial["state"] == "complete"]
        done.sort(key=lambda trial: (-trial["value"], trial["number"]))
        rows = [
            [str(trial["number"]), f"{trial['value']:.4f}", *(short(trial["settings"].get(name)) for name in names)]
            for trial in done[: self.top]
        ]
        title = f"{study.name}: {len(found['trials'])} trials on {study.plan.source}"
        print_table(["trial", "score", *names], rows, title=title, notes=_notes(study, found))
        _print_command(study)


@dataclasses.dataclass(frozen=True)
class Dashboard:
    """Show a study in a browser, with optuna-dashboard."""

    study: StudyName
    """Name of the study."""
    storage: Storage = None
    """Storage of the study, as it was given to lrcssm tune start."""
    host: str = "localhost"
    """Host name or address to listen on."""
    port: int = 8080
    """Port to listen on."""

    def __post_init__(self):
        check_name(self.study)
        if not 0 < self.port < 65536:
            raise InvalidValue(f"--port got {self.port}; give a number from 1 to 65535.")

    def run(self) -> None:
        """Serve the dashboard until interrupted."""
        import optuna_dashboard  # pyright: ignore[reportMissingImports]

        study = _open(self)
        print(f"http://{self.host}:{self.port}/dashboard/studies/{study.number}", file=sys.stderr, flush=True)
        optuna_dashboard.run_server(study.place.storage, host=self.host, port=self.port)


@contextlib.contextmanager
def _writing(study: str) -> Iterator[None]:
    """Add a remedy to the error of a full disk."""
    try:
        yield
    except WriteError as error:
        raise InvalidValue(f"{str(error)[:-1]}, and then run lrcssm tune worker {study}.") from error


def _open(command: Worker | Show | Dashboard) -> Any:
    from ..tuning.storage import open_place
    from ..tuning.study import Study

    return Study.load(command.study, open_place(command.study, command.storage, make=False))


def _notes(study: Any, found: dict[str, Any]) -> list[str]:
    from ..tuning.summary import counts

    notes = [f"{counts(found['states'])}."]
    if found["abandoned"]:
        notes.append(
            f"{found['abandoned']} of the running trials lost their worker; lrcssm tune worker {study.name} resumes them."
        )
    if importance := ", ".join(f"{name} {share:.0%}" for name, share in found["importance"].items()):
        notes.append(f"Importance of the settings, by PED-ANOVA: {importance}.")
    failures = [f"Trial {trial['number']} failed: {trial['error']}" for trial in found["trials"] if trial["error"]]
    return notes + failures[:5]


def best_command(study: Any) -> str | None:
    """The command that trains the best settings, with the first seed; of equal trials those of the first."""
    from ..tuning.summary import leaders

    best = leaders(study.trials())
    if not best:
        return None
    plan, seed = study.plan, study.plan.seeds[0]
    model, training = plan.fields(study.settings(best[0]))
    options = tuple(f"{name}={json.dumps(value)}" for name, value in model.pop("cell_options", {}).items())
    columns: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value for name, value in plan.columns.items()
    }
    return command(
        Train(
            plan.source,
            model=ModelOptions(**model, cell_options=options),
            training=TrainingOptions(**training),
            columns=ColumnOptions(**columns),
            data_dir=plan.directory,
            seed=seed,
            split_seed=seed,
            **plan.settings,
        )
    )


def _print_command(study: Any) -> None:
    from ..tuning.summary import leaders

    if text := best_command(study):
        best = leaders(study.trials())
        which = "best trial" if len(best) == 1 else f"first of {len(best)} trials with equal scores"
        print(f"To train the {which}:\n{printable(text)}")  # in one line, to be copied


def check_name(name: str) -> None:
    """Raise an error for a name of a study that cannot be part of a file name."""
    if not re.fullmatch(r"\w[\w.-]{0,99}", name):
        raise InvalidValue(f"A study cannot be called {name!r}; give letters, digits, points, hyphens and underscores.")


def check_timeout(timeout: float | None) -> None:
    """Raise an error for a time that is not positive."""
    if timeout is not None and not timeout > 0:
        raise InvalidValue(f"--timeout got {timeout:g}; give a number of seconds above 0.")
