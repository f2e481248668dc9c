"""A training step of every architecture at equal width, state, depth, batch and length; and how it grows with the length.

Every architecture has the block that it was published with (`lrcssm.models.ARCHITECTURES`), the same linear encoder
where it has one, and the head that comes from its pool. `released` is LrcSSM in the blocks of its released code. Or each with the
configuration that was published for a data set, which are of very different sizes.
"""

import math
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp

from lrcssm.errors import InvalidValue
from lrcssm.machine import check_destination, environment
from lrcssm.models import ARCHITECTURES, RELEASED, ModelConfig, SequenceModel, parameter_count
from lrcssm.models.time import options_of
from lrcssm.report.table import doubts, number, print_table

from ..published import DATASETS, SIZES, configured, published
from . import ModelsBenchmark, ScalingBenchmark
from .layer import make_record, measuring, ratio, run_benchmark
from .step import arguments, compiled, compiled_in, fresh_compilations, measured, megabytes, too_large
from .timing import interleave

CHOICES: dict[str, dict[str, Any]] = ARCHITECTURES | {"released": RELEASED}
"""What can be measured: fields of `ModelConfig` by name."""
REFERENCE = "lrcssm"
TARGETS = {"s5": 1.0, "lru": 1.3, "linoss-im": 1.6, "linoss-imex": 1.6}
"""What a step may take at most, as a multiple of LrcSSM's at the size of the longest of the paper's data sets."""
TARGET_SIZE = {"length": 17984, "hidden_dim": 64, "state_dim": 16, "num_blocks": 4, "batch": 4}

# Seconds of rounds for each architecture.
_BUDGET = 20.0
# A short step, from which the time of a long one is guessed before it is compiled.
_PROBE = 256


def run(options: ModelsBenchmark) -> None:
    """Measures what the options ask for, prints a table and writes the record."""
    run_benchmark(options, measure, show, keep=not options.return_memory)


def run_scaling(options: ScalingBenchmark) -> None:
    """The same over several lengths, with the exponents of their growth, and a picture."""
    check_destination(options.picture)
    if options.picture is not None and not options.picture.endswith((".png", ".svg", ".pdf")):
        raise InvalidValue(f"--picture got {options.picture!r}; give a file that ends in .png, .svg or .pdf.")

    def measure(options: ScalingBenchmark) -> dict[str, Any]:
        record = measure_scaling(options)
        if options.picture is not None:
            from .picture import draw_scaling

            draw_scaling(record).savefig(options.picture, dpi=150)
        return record

    run_benchmark(options, measure, show_scaling, keep=not options.return_memory)


def configuration(name: str, options: ModelsBenchmark | ScalingBenchmark) -> ModelConfig:
    """An architecture at the sizes that were asked for, or those that were published for it."""
    if isinstance(options, ModelsBenchmark) and options.published is not None:
        size = SIZES[_short(options.published)]
        fields = published(name, options.published).model
        return ModelConfig(input_dim=size.channels, output_dim=size.classes, **fields)
    sizes = {
        "input_dim": options.channels, "output_dim": options.classes, "hidden_dim": options.width, "state_dim": options.state,
        "num_blocks": options.depth, "encoder": "linear",
    }  # fmt: skip
    fields: dict[str, Any] = sizes | CHOICES[name]
    if "max_length" in options_of(fields.get("cell", "LRC")):  # of learned positions
        longest = options.length if isinstance(options, ModelsBenchmark) else max(options.lengths)
        fields["cell_options"] = dict(fields.get("cell_options", ())) | {"max_length": longest}
    return ModelConfig(**fields)


def measure(options: ModelsBenchmark) -> dict[str, Any]:
    """Measures what the options ask for.

    **Returns:**

    A record for JSON: `command`, `environment`, `options`, `dtype` and `rows`. Of a row, `step` is the time in
    milliseconds, `to_lrcssm` its best over that of LrcSSM, `compile_s` what tracing and compiling took, and `memory_mb`
    the arrays beyond the arguments in MB of 10⁶ bytes.
    """
    names, facts, length = _chosen(options.architectures), environment(), options.length
    if options.published is not None:
        short = _short(options.published)
        names, length = [name for name in names if short in configured(name)], SIZES[short].length
    with measuring("--length, --hidden-dim, --state or --batch") as say, fresh_compilations():
        rows = _rows(names, length, options, say)
    return make_record("lrcssm benchmark models", options, facts, rows) | {"dtype": jnp.result_type(float).name}


