"""Where the data of a run came from, and whether it is still the same."""

import hashlib
import os
import pathlib
from typing import Any

import numpy as np

from ..data import Dataset, load as load_data
from ..data.catalogue import from_anywhere
from .folder import Folder, RunError


def origin(data: Dataset, source: str, directory: str | None) -> dict[str, Any]:
    """What `run.json` keeps of it: a fingerprint, and the source and its directory as found from any folder."""
    where = None if directory is None else os.path.abspath(os.path.expanduser(directory))
    return {"fingerprint": fingerprint(data), "source": from_anywhere(source), "directory": where}


def original(folder: Folder, directory: str | None) -> Dataset:
    """The data of a run; refused if it has changed, since its test cases would then be others."""
    facts = folder.read_json("run.json")
    options, kept = facts["options"], facts["data"]
    # A run that was made before these were kept, or that came here from another machine with its data.
    source = kept.get("source") or options["source"]
    if os.path.isabs(source) and not os.path.exists(source):
        source = options["source"]
    where = directory or kept.get("directory") or options["data_dir"]
    data = load_data(source, directory=where, target=options.get("target"))
    if kept.get("fingerprint") not in (None, fingerprint(data)):
        raise RunError(
            f"{pathlib.Path(source).name} is not what it was when {folder.path} was trained ({sum(kept['cases'].values())} "
            f"cases then, {len(data)} now), so its test cases are not known; name the data after the run to score all of "
            "its cases, or train again."
        )
    return data


def fingerprint(data: Dataset) -> str:
    """A few letters and digits that are others for other values, times, targets or parts."""
    found = hashlib.sha256(repr(([one.shape for one in data.series], data.classes)).encode())
    for parts in (data.series, data.times or (), () if data.targets is None else (data.targets,), data.split or ()):
        for one in parts:
            found.update(np.ascontiguousarray(one).tobytes())
    return found.hexdigest()[:16]


def same_run(folder: Folder, facts: dict[str, Any]) -> None:
    """Refuses to go on with a run under other options than it was begun with; a checkpoint alone would not tell them all."""
    theirs = folder.read_json("run.json")
    options = ("split", "split_seed", "missing", "solver")
    pairs = [(f"command has {name}", theirs.get("options", {}).get(name), facts["options"][name]) for name in options]
    # What had no such setting yet did as it does if it is not given, and the checkpoint knows that.
    for part in ("model", "training", "data"):
        pairs += [
            (f"{part} is {name}", theirs[part][name], value)
            for name, value in facts[part].items()
            if name in theirs.get(part, {}) and (part != "data" or name == "fingerprint")
        ]
    for name, old, new in pairs:
        if old != new:
            raise RunError(
                f"{folder.path} belongs to another run: its {name}={old!r}, not {new!r}; give the same again to go on with "
                "it, or another folder to start anew."
            )
