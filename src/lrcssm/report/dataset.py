"""Output of `lrcssm data list` and `lrcssm data show`."""

import dataclasses
import errno
import hashlib
import json
import os
import pathlib
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..data import Dataset, load
from ..data.catalogue import directory as data_directory, entries
from ..errors import InvalidValue, MissingFile
from .sketch import draw, examples, shown_channel, sketch

PICTURES = (".png", ".svg", ".pdf")
_PARTS = ("train", "validation", "test")
_MOST_CLASSES = 12
_TASKS = {
    "classify": "classification", "regress": "regression", "per-step": "a target for each step", "none": "no targets"
}  # fmt: skip


def facts(dataset: Dataset) -> dict[str, Any]:
    """Collect facts about a data set, as JSON values.

    ```python
    from lrcssm.data import load
    from lrcssm.report.dataset import facts

    print(facts(load("parity"))["classes"])  # {'even': 1000, 'odd': 1000}
    ```
    """
    lengths = np.array([len(one) for one in dataset.series])
    channels = dataset.series[0].shape[1]
    found: dict[str, Any] = {
        "name": dataset.name,
        "task": dataset.task,
        "cases": len(dataset),
        "lengths": {"min": int(lengths.min()), "median": float(np.median(lengths)), "max": int(lengths.max())},
        "channels": channels,
        "channel_names": None if dataset.channel_names is None else list(dataset.channel_names),
        "values": _range(dataset.series),
        "missing": {"values": dataset.missing, "cases": sum(bool(np.isnan(one).any()) for one in dataset.series)},
        "duplicates": _duplicates(dataset),
    }
    if dataset.targets is not None:
        stepwise = isinstance(dataset.targets, tuple)
        targets = np.concatenate(dataset.targets) if stepwise else np.asarray(dataset.targets)
        if dataset.classes is not None:
            counts = np.bincount(targets.astype(int), minlength=len(dataset.classes))
            found["classes"] = {name: int(count) for name, count in zip(dataset.classes, counts, strict=True)}
        else:
            found["targets"] = [_range([column]) for column in targets.reshape(len(targets), -1).T]
    if dataset.split is None:
        found["split"] = None
    else:
        found["split"] = {name: len(part) for name, part in zip(_PARTS, dataset.split, strict=True)}
    found["times"] = None if dataset.times is None else _intervals(dataset.times)
    found["about"] = dataset.about
    found["guess"] = dataset.guess
    found["remarks"] = _remarks(dataset, found)
    return found


def _range(parts: Sequence[np.ndarray]) -> dict[str, float | None]:
    """Compute range, mean and standard deviation of all values, array by array to save memory."""
    count, mean, square, low, high = 0, 0.0, 0.0, np.inf, -np.inf
    for part in parts:
        seen = part[np.isfinite(part)].astype(np.float64)
        if len(seen):
            # Chan, Golub and LeVeque (1979): means and squared deviations of two parts make those of the whole.
            share, gap = len(seen) / (count + len(seen)), seen.mean() - mean
            square += ((seen - seen.mean()) ** 2).sum() + gap**2 * count * share
            count, mean = count + len(seen), mean + gap * share
            low, high = min(low, seen.min()), max(high, seen.max())
    if not count:
        return dict.fromkeys(("min", "mean", "max", "sd"))
    return {"min": float(low), "mean": float(mean), "max": float(high), "sd": float(np.sqrt(square / count))}


def _intervals(times: tuple[np.ndarray, ...]) -> dict[str, Any]:
    steps = np.concatenate([np.diff(one) for one in times])
    if not len(steps):
        return {"regular": True, "min": None, "median": None, "max": None}
    middle = float(np.median(steps))
    regular = bool(np.ptp(steps) <= 1e-6 * abs(middle))
    return {"regular": regular, "min": float(steps.min()), "median": middle, "max": float(steps.max())}


def _duplicates(dataset: Dataset) -> dict[str, int]:
    """Count cases that equal an earlier one, and test cases that are also among the others."""
    marks = [hashlib.blake2b(one.tobytes() + str(one.shape).encode()).digest() for one in dataset.series]
    found = {"cases": len(marks) - len(set(marks))}
    if dataset.split is not None:
        rest = {marks[i] for i in (*dataset.split.train, *dataset.split.validation)}
        found["test cases that are also in training"] = sum(marks[i] in rest for i in dataset.split.test)
    return found


