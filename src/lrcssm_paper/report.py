"""`lrcssm reproduce --report`: the tables with the results of a store, as one page or as Markdown."""

import functools
import pathlib
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from lrcssm.errors import InvalidValue
from lrcssm.files import write_text

from . import cost, pictures, ranks
from .commands import Reproduce
from .document import Cell, Part, as_markdown, as_page
from .plan import cells
from .records import Record, read_store
from .reproduce import as_published, difference, plus_minus
from .store import Line, lines_of
from .tables import TABLES, Table


def write(options: Reproduce) -> None:
    """Write the selected report."""
    path = pathlib.Path(str(options.report))
    if path.suffix not in (".html", ".md"):
        raise InvalidValue(f"--report got {str(path)!r}; give a file that ends in .html or .md.")
    if not pathlib.Path(options.store).is_dir():
        raise InvalidValue(f"--store got {options.store!r}, which is not a folder; give one that holds results.")
    stored = read_store(options.store)
    names = list(TABLES) if options.table is None else [options.table]
    parts, lines = [], []
    for name in names:
        found = _lines(options, name, stored)
        lines += found
        parts += list(table_parts(name, TABLES[name], found))
    parts += [*iteration_parts(lines), *memory_parts(lines), *environment_parts(stored)]
    render = as_page if path.suffix == ".html" else as_markdown
    write_text(path, render(parts, summary(stored), _newest(stored)))


def _lines(options: Reproduce, name: str, stored: list[Record]) -> list[Line]:
    table = TABLES[name]
    if table.instead is not None:
        return []
    # Of all tables, not each has a name that was given.
    chosen = cells(options, table, lenient=options.table is None)
    found = lines_of(table, chosen, options.seeds, options.steps, stored)
    # A sequential sweep has no iterations to count.
    return [line for line in found if name != "iterations" or not line.results or line.mean("iterations") is not None]


def _newest(stored: list[Record]) -> str:
    """Day of the newest result."""
    dates = [one.result["environment"]["date"][:10] for one in stored if one.result is not None]
    return max(dates, default="Nothing has been run")


def summary(stored: list[Record]) -> list[tuple[str, str]]:
    """Numbers that summarise a store, each with its label."""
    finished = [one for one in stored if one.result is not None]
    seconds = sum(one.result["seconds"] for one in finished if one.result is not None)
    cards = [(f"{len(finished)}", "finished runs"), (cost.in_words(seconds), "of training")]
    cards += [(str(len({one.job.row for one in finished})), "models")]
    cards += [(str(len({one.job.dataset for one in finished})), "data sets")]
    if failed := sum(one.failure is not None for one in stored):
        cards.append((str(failed), "failed"))
    if begun := sum(one.result is None and one.failure is None for one in stored):
        cards.append((str(begun), "begun"))
    return cards


def table_parts(name: str, table: Table, lines: list[Line]) -> Iterable[Part]:
    """A table of the paper: published and ours side by side, each way of running in detail, ranks and cost."""
    if table.instead is not None:
        names, rows, remarks = as_published(table)
        heads = ["<", *(f"{one}<" for one in names)]
        yield Part(table.title, text=[f"As published. Ours: {table.instead}"], heads=heads, rows=rows)
        if remarks or table.notes:
            yield Part("", text=[*remarks, *table.notes])
        return
    unit = f", {table.unit}" if table.unit else ""
    notes = _numbered(lines)
    ours = [line for line in lines if line.results]
    words = ["The published numbers, and ours in bold."] if ours and table.unit else []
    if not ours:
        words = [f"None of it has been run; lrcssm reproduce {name} --plan says what it would take."]
    yield Part(f"{table.title}{unit}", text=words, heads=_matrix_heads(table, lines), rows=_matrix(table, lines, notes))
    if ours:
        yield Part("Ours in detail", 3, heads=_DETAILS, rows=[_detail(table, line, notes) for line in ours])
    yield Part("", 3, text=list(table.notes), notes=[_sentence(note) for note in notes])
    if not table.unit:
        return
    if len({line.model for line in lines}) >= ranks.LEAST and len({line.dataset for line in lines}) >= ranks.LEAST:
        yield from _rank_parts(table, lines)
    if points := _points(ours):
        yield Part(
            "Accuracy against cost" if table.unit == "%" else "Error against cost", 3,
            text=["The mean over the runs of each model, against the time that one of them took to train on the machines named "
                  "at the end, whatever else these had to do."],
            picture=functools.partial(pictures.accuracy_against_cost, points, table.unit),
        )  # fmt: skip


