"""Entry points of `lrcssm_paper` as declared in pyproject.toml, installed or not."""

import importlib.metadata
import pathlib
import tomllib

ROOT = pathlib.Path(__file__).parents[1]


def entries(group):
    """Entry points of a group of `lrcssm` by name."""
    groups = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"]
    found = groups[f"lrcssm.{group}"].items()
    return {name: importlib.metadata.EntryPoint(name, value, f"lrcssm.{group}") for name, value in found}


def run(name, *words):
    """Run a command of `lrcssm_paper` as the command line does; errors are raised."""
    from lrcssm.cli.parser import parse

    command, prog = entries("commands")[name].load(), f"lrcssm {name}"
    if isinstance(command, dict):
        (name, *words), command, prog = words, command[words[0]], f"{prog} {words[0]}"
    made = parse(command, list(map(str, words)), prog)
    assert made is not None
    made.run()
