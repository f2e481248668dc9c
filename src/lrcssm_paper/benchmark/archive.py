"""Classifiers over a folder of data sets: accuracy, log-loss, time, wins and losses, and average ranks.

Results are appended as JSON lines, so that an interrupted run can be resumed.
"""

import json
import pathlib
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from lrcssm.compilation import remember_compilations
from lrcssm.machine import environment
from lrcssm.report.table import doubts, number, print_table

from .. import cost, pictures, ranks
from . import ArchiveBenchmark
from .classifiers import checksum, find_pairs, limited_to, read_pair, run, why_unavailable
from .record import chosen, make_record, progress

_KEY = ("dataset", "model", "seed", "threads", "data")


def measure(options: ArchiveBenchmark) -> dict[str, Any]:
    """Run the classifiers and data sets without a result.

    **Returns:**

    A record for JSON: `command`, `environment`, `options`, `rows` (one for each classifier and data set), `summary` (see
    `compare`) and `unavailable`, the reasons for which classifiers were left out.
    """
    facts, pairs = environment("aeon", "scikit-learn"), find_pairs(pathlib.Path(options.folder))
    names = chosen(options.datasets, pairs, "datasets")
    unavailable = {name: why for name in options.models if (why := why_unavailable(name)) is not None}
    models = [name for name in dict.fromkeys(options.models) if name not in unavailable]
    file, rows = Lines(pathlib.Path(options.results)), []
    remember_compilations()
    with progress() as say, limited_to(options.threads):
        for number, name in enumerate(names, 1):
            data, pair = checksum(pairs[name]), None
            for model in models:
                row = {"dataset": name, "model": model, "seed": options.seed, "threads": options.threads, "data": data}
                known = file.find(row)
                if known is None:
                    say(f"{number}/{len(names)} {name}: {model}")
                    pair = read_pair(name, pairs[name]) if pair is None else pair
                    (train, labels), (test, _) = pair
                    row |= {"train_cases": len(train), "test_cases": len(test), "length": max(one.shape[1] for one in train),
                            "channels": train[0].shape[0], "classes": len(np.unique(labels))}  # fmt: skip
                    known = row | run(model, pair, seed=options.seed, threads=options.threads)
                    file.add(known | {"versions": facts["versions"], "date": facts["date"]})
                    print(f"{number}/{len(names)} {_sentence(known)}", file=sys.stderr, flush=True)
                rows.append(known)
    more = {"summary": compare(rows, models), "unavailable": unavailable}
    return make_record("archive", options, facts, rows) | more


def _sentence(row: dict[str, Any]) -> str:
    if "refused" in row:
        return f"{row['dataset']}, {row['model']}: refused: {row['refused']}"
    return (
        f"{row['dataset']}, {row['model']}: {row['accuracy']:.1%} in {cost.in_words(row['fit_s'] + row['predict_s'])}"
    )


class Lines:
    """Results in a file of JSON lines; a last line that was cut off is dropped."""

    def __init__(self, path: pathlib.Path):
        self.path, self.rows = path, {}
        path.parent.mkdir(parents=True, exist_ok=True)
        whole, _, rest = path.read_text(encoding="utf-8").rpartition("\n") if path.exists() else ("", "", "")
        if rest:
            path.write_text(f"{whole}\n" if whole else "", encoding="utf-8")
        for line in whole.splitlines():
            row = json.loads(line)
            self.rows[_key(row)] = row

    def find(self, row: dict[str, Any]) -> dict[str, Any] | None:
        """The result of the same classifier, data, seed and threads."""
        return self.rows.get(_key(row))

    def add(self, row: dict[str, Any]) -> None:
        """Append a result."""
        self.rows[_key(row)] = row
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(row, ensure_ascii=False) + "\n")


