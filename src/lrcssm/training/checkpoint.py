"""Checkpoints: everything needed to resume a run, in one file, and the previous one.

A checkpoint belongs to one run: its header describes the run (model, data, training, solver), and other runs are rejected. It is
written atomically; if it is damaged afterwards, the previous one is used.
"""

import dataclasses
import json
import math
import os
import pathlib
import time
import warnings
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..data import Cases
from ..engine import Solver
from ..errors import InvalidValue, LrcssmError
from ..files import FileError, checksum, named_leaves, read_arrays, write_arrays
from ..models import ModelConfig, SequenceModel
from .config import TrainingConfig
from .evaluation import Evaluation

_FACTS = ("best_step", "stale", "over", "seconds", "since")
LEAST_SECONDS = 1.0
"""Shortest time between two checkpoints, since small models are evaluated many times a second."""
MOST_SECONDS = 60.0
"""Longest time between two checkpoints, also between evaluations."""


class CheckpointError(LrcssmError, ValueError):
    """A checkpoint that cannot be used; the message is the reason."""


@dataclasses.dataclass
class Checkpoint:
    """The file of a run's progress.

    **Arguments:**

    - `path`: the file.
    - `run`: identity of the run; see `identity`.
    """

    path: str | os.PathLike[str]
    run: dict[str, Any]
    written: float = -np.inf
    begun: float = dataclasses.field(default_factory=time.monotonic)
    damaged: bool = False

    @property
    def previous(self) -> pathlib.Path:
        """Path of the checkpoint before the last."""
        path = pathlib.Path(self.path)
        return path.with_name(path.name + ".previous")

    def overdue(self) -> bool:
        """True if the next checkpoint is due before the next evaluation."""
        return time.monotonic() - max(self.written, self.begun) > MOST_SECONDS

    def write(self, progress: Any, *, final: bool) -> None:
        """Write the progress, unless the last checkpoint is recent and the run is not finished."""
        now = time.monotonic()
        if not final and now - self.written < LEAST_SECONDS:
            return
        facts = {name: getattr(progress, name) for name in _FACTS} | {
            "history": [evaluation.to_dict() for evaluation in progress.history],
            "score": progress.score if progress.history else None,  # JSON knows no infinity
        }
        path = pathlib.Path(self.path)
        arrays = {name: np.asarray(leaf) for name, leaf in named_leaves((progress.state, progress.best)).items()}
        following = path.with_name(path.name + ".next")
        write_arrays(following, {"kind": "checkpoint", "run": self.run, "facts": facts}, arrays)
        if path.exists() and not self.damaged:
            os.replace(path, self.previous)
        os.replace(following, path)
        self.written, self.damaged = now, False

    def read(self, empty: Any) -> Any:
        """Read the last progress; returns `empty`, which has the same structure, if there is none."""
        complaints = []
        for path in (pathlib.Path(self.path), self.previous):
            if not path.exists():
                continue
            try:
                header, arrays = read_arrays(path, kind="checkpoint")
                self._compare(path, header["run"])
                found = self._filled(path, empty, arrays, self._reopened(header))
            except (FileError, LookupError, TypeError, ValueError, AttributeError, ArithmeticError) as error:
                if isinstance(error, CheckpointError):
                    raise
                complaints.append(str(error) if isinstance(error, FileError) else f"{path} is damaged.")
                self.damaged = True
                continue
            if complaints:
                warnings.warn(f"{complaints[0]} The checkpoint before it, {path}, is used instead.", stacklevel=3)
            return found
        if complaints:
            raise CheckpointError(f"{complaints[0]} There is no other checkpoint; start again without resuming.")
        return empty

    def _filled(self, path: pathlib.Path, empty: Any, arrays: dict[str, np.ndarray], facts: dict[str, Any]) -> Any:
        wanted = named_leaves((empty.state, empty.best))
        if {name: np.shape(leaf) for name, leaf in wanted.items()} != {name: a.shape for name, a in arrays.items()}:
            raise FileError(f"{path} does not hold the arrays of this run.")
        leaves = [jnp.asarray(arrays[name], leaf.dtype) for name, leaf in wanted.items()]
        state, best = jax.tree.unflatten(jax.tree.structure((empty.state, empty.best)), leaves)
        history = tuple(Evaluation.from_dict(evaluation) for evaluation in facts["history"])
        since = tuple((float(loss), tuple(counts)) for loss, counts in facts["since"])
        score = -math.inf if facts["score"] is None else float(facts["score"])
        rest = {name: facts[name] for name in _FACTS}
        found = dataclasses.replace(
            empty, state=state, best=best, **rest | {"history": history, "since": since, "score": score}
        )
        _check(found, TrainingConfig(**self.run["training"]))
        return found

    def _reopened(self, header: dict[str, Any]) -> dict[str, Any]:
        """The facts of a checkpoint; a finished run counts as unfinished if it has more steps now."""
        facts, made = header["facts"], header["run"]["training"]["steps"]
        ended = bool(facts["history"]) and facts["history"][-1]["step"] == made
        return facts | {"over": facts["over"] and not (ended and made < self.run["training"]["steps"])}

    def _compare(self, path: pathlib.Path, other: dict[str, Any]) -> None:
        if not isinstance(other, dict):
            raise FileError(f"{path} is damaged: it does not identify its run.")
        for name, mine in self.run.items():
            theirs = other.get(name)
            if isinstance(theirs, dict) and name in _KINDS:
                # A run from before an option did as the option's default does.
                theirs = {field.name: field.default for field in dataclasses.fields(_KINDS[name])} | theirs
            if name == "training" and isinstance(theirs, dict):
                theirs |= {"steps": more_steps(theirs["steps"], mine["steps"])}
            if theirs != mine:
                raise CheckpointError(
                    f"{path} belongs to another run: its {name} is {_short(theirs, mine)}; give the same again "
                    "to resume it, or another folder for a new run."
                )


