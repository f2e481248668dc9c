"""The command line. A command is a dataclass in a module of this package (see `parser`), named in `COMMANDS`; further ones
come from the entry points of the group `lrcssm.commands`.

A user error prints one sentence to standard error and exits with code 2. Any other error is a bug in this package and keeps its
traceback.
"""

import contextlib
import importlib
import os
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from .. import __doc__ as about, __version__, plugins
from ..errors import LrcssmError
from .parser import UsageError, parse

COMMANDS: dict[str, Any] = {
    "train": "train:Train",
    "evaluate": "evaluate:Evaluate",
    "predict": "predict:Predict",
    "forecast": "forecast:Forecast",
    "tune": {
        "": "Search for good settings, with any number of processes.",
        "start": "tune:Start",
        "worker": "tune:Worker",
        "show": "tune:Show",
        "dashboard": "tune:Dashboard",
    },
    "export": "export:Export",
    "data": {
        "": "List, show and fetch data sets.",
        "list": "data:ListData",
        "show": "data:ShowData",
        "fetch": "data:FetchData",
    },
    "info": "info:Info",
}
"""Commands by name: a class, or its module and name. A mapping is a group; its description has the empty name."""

EXTRAS = {
    "torch": "bench", "aeon": "uea", "optuna": "tune", "optuna_dashboard": "tune",
    "flatbuffers": "export", "onnx": "export", "onnxruntime": "export", "jax2onnx": "export",
}  # fmt: skip
"""Extra that installs an optional module."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command.

    **Arguments:**

    - `argv`: the words after the program's name; those of this process if not given.

    **Returns:**

    The exit code: 0, 2 for a user error, 130 if interrupted.
    """
    words = list(sys.argv[1:] if argv is None else argv)
    try:
        if words[:1] == ["--version"]:
            print(f"lrcssm {__version__}")
            return 0
        command = _command(commands(), words, "lrcssm")
        if command is not None:
            command.run()
        sys.stdout.flush()
    except KeyboardInterrupt as stop:
        code = _fail(str(stop) or "interrupted.", 130)
        if argv is None:
            # Python would wait for threads that compile, which nothing can interrupt.
            os._exit(code)
        return code
    except BrokenPipeError:
        # The reader of our output has seen enough; Python would complain once more when it closes the stream.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except (LrcssmError, OSError, MemoryError, ModuleNotFoundError) as error:
        sentence = _sentence(error)
        if sentence is None:
            raise
        return _fail(sentence)
    return 0


def commands() -> dict[str, Any]:
    """All commands by name, those of extensions last."""
    return {**COMMANDS, **plugins.find("commands")}


def _command(known: Mapping[str, Any], words: list[str], prog: str) -> Any | None:
    """Parse words into a command and its options; print help and return `None` if it was requested."""
    name = words[0] if words else "--help"
    names = [one for one in known if one]
    if name in ("-h", "--help"):
        if not words and prog != "lrcssm":
            raise UsageError(f"{prog} needs a command: {', '.join(names)}; run {prog} --help.")
        _print_help(known, prog)
        return None
    if name not in names:
        raise UsageError(f"There is no command {name!r}; give one of {', '.join(names)}, or run {prog} --help.")
    found = _loaded(known[name])
    if isinstance(found, Mapping):
        return _command(found, words[1:], f"{prog} {name}")
    return parse(found, words[1:], f"{prog} {name}")


def _loaded(command: Any) -> Any:
    if isinstance(command, str):
        module, _, name = command.partition(":")
        return getattr(importlib.import_module(f".{module}", __name__), name)
    return command.load() if hasattr(command, "load") else command


def _print_help(known: Mapping[str, Any], prog: str) -> None:
    lines = [known.get("", about), "", f"usage: {prog} COMMAND ...", ""]
    for name in known:
        if name:
            found = _loaded(known[name])
            text = found[""] if isinstance(found, Mapping) else (found.__doc__ or "").partition("\n")[0]
            lines.append(f"  {name:10} {text}")
    lines += [
        "",
        f"Run {prog} COMMAND --help for its options"
        + ("; lrcssm --version shows the version." if prog == "lrcssm" else "."),
    ]
    print("\n".join(lines))


def _sentence(error: BaseException) -> str | None:
    """Message for a user error; `None` for a bug."""
    if isinstance(error, LrcssmError):
        return str(error)
    if isinstance(error, ModuleNotFoundError):
        module = (error.name or "").partition(".")[0]
        if module not in EXTRAS:
            return None
        return f'This needs {module}, which is not installed; pip install "lrcssm[{EXTRAS[module]}]" gives it.'
    if isinstance(error, OSError):
        what = f"Cannot use {error.filename!r}" if error.filename else "The system refused"
        return f"{what}: {error.strerror or error}."
    return f"Not enough memory: {str(error) or 'try something smaller'}."


def _fail(sentence: str, code: int = 2) -> int:
    with contextlib.suppress(BrokenPipeError):
        print(f"lrcssm: {sentence}", file=sys.stderr)
    return code