def _key(row: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(row[name] for name in _KEY)


def compare(rows: Sequence[dict[str, Any]], models: Sequence[str]) -> list[dict[str, Any]]:
    """Compare the first classifier with each one, over the data sets that both accept.

    **Arguments:**

    - `rows`: results.
    - `models`: names of the classifiers.

    **Returns:**

    For each classifier its name, `model`; the number of the data sets, `sets`; the mean `accuracy`, and that of the first
    classifier; the mean `log_loss` of the data sets with probabilities; the sums `fit_s` and `predict_s`; `wins`, `draws` and
    `losses` of the first classifier; and the names of the data sets that it `refused`.
    """
    results = {(row["model"], row["dataset"]): row for row in rows}
    mean = lambda values: float(np.mean(values)) if values else None
    found = []
    for model in models:
        own = {name: row for (of, name), row in results.items() if of == model}
        both = [
            name for name, row in own.items() if "accuracy" in row and "accuracy" in results.get((models[0], name), {})
        ]
        mine, first = ([results[of, name]["accuracy"] for name in both] for of in (model, models[0]))
        sign = np.sign(np.subtract(first, mine))
        found.append({
            "model": model, "sets": len(both), "accuracy": mean(mine), "first_accuracy": mean(first),
            "log_loss": mean([loss for name in both if (loss := own[name]["log_loss"]) is not None]),
            "fit_s": sum(own[name]["fit_s"] for name in both), "predict_s": sum(own[name]["predict_s"] for name in both),
            "wins": int(np.sum(sign == 1)), "draws": int(np.sum(sign == 0)), "losses": int(np.sum(sign == -1)),
            "refused": [name for name, row in own.items() if "refused" in row],
        })  # fmt: skip
    return found


def ranked(rows: Sequence[dict[str, Any]]) -> ranks.Ranks | None:
    """Average ranks over the data sets that the classifiers have in common."""
    scores: dict[str, dict[str, float]] = {}
    for row in rows:
        if "accuracy" in row:
            scores.setdefault(row["model"], {})[row["dataset"]] = row["accuracy"]
    return ranks.compare(scores)


def show(record: dict[str, Any]) -> None:
    """Print the accuracies, then the comparison with the first classifier."""
    rows, summary, facts = record["rows"], record["summary"], record["environment"]
    models = [one["model"] for one in summary]
    cells = {(row["dataset"], row["model"]): row for row in rows}
    sizes = {row["dataset"]: [f"{row[each]:,}" for each in ("train_cases", "test_cases", "length")] for row in rows}
    percent = lambda value: "–" if value is None else f"{100 * value:.1f}"
    print_table(
        ["data<", "train", "test", "T", *models],
        [
            [name, *size, *(percent(cells[name, model].get("accuracy")) for model in models)]
            for name, size in sizes.items()
        ],
        title=f"Test accuracy, %; {facts['processor']}, {record['options']['threads'] or facts['cores']} threads",
        notes=[
            *(f"{model} is left out: {why}." for model, why in record["unavailable"].items()),
            *dict.fromkeys(f"{row['model']} does not accept {row['dataset']}: {row['refused']}" for row in rows if "refused" in row),
        ],
    )  # fmt: skip
    if not models:
        return
    found = ranked(rows)
    place = {} if found is None else dict(zip(found.names, found.ranks, strict=True))
    print_table(
        ["model<", "sets", "mean\n%", f"{models[0]}\n%", "wins", "draws", "losses", "log-\nloss", "fit\ns", "predict\ns", "rank"],
        [
            [
                one["model"], str(one["sets"]), percent(one["accuracy"]), percent(one["first_accuracy"]),
                *(str(one[each]) if one["model"] != models[0] else "–" for each in ("wins", "draws", "losses")),
                *(number(one[each]) for each in ("log_loss", "fit_s", "predict_s")),
                f"{place[one['model']]:.2f}" if one["model"] in place else "–",
            ]
            for one in summary
        ],
        title=f"Over the data sets that a classifier and {models[0]} both accept",
        notes=[
            f"Wins, draws and losses are those of {models[0]}. Seconds are sums, with compilation. No log-loss: a classifier "
            "without probabilities.",
            *ranks.sentences(found, "results"),
            *doubts(facts, []),
        ],
    )  # fmt: skip


def draw(record: dict[str, Any]) -> Figure:
    """Draw the accuracies of the first classifier against each other one, and the average ranks below."""
    rows, (first, *rivals) = record["rows"], [one["model"] for one in record["summary"]]
    scores = {(row["model"], row["dataset"]): row["accuracy"] for row in rows if "accuracy" in row}
    found = ranked(rows)
    heights = [3.2, *([2.2] if found else [])]
    figure = Figure(figsize=(max(5.0, 3.2 * len(rivals)), sum(heights)), layout="constrained")
    grid = figure.add_gridspec(len(heights), max(1, len(rivals)), height_ratios=heights)
    for place, rival in enumerate(rivals):
        names = [name for model, name in scores if model == rival and (first, name) in scores]
        points = [(scores[rival, name], scores[first, name]) for name in names]
        pictures.against(figure.add_subplot(grid[0, place]), points, rival, first)
    if found is not None:
        pictures.draw_ranks(figure.add_subplot(grid[1, :]), found)
    return figure
