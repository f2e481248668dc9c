"""Checkpoints: everything that a run needs to go on, in one file, and the one before it.

A checkpoint belongs to one run: its header holds what the run is made of (model, data, training, solver), and another run
is refused by name. It is written beside its place and then put there, so it is there as a whole or not at all; if it is
damaged afterwards, the one before it is used.
"""

import dataclasses
import json
import os
import pathlib
import time
import warnings
import zlib
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..data import Cases
from ..engine import Solver
from ..errors import LrcssmError
from ..files import FileError, named_leaves, read_arrays, write_arrays
from ..models import ModelConfig, SequenceModel
from .config import TrainingConfig

LEAST_SECONDS = 1.0
"""The least time between two writings: small models are looked at many times a second."""
MOST_SECONDS = 60.0
"""The most: where it takes long from one look at the validation data to the next, there is a checkpoint in between."""


class CheckpointError(LrcssmError, ValueError):
    """A checkpoint that cannot be used; its text says why."""


@dataclasses.dataclass
class Checkpoint:
    """Where a run keeps its progress.

    **Arguments:**

    - `path`: the file.
    - `run`: what the run is made of; see `identity`.
    """

    path: str | os.PathLike[str]
    run: dict[str, Any]
    written: float = -np.inf
    begun: float = dataclasses.field(default_factory=time.monotonic)
    damaged: bool = False

    @property
    def previous(self) -> pathlib.Path:
        """Where the one before it is kept."""
        path = pathlib.Path(self.path)
        return path.with_name(path.name + ".previous")

    def overdue(self) -> bool:
        """Whether the last one, or the start, is so long ago that another should not wait for the next look."""
        return time.monotonic() - max(self.written, self.begun) > MOST_SECONDS

    def write(self, progress: Any, *, final: bool) -> None:
        """Writes the progress, unless that was done a moment ago and this is not the end."""
        now = time.monotonic()
        if not final and now - self.written < LEAST_SECONDS:
            return
        facts = {
            name: getattr(progress, name) for name in ("best_step", "stale", "over", "seconds", "since")
        } | {
            "history": [epoch.to_dict() for epoch in progress.history],
            "score": progress.score if progress.history else None,  # JSON knows no infinity
        }  # fmt: skip
        path = pathlib.Path(self.path)
        arrays = {name: np.asarray(leaf) for name, leaf in named_leaves((progress.state, progress.best)).items()}
        following = path.with_name(path.name + ".next")
        write_arrays(following, {"kind": "checkpoint", "run": self.run, "facts": facts}, arrays)
        if path.exists() and not self.damaged:
            os.replace(path, self.previous)
        os.replace(following, path)
        self.written, self.damaged = now, False

    def read(self, empty: Any) -> tuple[Any, dict[str, Any]] | None:
        """The progress that was written last, in the shape of `empty`, and its facts; `None` if there is none."""
        complaints = []
        for path in (pathlib.Path(self.path), self.previous):
            if not path.exists():
                continue
            try:
                header, arrays = read_arrays(path, kind="checkpoint")
                self._compare(path, header["run"])
                found = self._filled(path, empty, arrays), header["facts"]
            except (FileError, KeyError, TypeError) as error:
                complaints.append(str(error))
                self.damaged = True
                continue
            if complaints:
                warnings.warn(f"{complaints[0]} The checkpoint before it, {path}, is used instead.", stacklevel=3)
            return found
        if complaints:
            raise CheckpointError(
                f"{complaints[0]} There is no other checkpoint to go on from; start again without resuming."
            )
        return None

    def _filled(self, path: pathlib.Path, empty: Any, arrays: dict[str, np.ndarray]) -> Any:
        wanted = named_leaves((empty.state, empty.best))
        if {name: np.shape(leaf) for name, leaf in wanted.items()} != {name: a.shape for name, a in arrays.items()}:
            raise FileError(f"{path} does not hold the arrays of this run.")
        leaves = [jnp.asarray(arrays[name], leaf.dtype) for name, leaf in wanted.items()]
        state, best = jax.tree.unflatten(jax.tree.structure((empty.state, empty.best)), leaves)
        return dataclasses.replace(empty, state=state, best=best)

    def _compare(self, path: pathlib.Path, other: dict[str, Any]) -> None:
        for name, mine in self.run.items():
            theirs = other.get(name)
            if isinstance(theirs, dict) and name in _KINDS:
                # What had no such option yet did as the option does if it is not given.
                theirs = {field.name: field.default for field in dataclasses.fields(_KINDS[name])} | theirs
            if theirs != mine:
                raise CheckpointError(
                    f"{path} belongs to another run: its {name} is {_short(theirs, mine)}; give the same again "
                    "to go on with it, or another folder to start anew."
                )


_KINDS = {"model": ModelConfig, "training": TrainingConfig}


def identity(
    model: SequenceModel, train: Cases, validation: Cases | None, config: TrainingConfig, solver: Solver
) -> dict[str, Any]:
    """What a run is made of, as JSON can hold it: where it starts, what it sees, and how it goes on."""
    start = zlib.crc32(b"".join(np.asarray(leaf).tobytes() for leaf in jax.tree.leaves(model)))
    return {
        "model": json.loads(model.config.to_json()),
        "training": dataclasses.asdict(config),
        "solver": repr(solver),
        "training data": fingerprint(train),
        "validation data": None if validation is None else fingerprint(validation),
        "first model": f"{start:08x}",
    }


def fingerprint(cases: Cases) -> str:
    """A few letters and digits that are others for other data."""
    crc = zlib.crc32(repr([one.shape for one in cases.series]).encode())
    for parts in (cases.series, cases.valid, cases.dt, cases.targets):
        for one in () if parts is None else parts:
            crc = zlib.crc32(np.ascontiguousarray(one).tobytes(), crc)
    return f"{len(cases)} cases, {crc:08x}"


def _short(theirs: Any, mine: Any) -> str:
    """What differs, not everything."""
    if isinstance(theirs, dict) and isinstance(mine, dict):
        odd = {k: theirs.get(k) for k in {**theirs, **mine} if theirs.get(k) != mine.get(k)}
        name, value = next(iter(odd.items()))
        return f"{name}={value!r}, not {mine.get(name)!r}"
    return f"{theirs!r}, not {mine!r}"
