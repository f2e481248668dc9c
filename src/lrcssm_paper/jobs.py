"""One training run of a table: what it is, under which name its result is kept, and how it is run.

Two protocols. `clean`: full test sets, all channels, a seed varies the split and the model. `published`: for the models
that the paper trained with its own code, what that code does: the first channel of Ethanol and Motor is left out, so are
the validation and test cases of the last incomplete batch, and all seeds begin from the same weights.
"""

import contextlib
import dataclasses
import hashlib
import json
import shlex
import time
from collections.abc import Callable, Iterator
from typing import Any, Literal

import jax
import numpy as np

from lrcssm.data import Cases, Dataset
from lrcssm.engine import Solver
from lrcssm.errors import InvalidValue, MissingExtra
from lrcssm.files import save
from lrcssm.models import ARCHITECTURES, ModelConfig, SequenceModel
from lrcssm.models.automatic import default_fields
from lrcssm.training import TrainingConfig, evaluate, fit
from lrcssm.training.folder import Folder

from . import traces
from .published import DATASETS, SIZES, configured, published
from .splits import paper_parts
from .tables import ABLATION, EQUAL, MINIROCKET, OURS, Row, Table

Protocol = Literal["clean", "published"]
LACKS_A_CHANNEL = ("Ethanol", "Motor")
FIRST_FIELDS = {
    "input_dim", "output_dim", "task", "cell", "cell_options", "hidden_dim", "state_dim", "num_blocks", "encoder", "patch",
    "signature", "differences", "time", "standardise", "layout", "norm", "final_norm", "mixer", "activation",
    "dropout", "bidirectional", "pool", "steps", "batch", "learning_rate", "schedule", "warmup", "weight_decay",
    "clip", "ema", "label_smoothing", "class_weights", "monitor", "check_every", "patience", "seed",
}  # fmt: skip
"""The fields of `ModelConfig` and `TrainingConfig` that the names of all results are made of."""


@dataclasses.dataclass(frozen=True)
class Job:
    """A run: the row and column of a table that it counts for, and everything that decides on its result."""

    row: str
    dataset: str
    seed: int
    protocol: Protocol
    quirks: bool
    model: dict[str, Any] | None
    training: dict[str, Any]
    solver: str

    def identity(self, data: Dataset) -> str:
        """A name for the result: the same for the same model, training, protocol, seed and data, whatever the table."""
        model = None if self.model is None else _lasting(self.model, ModelConfig)
        training = _lasting(self.training, TrainingConfig)
        facts = [self.dataset, self.seed, self.quirks, model, training, self.solver, fingerprint(data)]
        text = json.dumps(facts, sort_keys=True, default=str)
        return hashlib.sha256(text.encode()).hexdigest()[:16]


def _lasting(fields: dict[str, Any], kind: type) -> dict[str, Any]:
    """Without what configurations have got since the first results, where it is at its default: these keep their names."""
    defaults = {field.name: field.default for field in dataclasses.fields(kind)}
    return {name: value for name, value in fields.items() if name in FIRST_FIELDS or value != defaults[name]}


def why_not(table: Table, row: str, dataset: str) -> str | None:
    """Why a row has no run for a data set, if it has none."""
    entry = table.rows[row]
    if entry.changes and dataset not in entry.published:
        return "not in the paper"
    known = entry.architecture not in ARCHITECTURES or dataset in configured(entry.architecture)
    return None if known or table.sizes != "published" else "no configuration is published"


def make_job(
    table: Table, row: str, dataset: str, seed: int, protocol: Protocol, changes: dict[str, Any], solver: str
) -> Job:
    """The run of a row for a data set; `ValueError` says why there is none.

    **Arguments:**

    - `changes`: fields of `TrainingConfig` that the user wants otherwise, such as fewer `steps`.
    """
    entry = table.rows[row]
    if entry.architecture is None:
        raise InvalidValue(f"{row} is not a model")
    if entry.architecture == MINIROCKET:
        return Job(row, dataset, seed, protocol, False, None, {}, "none")
    fields, training = _fields(table, entry, dataset)
    quirks = protocol == "published" and fields.get("layout") == "released"
    model_seed = 0 if quirks else seed
    size = SIZES[dataset]
    channels = size.channels - (1 if quirks and dataset in LACKS_A_CHANNEL else 0)
    config = ModelConfig(input_dim=channels, output_dim=size.classes, **fields)
    chosen: dict[str, Any] = training | changes | {"seed": model_seed}
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
            sizes = {name: fields[name] for name in ("hidden_dim", "state_dim", "num_blocks", "time")}
            rates = {name: training[name] for name in ("learning_rate", "batch")}
            return _ours(entry.architecture, dataset, patch=1) | sizes | {"bidirectional": False}, OURS | rates
        if dataset == "PPG":
            fields = fields | {"task": "per-step", "pool": "mean"}
        return fields | entry.changes, training
    if table.sizes == "equal":
        fields = _ours(entry.architecture, dataset, ARCHITECTURES[entry.architecture].get("patch", 8))
        pool = fields["pool"] if fields["pool"] == "last" else "mean-max-std"
        return fields | {"bidirectional": False, "pool": pool}, dict(EQUAL)
    fields, training = published("lrcssm", dataset)
    cell = ARCHITECTURES[entry.architecture]
    if cell["cell"] not in ("LRC", "STC"):
        fields = fields | {"cell_options": {}}
    return fields | ABLATION | cell | entry.changes, training | {"learning_rate": 1e-4}


