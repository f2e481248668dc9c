"""Provenance of the data of a run: source, split and checksum."""

import dataclasses
import os
import pathlib
from types import NoneType
from typing import Any

from .. import plugins
from ..data import Dataset, Split, load as load_data
from ..data.catalogue import from_anywhere
from ..data.readers import TASKS
from ..data.readers.columns import wrong_columns
from ..errors import FileError, InvalidValue
from ..files import checksum
from .checkpoint import more_steps
from .folder import Folder, RunError


def origin(data: Dataset, source: str, directory: str | None) -> dict[str, Any]:
    """Facts for `run.json`: a checksum, and absolute paths of the source and its directory."""
    where = None if directory is None else os.path.abspath(os.path.expanduser(directory))
    return {"fingerprint": fingerprint(data), "source": from_anywhere(source), "directory": where}


def run_facts(folder: Folder) -> dict[str, Any]:
    """The content of `run.json`; raises `FileError` if a required part is missing or of another type."""
    found, path = folder.read_json("run.json"), folder.file("run.json")
    text = (str,)
    for where, kinds in {
        ("options",): (dict,), ("options", "source"): text, ("options", "columns"): (dict,), ("options", "split"): text,
        ("options", "split_seed"): (int,), ("data",): (dict,), ("data", "source"): text, ("data", "cases"): (dict,),
        ("data", "fingerprint"): text, ("data", "directory"): (str, NoneType), ("model",): (dict,), ("training",): (dict,),
    }.items():  # fmt: skip
        value = found
        for name in where:
            value = value.get(name, ...) if isinstance(value, dict) else ...
        if type(value) not in kinds:
            raise FileError(f"{path} does not describe a run: its {'.'.join(where)} is missing or of a wrong type.")
    columns, cases = found["options"]["columns"], found["data"]["cases"]
    odd = [] if found["options"].get("task") in (None, *TASKS) else ["task"]
    odd += wrong_columns(columns) + [name for name, value in cases.items() if type(value) is not int]
    if odd:
        raise FileError(f"{path} does not describe a run: {odd[0]!r} is not known or of a wrong type.")
    return found


def original(folder: Folder, directory: str | None) -> Dataset:
    """The data of a run; raises an error if it has changed, since its test cases are then unknown."""
    facts = run_facts(folder)
    options, kept = facts["options"], facts["data"]
    source = kept["source"]
    if os.path.isabs(source) and not os.path.exists(source):  # a run that came here from another machine with its data
        source = options["source"]
    columns = {name: value for name, value in options["columns"].items() if value}
    data = load_data(source, directory=directory or kept["directory"], task=options.get("task"), **columns)
    if kept["fingerprint"] != fingerprint(data):
        raise RunError(
            f"{pathlib.Path(source).name} has changed since {folder.path} was trained ({sum(kept['cases'].values())} "
            f"cases then, {len(data)} now), so its test cases are not known; name the data after the run to score all of "
            "its cases, or train again."
        )
    return data


def fingerprint(data: Dataset) -> str:
    """A short checksum of values, times, targets and parts."""
    return checksum(data.series, data.times, data.targets, data.classes, data.split)


def divide(data: Dataset, kind: str, seed: int) -> Split:
    """Positions of the cases for training, validation and test.

    **Arguments:**

    - `data`: the data set.
    - `kind`: `"source"`, the parts of the source if it has any; `"random"`; or the name of an extension (group
        `lrcssm.splits`).
    - `seed`: of random parts.
    """
    if seed < 0:
        raise InvalidValue(f"The split got seed={seed}; give a whole number of at least 0.")
    if kind not in ("source", "random"):
        extension = plugins.load("splits", kind)
        if extension is None:
            known = ", ".join(["source", "random", *plugins.find("splits")])
            raise InvalidValue(f"The split {kind!r} is not known; give one of {known}.")
        return extension(data, seed)
    if kind == "random":
        data = dataclasses.replace(data, split=None)
    split = data.complete_split(seed)
    if not len(split.train):
        raise RunError(f"{data.name} has no training part; draw one with the split random.")
    return split


def judged(split: Split) -> tuple[str, Any]:
    """The part that a run is scored on and its cases: those for test, or for validation where a source has no others."""
    return ("test", split.test) if len(split.test) else ("validation", split.validation)


def same_run(folder: Folder, facts: dict[str, Any]) -> None:
    """Raise an error if a run is resumed with other options than it was started with; a checkpoint does not hold all of them."""
    theirs = run_facts(folder)
    options = ("split", "split_seed", "missing", "solver")
    pairs = [(f"command has {name}=", theirs.get("options", {}).get(name), facts["options"][name]) for name in options]
    pairs.append(("method is ", theirs.get("method"), facts["method"]))
    for part in ("model", "training", "data"):
        pairs += [
            (f"{part} is {name}=", theirs.get(part, {}).get(name), value)
            for name, value in facts[part].items()
            if (part != "data" or name == "fingerprint") and not (part == "training" and name == "steps")
        ]
    if "steps" in facts["training"]:
        old, new = theirs.get("training", {}).get("steps"), facts["training"]["steps"]
        pairs.append(("training is steps=", more_steps(old, new), new))
    for name, old, new in pairs:
        if old != new:
            raise RunError(
                f"{folder.path} belongs to another run: its {name}{old!r}, not {new!r}; give the same again to resume "
                "it, or another folder for a new run."
            )