_DETAILS = (
    "model<", "data<", "protocol<", "steps", "solver<", "published", "ours", "difference", "runs", "time a run",
    "iterations", "notes<",
)  # fmt: skip


def _detail(table: Table, line: Line, notes: dict[str, int]) -> list[Cell]:
    count = line.mean("iterations")
    # The table of iterations has no scores.
    scores = (
        [
            plus_minus(line.published, table),
            plus_minus(line.ours, table, len(line.results)),
            difference(line.ours, line.published, table),
        ]
        if table.unit
        else ["–"] * 3
    )
    return [
        line.model, line.dataset, line.protocol, _budget(line), line.solver, *scores,
        f"{len(line.results)} of {line.of}", "–" if line.seconds is None else cost.in_words(line.seconds),
        "–" if count is None else f"{count:.2f}", _marks((*line.notes, *line.remarks), notes),
    ]  # fmt: skip


def _budget(line: Line) -> str:
    if line.steps is None:
        return "–"
    return f"{line.steps:,}" if line.whole in (None, line.steps) else f"{line.steps:,} of {line.whole:,}"


def best(lines: Sequence[Line]) -> Line | None:
    """Choose the way of running a cell to show: the one with most runs, then clean, then with most steps."""
    done = [line for line in lines if line.results]
    return max(done, key=lambda line: (len(line.results), line.protocol == "clean", line.steps or 0), default=None)


def _cells(lines: list[Line]) -> dict[tuple[str, str], list[Line]]:
    cells: dict[tuple[str, str], list[Line]] = {}
    for line in lines:
        cells.setdefault((line.model, line.dataset), []).append(line)
    return cells


def _matrix_heads(table: Table, lines: list[Line]) -> list[str]:
    datasets = dict.fromkeys(line.dataset for line in lines)
    return ["<", *(f"{dataset}<" for dataset in datasets), *(["average<"] if _averaged(table, lines) else [])]


def _averaged(table: Table, lines: list[Line]) -> bool:
    """Tell if a table has an average over its data sets."""
    return table.unit == "%" and len({line.dataset for line in lines}) >= ranks.LEAST


def _average(scores: list[Any], count: int) -> str:
    """Mean and standard error over the data sets, if there is a number for each (except those where a model ran out of memory)."""
    found = [score[0] for score in scores if isinstance(score, tuple)]
    if len(scores) < count or None in scores or len(found) < ranks.LEAST:
        return "–"
    return f"{np.mean(found):.1f} ± {np.std(found, ddof=1) / len(found) ** 0.5:.1f}"