def _remarks(dataset: Dataset, found: dict[str, Any]) -> list[str]:
    """List oddities of a data set."""
    remarks = []
    channels = found["channels"]
    if channels > 1 and channels > found["lengths"]["max"]:
        remarks.append(
            f"There are more channels ({channels}) than steps ({found['lengths']['max']}): if that surprises you, the axes "
            "are swapped; series are (time, channels)."
        )
    constant = [i for i in range(channels) if _constant(dataset, i)]
    if constant:
        shown = ", ".join(map(str, constant[:8])) + (" and more" if len(constant) > 8 else "")
        plural = len(constant) > 1
        remarks.append(
            f"Channel{'s' if plural else ''} {shown} {'are' if plural else 'is'} constant and carry no information."
        )
    if any(np.isinf(one).any() for one in dataset.series):
        remarks.append("Some values are infinite: training rejects them.")
    if found["missing"]["values"]:
        remarks.append('Values are missing: choose missing="fill" or missing="mask".')
    empty = [name for name, count in found.get("classes", {}).items() if not count]
    if empty:
        remarks.append(f"Without a case: {', '.join(empty[:8])}{' and more' if len(empty) > 8 else ''}.")
    shared = found["duplicates"].get("test cases that are also in training")
    if shared:
        remarks.append(f"{shared} test cases are also in training: the test score is too optimistic.")
    return remarks


def _constant(dataset: Dataset, channel: int) -> bool:
    first = None
    for one in dataset.series:
        values = one[:, channel]
        values = values[~np.isnan(values)]
        if len(values):
            first = values[0] if first is None else first
            if (values != first).any():
                return False
    return True


def show(
    source: str, directory: str | None, picture: str | None, as_json: bool, target: str | None = None, **columns: Any
) -> None:
    """Print the facts about a data set with a sketch, or as JSON.

    **Arguments:**

    - `source`, `directory`, `target`, `columns`: as for `lrcssm.data.load`.
    - `picture`: a file to draw a picture to, or `None`.
    - `as_json`: print JSON.
    """
    if picture is not None:
        check_picture(picture)
    dataset = load(source, directory=directory, target=target, **columns)
    found = facts(dataset)
    if picture is not None:
        draw(dataset, picture)
    if as_json:
        print(json.dumps(found, indent=2, allow_nan=False))
        return
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console(highlight=False, markup=False, emoji=False)
    table = Table.grid(padding=(0, 2))
    for name, value in _lines(found):
        table.add_row(Text(name), Text(value))
    console.print(table)
    if _can_print("⣿"):
        console.print()
        _print_sketches(console, dataset)
    for remark in found["remarks"]:
        console.print(f"Note: {remark}")
    if picture is not None:
        console.print(f"The picture is in {picture}.")


def check_picture(path: str) -> None:
    """Check that the picture can be written, before the data are read."""
    target = pathlib.Path(path)
    if target.suffix.lower() not in PICTURES:
        raise InvalidValue(
            f"picture= got {path!r}; give a name that ends in {', '.join(PICTURES[:-1])} or {PICTURES[-1]}."
        )
    if not target.parent.is_dir():
        raise MissingFile(f"{path}: its directory does not exist; create it first.")
    if target.is_dir():
        raise IsADirectoryError(errno.EISDIR, "it is a directory", path)
    if not os.access(target if target.exists() else target.parent, os.W_OK):
        raise PermissionError(errno.EACCES, "permission denied", path)


