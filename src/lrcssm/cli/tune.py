"""`lrcssm tune`: sweeps on Optuna."""

import dataclasses
import json
import os
import re
import sys
from typing import Annotated, Any, Literal

from ..data import load
from ..data.catalogue import from_anywhere
from ..errors import InvalidValue
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
    """Make a study of how a model should be set for a data set, and work on it until it is done."""

    source: Annotated[str, Arg("SOURCE", positional=True)]
    """A name (lrcssm data list), a file (.ts, .arff, .npz, .csv) or a folder of them."""
    study: Annotated[str, Arg("NAME")]
    """What to call it. The same command again goes on with it."""
    space: Literal["search", "paper"] = "search"
    """What is tried: search, settings that Optuna chooses by what came of others; paper, the paper's grid, learning rate 1e-5,
    1e-4, 1e-3, width 16, 64, 128, state 16, 64, 256 and depth 2, 4, 6. A setting that is given as an option is held."""
    vary: Annotated[tuple[str, ...], Arg("NAME=VALUES")] = ()
    """Other values of an option, or another option to vary: hidden_dim=32,64 cell=LRC,GRU; a search also takes a range, on a
    logarithmic scale: learning_rate=1e-4..1e-2."""
    trials: Annotated[int | None, Arg("INT")] = None
    """How many settings a search tries; 50 if not given. More than before lengthens a study."""
    timeout: Seconds = None
    """Begin no other trial after so many seconds. What is left waits for the next worker."""
    seeds: tuple[int, ...] = (0,)
    """The value of a trial is the mean over these, each of which decides on first weights, the order of the data and what the
    split draws at random; for the paper's splits give its seeds."""
    pruner: Annotated[Literal["median", "halving", "none"] | None, Arg(default="median in a search")] = None
    """When to give a trial up: worse than the median of others at the same step, by successive halving, or never."""
    storage: Storage = None
    """Where the study is kept: a file, runs/tune/NAME.journal if not given, or an address of a database as Optuna takes it
    (postgresql://..., grpc://host:port), for workers on several machines."""
    preset: Annotated[str, Arg("PRESET")] = "default"
    """Where everything that is not varied comes from, as in lrcssm train."""
    model: ModelOptions = ModelOptions()
    training: TrainingOptions = TrainingOptions()
    columns: ColumnOptions = ColumnOptions()
    split: str = "source"
    """Training, validation and test cases, as in lrcssm train. No test case is ever used."""
    missing: Missing = "error"
    """What to do with missing values: refuse them, skip their steps, or carry the last value forward."""
    solver: SolverName = "auto"
    """How the recurrences are solved while training."""
    data_dir: DataDir = None
    """Where data sets are; the variable LRCSSM_DATA or the cache if not given."""

    def __post_init__(self):
        check_name(self.study)
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
        from ..tuning.plan import Material
        from ..tuning.storage import open_place
        from ..tuning.study import Study
        from ..tuning.worker import work

        data = load(self.source, directory=self.data_dir, **self.columns.as_arguments())
        plan = self.plan().checked(data)
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
    """Help with a study: any number of these may work on it, from any time on, and any of them may be killed."""

    study: StudyName
    """Its name."""
    storage: Storage = None
    """Where the study is kept, as it was given to lrcssm tune start."""
    timeout: Seconds = None
    """Begin no other trial after so many seconds."""
    data_dir: DataDir = None
    """Where data sets are on this machine, if that is not where they were for lrcssm tune start."""

    def __post_init__(self):
        check_name(self.study)
        check_timeout(self.timeout)

    def run(self) -> None:
        from ..tuning.plan import Material
        from ..tuning.worker import work

        study = _open(self)
        study.complete()
        work(study, Material.of(study.plan, self.data_dir), self.timeout)
        _print_command(study)


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
        from ..tuning.summary import facts, short

        study = _open(self)
        found = facts(study) | {"command": best_command(study)}
        if self.json:
            print(json.dumps(finite(found)))
            return
        names = [axis.name for axis in study.plan.space.axes]
        best = [trial for trial in found["trials"] if trial["state"] == "complete"]
        best.sort(key=lambda trial: (-trial["value"], trial["number"]))
        rows = [
            [str(trial["number"]), f"{trial['value']:.4f}", *(short(trial["settings"].get(name)) for name in names)]
            for trial in best[: self.top]
        ]
        print_table(["trial", "score", *names], rows, title=_title(study, found), notes=_notes(study, found))
        _print_command(study)


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
        import optuna_dashboard  # pyright: ignore[reportMissingImports]

        study = _open(self)
        print(f"http://{self.host}:{self.port}/dashboard/studies/{study.number}", file=sys.stderr, flush=True)
        optuna_dashboard.run_server(study.place.storage, host=self.host, port=self.port)


def _open(command: Worker | Show | Dashboard) -> Any:
    from ..tuning.storage import open_place
    from ..tuning.study import Study

    return Study.load(command.study, open_place(command.study, command.storage, make=False))


def _title(study: Any, found: dict[str, Any]) -> str:
    return f"{study.name}: the best of {len(found['trials'])} trials on {study.plan.source}"


def _notes(study: Any, found: dict[str, Any]) -> list[str]:
    from ..tuning.summary import counts

    notes = [f"{counts(found['states'])}."]
    if found["left behind"]:
        notes.append(
            f"{found['left behind']} of those that run lost their worker; lrcssm tune worker {study.name} goes on."
        )
    if importance := ", ".join(f"{name} {share:.0%}" for name, share in found["importance"].items()):
        notes.append(f"Importance of the settings, by PED-ANOVA: {importance}.")
    failures = [f"Trial {trial['number']} failed: {trial['error']}" for trial in found["trials"] if trial["error"]]
    return notes + failures[:5]


def best_command(study: Any) -> str | None:
    """The command that trains the best setting, with the first seed."""
    from ..tuning.study import finished_well

    best = finished_well(study.trials())
    if not best:
        return None
    plan, seed = study.plan, study.plan.seeds[0]
    model, training = plan.fields(study.settings(best[0]))
    options = tuple(f"{name}={json.dumps(value)}" for name, value in model.pop("cell_options", {}).items())
    columns = {name: tuple(value) if isinstance(value, list) else value for name, value in plan.columns.items()}
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
        )  # fmt: skip
    )


def _print_command(study: Any) -> None:
    if text := best_command(study):
        print(f"To train the best:\n{text}")  # in one line, to be copied


def check_name(name: str) -> None:
    """Refuses a study's name that cannot be part of a file's."""
    if not re.fullmatch(r"\w[\w.-]{0,99}", name):
        raise InvalidValue(f"A study cannot be called {name!r}; give letters, digits, points, hyphens and underscores.")


def check_timeout(timeout: float | None) -> None:
    if timeout is not None and not timeout > 0:
        raise InvalidValue(f"--timeout got {timeout:g}; give a number of seconds above 0.")
