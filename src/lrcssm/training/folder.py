"""A run's folder: what is in it, and where."""

import json
import os
import pathlib
from collections.abc import Iterable
from typing import Any

from ..errors import LrcssmError
from ..files import FileError, write_text


class RunError(LrcssmError, ValueError):
    """A run that cannot be started or used; its text says why."""


class Folder:
    """The files of a run.

    run.json           the command, versions, data, split, model and training
    history.jsonl      one line for each look at the validation data
    checkpoint.lrcssm  everything to go on from
    model.lrcssm       the best model
    predictions.csv    of the test cases
    scores.json        of the best model on the test cases
    report.html        all of it to look at
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

    def claim(self, *, resume: bool, overwrite: bool) -> None:
        """Makes the folder, or refuses if it holds something that would be lost; what it holds stays until `begin`."""
        if self.path.exists() and not self.path.is_dir():
            raise RunError(f"{self.path} is a file; give --out a folder.")
        known = self.file("run.json").exists()
        if self.path.is_dir() and any(self.path.iterdir()) and not known:
            raise RunError(f"{self.path} holds other files and no run; give --out another folder.")
        if known and not resume and not overwrite:
            raise RunError(
                f"{self.path} already holds a run; --resume goes on with it, --overwrite replaces it, --out names another "
                "folder."
            )
        self.path.mkdir(parents=True, exist_ok=True)

    def begin(self, facts: dict[str, Any], *, resume: bool) -> None:
        """Puts a run in the place of the one that is there, unless it is that one that goes on."""
        if resume and self.file("run.json").exists():
            return
        for name in _NAMES:
            self.file(name).unlink(missing_ok=True)
        self.write_json("run.json", facts)

    def write_history(self, history: Iterable[Any]) -> None:
        """One line for each look."""
        self.write_text("history.jsonl", "".join(json.dumps(epoch.to_dict()) + "\n" for epoch in history))

    def forget_checkpoint(self) -> None:
        """Removes what a finished run does not need to go on from."""
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
        except (UnicodeDecodeError, json.JSONDecodeError, RecursionError) as error:
            raise FileError(f"{path} is damaged: it cannot be read as JSON.") from error

    def write_text(self, name: str, text: str) -> None:
        """At once or not at all."""
        write_text(self.file(name), text)


# The one before it, and one that a killed process had not put in its place yet.
_CHECKPOINTS = ("checkpoint.lrcssm", "checkpoint.lrcssm.previous", "checkpoint.lrcssm.next")
_NAMES = ("run.json", "history.jsonl", *_CHECKPOINTS, "model.lrcssm", "predictions.csv", "scores.json", "report.html")