def _lines(found: dict[str, Any]) -> list[tuple[str, str]]:
    low, middle, high = found["lengths"].values()
    length = f"{low:,}" if low == high else f"{low:,} to {high:,}, median {middle:,.0f}"
    names = found["channel_names"]
    lines = [
        ("name", found["name"]),
        ("task", _TASKS[found["task"]]),
        ("cases", f"{found['cases']:,}"),
        ("steps", length),
        ("channels", f"{found['channels']:,}" + (f": {_some(names)}" if names else "")),
        ("values", _span(found["values"])),
    ]
    if "classes" in found:
        counted = [f"{name} ({count:,})" for name, count in found["classes"].items()]
        lines.append(("classes", f"{len(counted):,}: {_some(counted)}"))
    for column in found.get("targets", []):
        lines.append(("target", _span(column)))
    missing = found["missing"]
    lines.append(
        ("missing", f"{missing['values']:,} values in {missing['cases']:,} cases" if missing["values"] else "none")
    )
    lines.append(("duplicates", f"{found['duplicates']['cases']:,}" if found["duplicates"]["cases"] else "none"))
    split = found["split"]
    counted = [f"{name} {count:,}" for name, count in (split or {}).items() if count]
    lines.append(("split", ", ".join(counted) if split else "none of its own"))
    times = found["times"]
    if times is None:
        lines.append(("times", "equal steps"))
    elif times["regular"] or times["median"] is None:
        lines.append(("times", f"every {times['median'] or 0:.4g}"))
    else:
        lines.append(
            ("times", f"irregular, {times['min']:.3g} to {times['max']:.3g} apart, median {times['median']:.3g}")
        )
    lines += [(name, found[name]) for name in ("about", "guess") if found[name]]
    return lines


def _some(words: list[str]) -> str:
    return ", ".join(words[:_MOST_CLASSES]) + (
        f" and {len(words) - _MOST_CLASSES} more" if len(words) > _MOST_CLASSES else ""
    )


def _span(values: dict[str, float | None]) -> str:
    if values["min"] is None:
        return "none"
    return "{min:.4g} to {max:.4g}, mean {mean:.4g}, standard deviation {sd:.3g}".format(**values)


def _print_sketches(console: Any, dataset: Dataset) -> None:
    channel = shown_channel(dataset)
    groups = examples(dataset, _MOST_CLASSES)
    margin = min(max(len(name) for name, _ in groups), 20)
    width = max(min(console.width - margin - 2, 72), 10)
    name = f"channel {channel}" if dataset.channel_names is None else dataset.channel_names[channel]
    what = "one case of each class" if dataset.classes else "cases with a small, a medium and a large target"
    each = isinstance(dataset.targets, np.ndarray)
    rows = groups if each else [("", [case]) for case in groups[0][1]]
    console.print(f"{name}, {what if each else 'the first cases'}:")
    for label, which in rows:
        times = None if dataset.times is None else dataset.times[which[0]]
        drawn = sketch(dataset.series[which[0]][:, channel], times, width=width)
        for text, line in zip((label[:margin], *[""] * (len(drawn) - 1)), drawn, strict=True):
            console.print(f"{text:<{margin}}  {line}", no_wrap=True, overflow="crop")


def _can_print(text: str) -> bool:
    try:
        text.encode(sys.stdout.encoding or "utf-8")
    except (UnicodeEncodeError, LookupError):
        return False
    return True


def list_entries(directory: str | None, everything: bool, as_json: bool) -> None:
    """Print the catalogue, as a table or as JSON."""
    place = data_directory(directory)
    found = list(entries(directory))
    if as_json:
        record = {"directory": str(place), "datasets": [dataclasses.asdict(entry) for entry in found]}
        print(json.dumps(record, indent=2))
        return
    from .table import print_table

    rows: list[list[str] | None] = []
    last, left_out = None, 0
    for entry in found:
        if entry.where == "archive" and entry.cases is None and not everything:
            left_out += 1
            continue
        if last not in (None, entry.where):
            rows.append(None)
        last = entry.where
        sizes = (entry.cases, entry.length, entry.channels, entry.classes)
        rows.append([entry.name, *("–" if size is None else f"{size:,}" for size in sizes), entry.where])
    notes = [
        f"The data directory is {place}.",
        "lrcssm data show NAME describes one; lrcssm data fetch NAME downloads one of the archive.",
    ]
    if left_out:
        notes.append(
            f"The archive has {left_out} more, univariate and regression problems, which lrcssm data list shows on demand."
        )
    print_table(
        ("name<", " cases", " length", " channels", " classes", "  where<"), rows, title="Data sets", notes=notes
    )
