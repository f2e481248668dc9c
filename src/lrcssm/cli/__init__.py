"""The command line: `lrcssm train`, `evaluate`, `predict`, `export`, `tune`, `data`, `reproduce`, `benchmark`, `info` and
`lrcssm --version`.

A command is a dataclass: its fields are the options, its docstrings their help, and its method `run` does the work. To
add one, write it beside what it runs and name it in `COMMANDS`. Defining it must import nothing heavy; `run` may.

What a user can get wrong ends in one sentence on standard error and exit code 2. Everything else is a mistake in this
package, and keeps its traceback.
"""

import contextlib
import dataclasses
import io
import os
import re
import sys
from collections.abc import Sequence
from typing import Annotated, Any, Union

import tyro

import lrcssm

from .benchmark import (
    CellsBenchmark,
    EngineBenchmark,
    LongBenchmark,
    ModelsBenchmark,
    ScalingBenchmark,
    StreamBenchmark,
    TogetherBenchmark,
    TrainBenchmark,
)
from .experiments import Reproduce
from .export import Export
from .runs import Evaluate, Predict, Train
from .runs.data import FetchData, ListData, ShowData
from .tuning import Dashboard, Show, Start, Worker


@dataclasses.dataclass(frozen=True)
class Info:
    """Show what a trained model is; or versions, devices and defaults: what to say in a report of a problem."""

    model: Annotated[str | None, tyro.conf.Positional, tyro.conf.arg(metavar="MODEL")] = None
    """A run's folder or a model's file."""
    json: bool = False
    """Print JSON."""

    def run(self) -> None:
        if self.model is not None:
            from .runs.describe import describe_model

            describe_model(self.model, as_json=self.json)
            return
        import jax.numpy as jnp

        from .benchmark.timing import environment, write_record

        facts: dict[str, Any] = environment() | {"dtype": jnp.result_type(float).name}
        if self.json:
            write_record("-", facts)
            return
        from rich.console import Console
        from rich.table import Table

        table = Table.grid(padding=(0, 2))
        for name, version in facts["versions"].items():
            table.add_row(name, version)
        for name in ("backend", "devices", "processor", "cores", "system", "dtype"):
            value = facts[name]
            table.add_row(name, ", ".join(value) if isinstance(value, list) else str(value))
        Console(highlight=False).print(table)


COMMANDS: dict[str, Any] = {
    "train": Train,
    "evaluate": Evaluate,
    "predict": Predict,
    "export": Export,
    "data": {"": "List, show and fetch data sets.", "list": ListData, "show": ShowData, "fetch": FetchData},
    "info": Info,
    "reproduce": Reproduce,
    "tune": {
        "": "Find good settings for a data set, with as many processes as there are.",
        "start": Start,
        "worker": Worker,
        "show": Show,
        "dashboard": Dashboard,
    },
    "benchmark": {
        "": "Measure speed and memory.",
        "engine": EngineBenchmark,
        "cells": CellsBenchmark,
        "train": TrainBenchmark,
        "models": ModelsBenchmark,
        "scaling": ScalingBenchmark,
        "long": LongBenchmark,
        "stream": StreamBenchmark,
        "together": TogetherBenchmark,
    },
}
"""The commands by name; a dict is a group of them, described under the empty name."""

EXTRAS = {
    "torch": "bench", "optuna": "tune", "optuna_dashboard": "tune",
    "flatbuffers": "export", "onnx": "export", "onnxruntime": "export", "jax2onnx": "export",
}  # fmt: skip
"""Which extra installs a module that may be missing."""


def main(argv: Sequence[str] | None = None) -> int:
    """Runs a command.

    **Arguments:**

    - `argv`: the words after the program's name; those of this process if not given.

    **Returns:**

    The exit code: 0, 2 for a mistake of the user, 130 if interrupted.
    """
    words = list(sys.argv[1:] if argv is None else argv)
    try:
        if words[:1] == ["--version"]:
            print(f"lrcssm {lrcssm.__version__}")
            return 0
        parsed = _parse(words or ["--help"])
        if isinstance(parsed, int):
            return parsed
        parsed.run()
        sys.stdout.flush()
    except KeyboardInterrupt as stop:
        code = _fail(str(stop) or "interrupted.", 130)
        if argv is None:
            # Python would wait for threads that compile, which nothing can interrupt.
            os._exit(code)
        return code
    except BrokenPipeError:
        # Whoever read our output has seen enough; Python would complain once more when it closes the stream.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except Exception as error:
        sentence = _explain(error)
        if sentence is None:
            raise
        return _fail(sentence)
    return 0