def _matrix(table: Table, lines: list[Line], notes: dict[str, int]) -> list[list[Cell]]:
    cells, rows = _cells(lines), []
    for model in dict.fromkeys(line.model for line in lines):
        general = [note for note in (table.rows[model].notes.get(""),) if note is not None]
        row: list[Cell] = [f"{model} {_marks(general, notes)}".strip()]
        for dataset in dict.fromkeys(line.dataset for line in lines):
            own = cells[model, dataset]
            chosen = best(own)
            if not table.unit:  # the table of iterations
                count = None if chosen is None else chosen.mean("iterations")
                row.append("–" if count is None else f"{count:.2f}")
                continue
            special = [note for note in own[0].notes if note not in general]
            text = f"{plus_minus(own[0].published, table)} {_marks(special, notes)}".strip()
            if chosen is None:
                marks = "" if own[0].published is None else _marks(own[0].remarks, notes)
                row.append(f"{text} {marks}".strip())
                continue
            part = "" if chosen.complete else f"({len(chosen.results)} of {chosen.of}) "
            row.append(
                (
                    text,
                    f"{plus_minus(chosen.ours, table, len(chosen.results))} {part}{_marks(chosen.remarks, notes)}".strip(),
                )
            )
        if set(row[1:]) == {"–"}:
            continue
        if _averaged(table, lines):
            chosen = [best(own) for (name, _), own in cells.items() if name == model]
            shown = [own[0].published for (name, _), own in cells.items() if name == model]
            text = _average(shown, len(row) - 1)
            ours = _average([line.ours for line in chosen if line is not None], len(row) - 1)
            row.append(text if ours == "–" else (text, ours))
        rows.append(row)
    return rows


def _numbered(lines: list[Line]) -> dict[str, int]:
    notes: dict[str, int] = {}
    for line in lines:
        for note in (*line.notes, *line.remarks):
            notes.setdefault(note, len(notes) + 1)
    return notes


def _marks(said: Sequence[str], notes: dict[str, int]) -> str:
    return "".join(f"[{notes[note]}]" for note in said)


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}."


def _rank_parts(table: Table, lines: list[Line]) -> Iterable[Part]:
    """Critical differences of the published numbers and of ours."""
    published: dict[str, dict[str, float]] = {}
    ours: dict[str, dict[str, float]] = {}
    for (model, dataset), own in _cells(lines).items():
        chosen = best([line for line in own if line.complete])
        # A row with our block stands beside the number of another one.
        if isinstance(own[0].published, tuple) and table.rows[model].block == "published":
            published.setdefault(model, {})[dataset] = own[0].published[0]
        if chosen is not None and chosen.ours is not None:
            ours.setdefault(model, {})[dataset] = chosen.ours[0]
    for title, scores, what in (
        ("Average ranks, published", published, "published numbers"),
        ("Average ranks, ours", ours, "all their runs"),
    ):
        if not scores:
            continue
        found = ranks.compare(scores, larger_is_better=table.unit == "%")
        text = ranks.sentences(found, what)
        if found is None:
            yield Part(title, 3, text=text)
            continue
        yield Part(
            title, 3, text=text, picture=functools.partial(pictures.critical_difference, found), drawn=True,
            heads=("model<", "average rank"), rows=[[name, f"{rank:.2f}"] for name, rank in zip(found.names, found.ranks, strict=True)],
        )  # fmt: skip


def _points(lines: list[Line]) -> dict[str, list[tuple[str, float, float]]]:
    """For each data set with at least two models: (model, seconds, score)."""
    points: dict[str, list[tuple[str, float, float]]] = {}
    for (model, dataset), own in _cells(lines).items():
        chosen = best(own)
        if chosen is not None and chosen.ours is not None and chosen.seconds is not None:
            points.setdefault(dataset, []).append((model, chosen.seconds, chosen.ours[0]))
    return {dataset: own for dataset, own in points.items() if len(own) > 1}


def _groups(lines: list[Line], name: str) -> dict[str, Line]:
    """Runs with a given kind of result, by model, data set and steps; runs of several tables once."""
    found: dict[str, Line] = {}
    for line in lines:
        if any(result.get(name) for result in line.results):
            label = f"{line.model}, {line.dataset}" + (f", {line.protocol}" if line.protocol != "clean" else "")
            if not any(other.results == line.results for other in found.values()):
                found[label if label not in found else f"{label}, {line.steps:,} steps, {line.solver}"] = line
    return found


