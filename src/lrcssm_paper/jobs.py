"""One training run of a table: its configuration, its identity and its execution.

Two protocols. `clean`: full test sets, all channels, and a seed for the split and the model. `published`: for the models
that the paper trained with its own code, the quirks of that code: the first channel of Ethanol and Motor is dropped, so are
the validation and test cases of the last incomplete batch, and all seeds start from the same weights.
"""

import dataclasses
import hashlib
import json
import shlex
import time
from collections.abc import Callable
from typing import Any, Literal

import numpy as np

import lrcssm
from lrcssm.data import Cases, Dataset
from lrcssm.engine import Solver
from lrcssm.errors import InvalidValue, MissingExtra
from lrcssm.features import LiquidModel
from lrcssm.features.model import N_FEATURES
from lrcssm.models import ARCHITECTURES, ModelConfig
from lrcssm.models.time import options_of
from lrcssm.training import Trained, TrainingConfig, evaluate, first_model, fit
from lrcssm.training.folder import Folder

from . import traces
from .published import DATASETS, SIZES, configured, published
from .splits import paper_parts
from .tables import ABLATION, BLOCK, EQUAL, MINIROCKET, OURS, RIDGE, RIDGE_ON_BOTH, Row, Table

Protocol = Literal["clean", "published"]
LACKS_A_CHANNEL = ("Ethanol", "Motor")


@dataclasses.dataclass(frozen=True)
class Job:
    """A run: its row and column in a table, and everything that determines its result."""

    row: str
    dataset: str
    seed: int
    protocol: Protocol
    quirks: bool
    model: dict[str, Any] | None
    training: dict[str, Any]
    solver: str

    def identity(self, data: str) -> str:
        """A hash of everything that determines the result, independent of the table.

        **Arguments:**

        - `data`: the `fingerprint` of the data set.
        """
        facts = [self.dataset, self.seed, self.quirks, self.model, self.training, self.solver, data]
        return hashlib.sha256(json.dumps(facts, sort_keys=True, default=str).encode()).hexdigest()[:16]

    def name(self) -> str:
        """Model, data set and seed in words."""
        return f"{self.row}, {self.dataset}, seed {self.seed}"


def why_not(table: Table, row: str, dataset: str) -> str | None:
    """Reason why a row has no run for a data set; `None` if it has one."""
    entry = table.rows[row]
    if entry.changes and dataset not in entry.published:
        return "not in the paper"
    known = entry.architecture not in ARCHITECTURES or dataset in configured(entry.architecture)
    return None if known or table.sizes != "published" else "no configuration is published"


def make_job(
    table: Table, row: str, dataset: str, seed: int, protocol: Protocol, changes: dict[str, Any], solver: str
) -> Job:
    """Make the run of a row for a data set.

    **Arguments:**

    - `table`, `row`, `dataset`, `seed`, `protocol`, `solver`: name the run.
    - `changes`: fields of `TrainingConfig` that differ from the table's, such as fewer `steps`.

    **Returns:**

    The run. Raises `InvalidValue` with the reason if there is none.
    """
    entry = table.rows[row]
    if entry.architecture is None:
        raise InvalidValue(f"{row} is not a model")
    if entry.architecture in (MINIROCKET, RIDGE, RIDGE_ON_BOTH):
        own = {} if entry.architecture == MINIROCKET else {"n_features": N_FEATURES}
        own |= {"validation": True} if entry.architecture == RIDGE_ON_BOTH else {}
        return Job(row, dataset, seed, protocol, False, None, own, "none")
    fields, training = _fields(table, entry, dataset)
    quirks = protocol == "published" and fields.get("layout") == "released"
    size = SIZES[dataset]
    channels = size.channels - (1 if quirks and dataset in LACKS_A_CHANNEL else 0)
    config = ModelConfig(input_dim=channels, output_dim=size.classes, **fields)
    chosen: dict[str, Any] = training | changes | {"seed": 0 if quirks else seed}
    return Job(
        row, dataset, seed, protocol, quirks, json.loads(config.to_json()),
        dataclasses.asdict(TrainingConfig(**chosen)), solver,
    )  # fmt: skip


def _fields(table: Table, entry: Row, dataset: str) -> tuple[dict[str, Any], dict[str, Any]]:
    if dataset not in DATASETS:
        raise InvalidValue(f"there is no data set {dataset!r}")
    assert entry.architecture is not None
    if table.sizes == "published":
        fields, training = published(entry.architecture, dataset)
        if entry.block == "ours":
            sizes = {name: fields[name] for name in ("hidden_dim", "state_dim", "num_blocks", "include_time")}
            rates = {name: training[name] for name in ("learning_rate", "batch")}
            return _ours(entry.architecture, dataset, patch=1) | sizes, OURS | rates
        if dataset == "PPG":
            fields = fields | {"task": "per-step", "pool": "mean"}
        return fields | entry.changes, training
    if table.sizes == "equal":
        return _ours(entry.architecture, dataset, ARCHITECTURES[entry.architecture].get("patch", 8)), dict(EQUAL)
    fields, training = published("lrcssm", dataset)
    cell = ARCHITECTURES[entry.architecture]["cell"]
    if cell not in ("LRC", "STC"):
        fields = fields | {"cell_options": {}}
    return fields | ABLATION | {"cell": cell} | entry.changes, training | {"learning_rate": 1e-4}