def _short(dataset: str) -> str:
    """A data set as the tables name it."""
    found = {full: short for short, full in DATASETS.items() if short != "PPG"}
    name = found.get(dataset, dataset)
    if name not in found.values():
        raise InvalidValue(f"--published got {dataset!r}; give one of {', '.join(found)}.")
    return name


def _batch(name: str, options: Any) -> int:
    if isinstance(options, ModelsBenchmark) and options.published is not None:
        return published(name, options.published).training["batch"]
    return options.batch


def measure_scaling(options: ScalingBenchmark) -> dict[str, Any]:
    """As `measure`, over several lengths; `exponents` holds for each architecture the slope of the logarithm of time and
    of memory over that of the length, between its two longest measured lengths."""
    names, facts, rows = _chosen(options.architectures), environment(), []
    with measuring("--lengths, --hidden-dim, --state or --batch") as say, fresh_compilations():
        for length in sorted(set(options.lengths)):
            ended = {row["architecture"] for row in rows if row["step"] is None}
            rows += _rows([name for name in names if name not in ended], length, options, say, rows)
    more = {"dtype": jnp.result_type(float).name, "exponents": exponents(rows)}
    return make_record("lrcssm benchmark scaling", options, facts, rows) | more


def exponents(rows: list[dict[str, Any]]) -> dict[str, dict[str, float | None]]:
    """For each architecture, how time and memory grow at the end of what was measured: as this power of the length."""
    found = {}
    for name in dict.fromkeys(row["architecture"] for row in rows):
        times = _times(rows, name)
        sizes = [(row["length"], row["memory_mb"]) for row in rows if row["architecture"] == name and row["memory_mb"]]
        found[name] = {"time": _slope(times), "memory": _slope(sizes)}
    return found


def _times(rows: Sequence[dict[str, Any]], name: str) -> list[tuple[int, float]]:
    """The lengths at which an architecture was measured, and the milliseconds of a step."""
    return [(row["length"], row["step"]["best_ms"]) for row in rows if row["architecture"] == name and row["step"]]


def _slope(points: list[tuple[int, float]]) -> float | None:
    if len(points) < 2:
        return None
    (t1, y1), (t2, y2) = sorted(points)[-2:]
    return math.log(y2 / y1) / math.log(t2 / t1)


def _chosen(asked: tuple[str, ...]) -> list[str]:
    """The names to measure, LrcSSM first."""
    for name in asked:
        if name not in CHOICES and name != "all":
            raise InvalidValue(f"--architectures got {name!r}; give all, or some of {', '.join(CHOICES)}.")
    return [REFERENCE, *(name for name in CHOICES if name != REFERENCE and (name in asked or "all" in asked))]


def _rows(
    names: list[str], length: int, options: Any, say: Any, shorter: Sequence[dict[str, Any]] = ()
) -> list[dict[str, Any]]:
    """One row for each architecture, all of them timed in turn; `shorter` are the rows of shorter sequences."""
    rows, thunks = {}, {}
    for name in names:
        say(f"{name}, T = {length:,}: compiling")
        rows[name], thunk = _prepare(name, length, options, _times(shorter, name))
        if thunk is not None:
            thunks[name] = thunk
    timings = interleave(
        thunks, rounds=options.rounds, budget=_BUDGET, compiled=True, say=lambda text: say(f"T = {length:,}: {text}")
    )  # fmt: skip
    for name, timing in timings.items():
        rows[name]["step"] = measured(timing)
    for row in rows.values():
        row["to_lrcssm"] = ratio(row["step"], rows[REFERENCE]["step"]) if REFERENCE in rows else None
    return list(rows.values())


def _prepare(name: str, length: int, options: Any, known: list[tuple[int, float]]) -> tuple[dict[str, Any], Any]:
    """A row without its time, and what is to be timed; or why it is not. `known`: milliseconds at shorter lengths."""
    row: dict[str, Any] = {
        "architecture": name, "length": length, "batch": _batch(name, options), "parameters": None, "compile_s": None, "memory_mb": None, "step": None,
        "to_lrcssm": None, "note": None,
    }  # fmt: skip
    try:
        model = SequenceModel(configuration(name, options), jax.random.key(0))
    except ImportError as error:
        return row | {"note": f"not measured: {error}"}, None
    row["parameters"] = parameter_count(model)
    if length > _PROBE:
        last, taken = max(known) if known else (_PROBE, 1e3 * _probe(model, row["batch"]))
        seconds = taken / 1e3 * (length / last) ** max(1.0, _slope(known) or 1.0)
        if seconds > options.limit:
            return row | {"note": f"not measured, at least {seconds:.0f} s a step; raise --limit to have it"}, None
    given = arguments(model, length, row["batch"])
    step, row["compile_s"] = compiled_in(given)
    row["memory_mb"] = megabytes(step)
    if note := too_large(row["memory_mb"]):
        return row | {"note": note}, None
    return row, lambda: step(*given)