def _ours(architecture: str, dataset: str, patch: int) -> dict[str, Any]:
    """The block of `lrcssm train`."""
    fields = default_fields(ARCHITECTURES, architecture, SIZES[dataset].length, False, patch=patch)
    return fields | {"differences": dataset == "Ethanol"}


def fingerprint(data: Dataset) -> str:
    """Of the values and targets of a data set."""
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
    if job.quirks and job.dataset in LACKS_A_CHANNEL:
        data = dataclasses.replace(data, series=tuple(one[:, 1:] for one in data.series), channel_names=None)
    train, validation, test = data.parts(split=split)
    if job.quirks:
        validation, test = (part.take(np.arange(len(part) // 4 * 4)) for part in (validation, test))
    return train, validation, test


def _at_their_steps(cases: Cases) -> Cases:
    """Cases whose k targets are those of every (T/k)-th step, as targets of all T steps; the other steps have none."""
    targets, found = np.asarray(cases.targets), []
    for one, own in zip(cases.series, targets, strict=True):
        found.append(np.full(len(one), np.nan, np.float32))
        every = len(one) // len(own)
        found[-1][every - 1 :: every] = own
    return dataclasses.replace(cases, targets=tuple(found))


def command(table: str, job: Job, steps: int | None) -> str:
    """What gives this run alone; `steps` if they are not those of the table."""
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
    """Runs a job, or goes on with it where it was interrupted, and writes its result.

    **Arguments:**

    - `job`, `data`, `solver`: what to run.
    - `folder`: where its files are.
    - `tick`: called with the number of each step.
    - `by`: the command that gives this run, for the record.
    """
    from lrcssm.machine import environment

    folder.path.mkdir(parents=True, exist_ok=True)
    folder.write_json("job.json", dataclasses.asdict(job))
    train, validation, test = cases_of(job, data)
    start = time.perf_counter()
    if job.model is None:
        found = minirocket(train, test, job.seed)
    else:
        config = ModelConfig.from_json(json.dumps(job.model))
        model = SequenceModel(config, jax.random.key(job.training["seed"])).with_statistics(*train.statistics())
        fitted = fit(
            model, train, validation, TrainingConfig(**job.training), solver=solver, tick=tick,
            checkpoint=folder.checkpoint, resume=True,
        )  # fmt: skip
        save(folder.model, fitted.model)
        folder.write_history(fitted.history)
        last = fitted.history[-1]
        found = {
            "validation": fitted.score, "test": evaluate(fitted.model, test)["mse" if job.dataset == "PPG" else "accuracy"],
            "best_step": fitted.step, "steps": last.step, "training_seconds": last.seconds,
        } | traces.iterations(fitted.history) | traces.memory(model, fitted.model, test)  # fmt: skip
    result = found | {
        "train_cases": len(train), "test_cases": len(test), "seconds": time.perf_counter() - start,
        "command": by, "environment": environment(),
    }  # fmt: skip
    folder.write_json("result.json", result)
    folder.forget_checkpoint()
    return result


def minirocket(train: Cases, test: Cases, seed: int) -> dict[str, Any]:
    """Test accuracy of MiniRocket with a ridge classifier (Dempster et al. 2021), trained on the training part alone."""
    try:
        from aeon.classification.convolution_based import (  # pyright: ignore[reportMissingImports]
            MiniRocketClassifier,
        )
    except ImportError as error:
        raise MissingExtra('MiniRocket needs aeon: pip install "lrcssm[uea]".') from error
    stacked = lambda cases: np.stack([one.T for one in cases.series]).astype(np.float32)
    model = MiniRocketClassifier(random_state=seed)
    model.fit(stacked(train), np.asarray(train.targets))
    found = model.predict(stacked(test))
    return {"test": float(np.mean(found == np.asarray(test.targets)))}


@contextlib.contextmanager
def alone(folder: Folder) -> Iterator[bool]:
    """Whether no other process works in this folder; while this one does, no other will. The system forgets the claim of
    a process that is killed."""
    try:
        import fcntl
    except ImportError:  # a system without such locks
        yield True
        return
    folder.path.mkdir(parents=True, exist_ok=True)
    with open(folder.file("lock"), "w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
            return
        yield True