def iteration_parts(lines: list[Line]) -> Iterable[Part]:
    """Newton iterations for each data set and layer."""
    counted = _groups(lines, "iterations")
    if not counted:
        yield Part(
            "Newton iterations",
            text=[
                "No run of this store counted any: a sequential sweep has none. --solver deer trains with Newton's method."
            ],
        )
        return
    layered = {label: line for label, line in counted.items() if line.mean("iterations_by_layer") is not None}
    by_layer = {label: line.mean("iterations_by_layer") for label, line in layered.items()}
    depth = max((len(line.mean("iterations_by_layer")) for line in layered.values()), default=0)
    rows = []
    for label, line in counted.items():
        each = line.mean("iterations_by_layer") if label in layered else ()
        rows.append(
            [label, f"{len(line.results)}", f"{line.mean('iterations'):.2f}", *(f"{count:.2f}" for count in each)]
        )
        rows[-1] += ["–"] * (3 + depth - len(rows[-1]))
    text = ["How many a training step took until the recurrence was solved, on average over steps, cases and runs."]
    if len(layered) < len(counted):
        text.append("Results of earlier versions have no numbers for each layer.")
    yield Part(
        "Newton iterations", text=text, rows=rows,
        heads=("<", "runs", "all layers", *(f"layer {layer + 1}" for layer in range(depth))),
        picture=functools.partial(pictures.iterations, by_layer) if layered else None,
    )  # fmt: skip
    during = {label: [r["iterations_during"] for r in line.results if r.get("iterations_during")]
              for label, line in _groups(lines, "iterations_during").items()}  # fmt: skip
    if during:
        yield Part("While training", 3, text=["Each run has a line for each layer."],
                   picture=functools.partial(pictures.iterations_during, during))  # fmt: skip


def memory_parts(lines: list[Line]) -> Iterable[Part]:
    """Time constants before and after training."""
    found = {label: _over_runs(line) for label, line in _groups(lines, "time_constants").items()}
    if not found:
        yield Part(
            "Time constants", text=["No result of this store has them: earlier versions did not write them down."]
        )
        return
    rows = []
    for label, own in found.items():
        for layer, (before, after) in enumerate(zip(own["before"], own["after"], strict=True), 1):
            steps = []
            for values in (before, after):
                at = dict(zip(own["quantiles"], values, strict=True))
                steps += [_steps(at[50]), f"{_steps(at[10])} to {_steps(at[90])}"]
            rows.append([label, str(layer), *steps])
    yield Part(
        "Time constants",
        text=["How many steps (after patching) a unit remembers along the first test case: −1 over its Lyapunov exponent. "
              "A thick line is the middle half of a layer's units, a thin one the middle four fifths, the dash their median; over "
              "several runs the median of each."],
        heads=("<", "layer", "before: median", "10 to 90 %", "after: median", "10 to 90 %"), rows=rows,
        picture=functools.partial(pictures.time_constants, found), drawn=True,
    )  # fmt: skip


def _over_runs(line: Line) -> dict[str, Any]:
    """The median over runs of each quantile; units that do not forget are infinite."""
    found = [result["time_constants"] for result in line.results if result.get("time_constants")]
    middle = lambda when: np.median(
        [[[np.inf if value is None else value for value in block] for block in one[when]] for one in found], 0
    ).tolist()
    return {"quantiles": found[0]["quantiles"], "before": middle("before"), "after": middle("after")}


def _steps(value: float) -> str:
    if not np.isfinite(value):
        return "∞"
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def environment_parts(stored: list[Record]) -> Iterable[Part]:
    """Machines and versions of the results."""
    kinds: dict[tuple[str, ...], int] = {}
    for one in stored:
        facts = None if one.result is None else one.result.get("environment")
        if facts is not None:
            versions = ", ".join(f"{name} {version}" for name, version in facts["versions"].items())
            kind = (facts["processor"], str(facts["cores"]), facts["backend"], facts["date"][:10], versions)
            kinds[kind] = kinds.get(kind, 0) + 1
    if kinds:
        yield Part(
            "Machines and versions", heads=("processor<", "cores", "backend<", "day<", "versions<", "runs"),
            rows=[[*kind, str(count)] for kind, count in sorted(kinds.items())],
        )  # fmt: skip