def _ours(architecture: str, dataset: str, patch: int) -> dict[str, Any]:
    """Our own block around the recurrence of an architecture, with time constants up to the length of the series."""
    fields = BLOCK | ARCHITECTURES[architecture] | {"patch": patch, "bidirectional": False}
    steps = -(-SIZES[dataset].length // patch)
    spread = {"init": "spread", "max_time": float(steps)} if "max_time" in options_of(fields["cell"]) else {}
    pool = fields["pool"] if fields["pool"] == "last" else BLOCK["pool"]
    options = spread | fields.get("cell_options", {})
    return fields | {"pool": pool, "cell_options": options, "differences": dataset == "Ethanol"}


def fingerprint(data: Dataset) -> str:
    """A short checksum of the values and targets of a data set."""
    found = hashlib.sha256()
    for one in data.series:
        found.update(np.ascontiguousarray(one, np.float32).tobytes())
    if data.targets is not None:
        found.update(np.ascontiguousarray(data.targets).tobytes())
    return found.hexdigest()[:16]


def cases_of(job: Job, data: Dataset) -> tuple[Cases, Cases, Cases]:
    """Training, validation and test cases, with the quirks of the paper's code if the protocol has them."""
    if job.dataset == "PPG":
        # The split is that of the recordings: as in the published runs, a seed changes the model alone.
        train, validation, test = (_at_their_steps(part) for part in data.parts())
        return train, validation, test
    split = paper_parts(data, job.seed)  # by the values of all channels
    if job.training.get("validation"):
        split = split._replace(train=np.concatenate([split.train, split.validation]))
    if job.quirks and job.dataset in LACKS_A_CHANNEL:
        data = dataclasses.replace(data, series=tuple(one[:, 1:] for one in data.series), channel_names=None)
    train, validation, test = data.parts(split=split)
    if job.quirks:
        validation, test = (part.take(np.arange(len(part) // 4 * 4)) for part in (validation, test))
    return train, validation, test


def _at_their_steps(cases: Cases) -> Cases:
    """Cases whose k targets belong to every (T/k)-th step, as targets of all T steps; the other steps have none."""
    targets, found = np.asarray(cases.targets), []
    for one, own in zip(cases.series, targets, strict=True):
        found.append(np.full(len(one), np.nan, np.float32))
        every = len(one) // len(own)
        found[-1][every - 1 :: every] = own
    return dataclasses.replace(cases, targets=tuple(found))


def command(table: str, job: Job, steps: int | None) -> str:
    """The command that gives this run alone; `steps` if they differ from the table's."""
    words = ["lrcssm", "reproduce", table, "--models", job.row, "--datasets", job.dataset, "--seeds", str(job.seed)]
    words += ["--protocol", job.protocol] if job.protocol != "clean" else []
    words += ["--steps", str(steps)] if steps is not None else []
    words += ["--solver", job.solver] if job.solver not in ("auto", "none") else []
    return shlex.join(words)


def run_job(
    job: Job,
    data: Dataset,
    folder: Folder,
    solver: Solver,
    tick: Callable[[int], None] = lambda step: None,
    *,
    by: str | None = None,
) -> dict[str, Any]:
    """Run a job, or resume it where it was interrupted.

    **Arguments:**

    - `job`, `data`, `solver`: the run.
    - `folder`: holds its checkpoint while it runs, its model and history afterwards.
    - `tick`: called with the number of each step.
    - `by`: the command that gives this run, for the record.

    **Returns:**

    The result as JSON values: scores, times, iterations, time constants and the machine.
    """
    from lrcssm.machine import environment

    folder.path.mkdir(parents=True, exist_ok=True)
    train, validation, test = cases_of(job, data)
    start = time.perf_counter()
    if job.model is None:
        found = untrained(job, train, test)
    else:
        config = ModelConfig.from_json(json.dumps(job.model))
        model = first_model(config, train, job.training["seed"])
        fitted = fit(
            model, train, validation, TrainingConfig(**job.training), solver=solver, tick=tick,
            checkpoint=folder.checkpoint, resume=True,
        )  # fmt: skip
        classes = None if data.classes is None else np.array(data.classes)
        lrcssm.save(folder.model, Trained(fitted.model, classes, provenance={"data": data.name, "command": by}))
        folder.write_history(fitted.history)
        last = fitted.history[-1]
        score = evaluate(fitted.model, test)["mse" if job.dataset == "PPG" else "accuracy"]
        found = {
            "test": score, "validation": fitted.score, "steps": last.step, "best_step": fitted.step,
            "training_seconds": last.seconds,
        } | traces.iterations(fitted.history) | traces.memory(model, fitted.model, test)  # fmt: skip
    folder.forget_checkpoint()
    return found | {
        "train_cases": len(train), "test_cases": len(test), "seconds": time.perf_counter() - start,
        "command": by, "environment": environment(),
    }  # fmt: skip


def untrained(job: Job, train: Cases, test: Cases) -> dict[str, Any]:
    """Test accuracy of ridge regression on features that are not learned: our liquid features, or those of MiniRocket (Dempster
    et al. 2021)."""
    if job.training:
        outputs = SIZES[job.dataset].classes
        liquid = LiquidModel.fit(train, "classify", outputs, n_features=job.training["n_features"], seed=job.seed)
        return {"test": float(np.mean(liquid.outputs(test).argmax(-1) == np.asarray(test.targets)))}
    try:
        from aeon.classification.convolution_based import (  # pyright: ignore[reportMissingImports]
            MiniRocketClassifier,
        )
    except ImportError as error:
        raise MissingExtra('MiniRocket needs aeon: pip install "lrcssm[uea]".') from error
    stacked = lambda cases: np.stack([one.T for one in cases.series]).astype(np.float32)
    model = MiniRocketClassifier(random_state=job.seed)
    model.fit(stacked(train), np.asarray(train.targets))
    found = model.predict(stacked(test))
    return {"test": float(np.mean(found == np.asarray(test.targets)))}