def _probe(model: SequenceModel, batch: int) -> float:
    """The seconds of a short step."""
    given = arguments(model, _PROBE, batch)
    step = compiled(*given)
    return interleave({"probe": lambda: step(*given)}, rounds=2)["probe"].best


def show(record: dict[str, Any]) -> None:
    """Prints a record as a table, with what its columns mean and whether the targets are met."""
    options, facts, rows = record["options"], record["environment"], record["rows"]
    print_table(
        ["architecture<", "batch", "parameters", "comp.\ns", "MB", "step\nms", "to\nLrcSSM"],
        [
            [
                row["architecture"], str(row["batch"]), f"{row['parameters']:,}" if row["parameters"] else "–",
                *map(number, (row["compile_s"], row["memory_mb"], (row["step"] or {}).get("best_ms"), row["to_lrcssm"])),
            ]
            for row in rows
        ],
        title=f"One training step {_sizes(options)}, {record['dtype']}; {facts['processor']}, {facts['cores']} cores",
        notes=[*_notes(rows), *doubts(facts, _uneven(rows)), *_verdicts(rows, options)],
    )  # fmt: skip


def _sizes(options: dict[str, Any]) -> str:
    if options["published"] is not None:
        return f"of what was published for {options['published']}, 1,000 of which are the paper's run times"
    return (
        f"at T = {options['length']:,}, batch {options['batch']}, width {options['width']}, state {options['state']}, depth "
        f"{options['depth']}"
    )


def show_scaling(record: dict[str, Any]) -> None:
    """Prints the time of a step at each length and how time and memory grow at the end."""
    options, facts, rows = record["options"], record["environment"], record["rows"]
    lengths = sorted(set(options["lengths"]))
    times = {(row["architecture"], row["length"]): (row["step"] or {}).get("best_ms") for row in rows}
    names = list(dict.fromkeys(row["architecture"] for row in rows))
    print_table(
        ["architecture<", *(f"T = {length:,}\nms" for length in lengths), "time\n~ T^", "memory\n~ T^"],
        [
            [
                name, *(number(times.get((name, length))) for length in lengths),
                *(number(record["exponents"][name][of]) for of in ("time", "memory")),
            ]
            for name in names
        ],
        title=f"One training step over the length, batch {options['batch']}, width {options['width']}, state "
        f"{options['state']}, depth {options['depth']}, {record['dtype']}; {facts['processor']}, {facts['cores']} cores",
        notes=[
            *_notes(rows),
            "The powers are those between the two longest lengths that were measured.",
            *doubts(facts, _uneven(rows)),
        ],
    )  # fmt: skip


def _notes(rows: list[dict[str, Any]]) -> list[str]:
    return [
        *(f"{row['architecture']} at T = {row['length']:,}: {row['note']}." for row in rows if row["note"]),
        "Best times of several rounds, in turn. Comp.: tracing and compiling the step. MB: arrays beyond the arguments, as "
        "planned by XLA.",
    ]


def _uneven(rows: list[dict[str, Any]]) -> list[str]:
    return [
        row["architecture"] for row in rows if row["step"] and row["step"]["median_ms"] > 1.5 * row["step"]["best_ms"]
    ]


def _verdicts(rows: list[dict[str, Any]], options: dict[str, Any]) -> list[str]:
    if options.get("published") is not None or any(options[name] != size for name, size in TARGET_SIZE.items()):
        return []
    published = next((row["to_lrcssm"] for row in rows if row["architecture"] == "released"), None)
    lines = []
    for row in rows:
        target = TARGETS.get(row["architecture"])
        if target is None or row["to_lrcssm"] is None:
            continue
        verdict = lambda ratio, target=target: f"{ratio:.2f} ({'met' if ratio <= target else 'missed'})"
        line = f"{row['architecture']}, target {target:g} times LrcSSM: {verdict(row['to_lrcssm'])}"
        if published:
            line += f"; LrcSSM as it was published: {verdict(row['to_lrcssm'] / published)}"
        lines.append(f"{line}.")
    return lines