def _parse(words: list[str]) -> Any:
    """The command with its options, or the exit code if there is nothing left to do."""
    complaint = io.StringIO()
    try:
        with contextlib.redirect_stderr(complaint):
            return tyro.cli(
                _union(COMMANDS),
                prog="lrcssm",
                description=f"{lrcssm.__doc__}\n\nlrcssm --version shows the version.",
                args=words,
                config=(tyro.conf.FlagCreatePairsOff,),
            )
    except SystemExit as stop:
        return _fail(_unbox(complaint.getvalue())) if stop.code else 0


def _union(commands: dict[str, Any]) -> Any:
    """The type that tyro makes subcommands of."""
    arms: list[Any] = [Annotated[None, tyro.conf.Suppress]]  # a union of one is none
    for name, command in commands.items():
        if isinstance(command, dict):
            arms.append(
                Annotated[Any, tyro.conf.subcommand(name, constructor=_union(command), description=command[""])]
            )
        elif name:
            arms.append(Annotated[Any, tyro.conf.subcommand(name, constructor=command)])
    return Union[tuple(arms)]  # noqa: UP007, the members are only known now


def _unbox(box: str) -> str:
    """One sentence out of the box that tyro draws: what is wrong, and what it expected or suggests."""
    parts: list[list[str]] = [[]]
    for line in re.sub(r"\x1b\[[0-9;]*m", "", box).splitlines():
        text = line.strip(" │╭╮╰╯─")
        # Rules divide the parts; where there is no Unicode they are made of hyphens.
        if text.strip("-"):
            parts[-1].append(text)
        else:
            parts.append([])
    title = parts[0].pop(0) if parts[0] else ""
    what, hint, *_ = [part for part in parts if part] + [[""]] * 2
    # What a command's own checks say needs no word on where tyro was.
    sentence = re.sub(r"^Error parsing (?!-)\S+: ", "", " ".join(what)).rstrip(".")
    if not sentence:
        return box.strip()
    if title == "Missing subcommand":
        sentence = f"{title}: {sentence}"
    if hint[0] == "Argument helptext:":
        sentence += f"; expected {hint[1]}"
    elif hint[0] == "Perhaps you meant:":
        sentence += f"; perhaps you meant {hint[1].split()[0]}"
    elif hint[0].startswith("Available subcommands:"):
        sentence += f"; available: {' '.join(hint).partition(': ')[2]}"
    return sentence[0].upper() + sentence[1:] + "; --help says more."


def _explain(error: Exception) -> str | None:
    """What to tell the user, or `None` if it is not the user's to mend."""
    if isinstance(error, ModuleNotFoundError):
        module = (error.name or "").partition(".")[0]
        if module not in EXTRAS:
            return None
        return f'This needs {module}, which is not installed; pip install "lrcssm[{EXTRAS[module]}]" gives it.'
    if isinstance(error, OSError):
        if error.errno is None:  # our own sentence
            return str(error)
        what = f"Cannot use {error.filename!r}" if error.filename else "The system refused"
        return f"{what}: {error.strerror or error}."
    if isinstance(error, MemoryError):
        return f"Not enough memory: {str(error) or 'try something smaller'}."
    # Our own errors are sentences for the user; those that come from below us are not.
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    raised_here = trace is not None and trace.tb_frame.f_globals.get("__name__", "").startswith("lrcssm")
    if type(error).__module__.startswith("lrcssm") or (
        isinstance(error, (ValueError, ArithmeticError, ImportError)) and raised_here
    ):
        return str(error)
    return None


def _fail(sentence: str, code: int = 2) -> int:
    print(f"lrcssm: {sentence}", file=sys.stderr)
    return code
