"""The run folder and its files."""

import contextlib
import json
import os
import pathlib
from collections.abc import Iterable, Iterator
from typing import Any

from ..errors import LrcssmError
from ..files import FileError, write_text
from ..locks import alone


class RunError(LrcssmError, ValueError):
    """A run that cannot be started or used; the message is the reason."""


class Folder:
    """The files of a run.

    run.json           the command, versions, data, split, model and training
    history.jsonl      one line for each evaluation
    checkpoint.lrcssm  everything needed to resume
    model.lrcssm       the best model
    predictions.csv    of the test cases
    scores.json        of the best model on the test cases
    report.html        the report
    """

    def __init__(self, path: str | os.PathLike[str]):
        self.path = pathlib.Path(path)

    def file(self, name: str) -> pathlib.Path:
        return self.path / name

    @property
    def model(self) -> pathlib.Path:
        return self.file("model.lrcssm")

    @property
    def checkpoint(self) -> pathlib.Path:
        return self.file("checkpoint.lrcssm")

    @contextlib.contextmanager
    def claimed(self, *, resume: bool, overwrite: bool) -> Iterator[None]:
        """Create and lock the folder; raises an error if existing files would be lost.

        **Arguments:**

        - `resume`, `overwrite`: resume an existing run, or replace it; it is not changed before `begin`.
        """
        if self.path.exists() and not self.path.is_dir():
            raise RunError(f"{self.path} is a file; name a folder for the run.")
        known = self.file("run.json").exists()
        if not known and self.path.is_dir() and not all(_is_ours(one.name) for one in self.path.iterdir()):
            raise RunError(f"{self.path} holds other files and no run; name another folder.")
        if known and not resume and not overwrite:
            raise RunError(f"{self.path} already holds a run; resume it, overwrite it, or name another folder.")
        with alone(self.path, _LOCK) as mine:
            if not mine:
                raise RunError(f"Another process is training in {self.path}; wait for it, or name another folder.")
            try:
                yield
            finally:
                self.file(_LOCK).unlink(missing_ok=True)

    def begin(self, facts: dict[str, Any], *, resume: bool) -> None:
        """Replace an existing run by this one, unless it is being resumed, possibly for more steps."""
        if resume and self.file("run.json").exists():
            if self.read_json("run.json").get("training") != facts["training"]:
                self.write_json("run.json", facts)
            return
        # The description goes last: as long as it is there, the folder is known to be that of a run.
        for one in self.path.iterdir():
            if _is_ours(one.name) and one.name not in ("run.json", _LOCK):
                one.unlink()
        self.write_json("run.json", facts)

    def write_history(self, history: Iterable[Any]) -> None:
        """Write one line for each evaluation."""
        self.write_text("history.jsonl", "".join(json.dumps(one.to_dict()) + "\n" for one in history))

    def forget_checkpoint(self) -> None:
        """Remove the checkpoints of a finished run."""
        for name in _CHECKPOINTS:
            self.file(name).unlink(missing_ok=True)

    def write_json(self, name: str, value: Any) -> None:
        self.write_text(name, json.dumps(value, indent=2, ensure_ascii=False) + "\n")

    def read_json(self, name: str) -> Any:
        path = self.file(name)
        try:
            return json.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError as error:
            raise RunError(f"{self.path} holds no {name}; is it the folder of a run?") from error
        except (ValueError, RecursionError) as error:  # also a number of thousands of digits
            raise FileError(f"{path} is damaged: it cannot be read as JSON.") from error

    def write_text(self, name: str, text: str) -> None:
        """Write a text file atomically."""
        write_text(self.file(name), text)


# The one before it, and one that a killed process had not put in its place yet.
_CHECKPOINTS = ("checkpoint.lrcssm", "checkpoint.lrcssm.previous", "checkpoint.lrcssm.next")
_NAMES = ("run.json", "history.jsonl", *_CHECKPOINTS, "model.lrcssm", "predictions.csv", "scores.json", "report.html")
_LOCK = ".lock"


def _is_ours(name: str) -> bool:
    """True for a file of a run, including temporary files of a killed process."""
    return name in (*_NAMES, _LOCK) or any(name.startswith(f".{one}.") for one in _NAMES)