def _check(found: Any, config: TrainingConfig) -> None:
    """Raise `InvalidValue` for facts that no run can have."""
    counts, seconds = (found.best_step, found.stale, int(found.state.step)), found.seconds
    plain = all(type(one) is int and 0 <= one < 2**31 for one in counts) and type(found.over) is bool
    timed = type(seconds) in (int, float) and 0 <= seconds < math.inf
    steady = all(
        isinstance(counts, tuple) and all(type(one) in (int, float) for one in counts) for _, counts in found.since
    )
    widths = {len(counts) for _, counts in found.since}
    if not (plain and timed and steady) or len(widths) > 1 or math.isnan(found.score):
        raise InvalidValue("its facts are not those of a run")
    [one.score(config) for one in found.history]  # raises if a score is missing
    if int(found.state.step) > config.steps or (found.over and not found.history):
        raise InvalidValue("its steps are not those of the run")


_KINDS = {"model": ModelConfig, "training": TrainingConfig}


def more_steps(before: Any, now: int) -> Any:
    """Number of steps of a resumed run: at least as many as before."""
    return now if isinstance(before, int) and before < now else before


def identity(
    model: SequenceModel, train: Cases, validation: Cases | None, config: TrainingConfig, solver: Solver
) -> dict[str, Any]:
    """Identity of a run as JSON values: its initial model, its data and its training."""
    return {
        "model": json.loads(model.config.to_json()),
        "training": dataclasses.asdict(config),
        "solver": repr(solver),
        "training data": checksum(train),
        "validation data": None if validation is None else checksum(validation),
        "first model": checksum(jax.tree.leaves(model)),
    }


def _short(theirs: Any, mine: Any) -> str:
    """The first difference of two values, as text."""
    if isinstance(theirs, dict) and isinstance(mine, dict):
        odd = {k: theirs.get(k) for k in {**theirs, **mine} if theirs.get(k) != mine.get(k)}
        name, value = next(iter(odd.items()))
        return f"{name}={value!r}, not {mine.get(name)!r}"
    return f"{theirs!r}, not {mine!r}"
