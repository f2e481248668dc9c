"""A training step of every architecture at equal sizes, batch and length.

Every architecture has the block that it was published with (`lrcssm.models.ARCHITECTURES`), LrcSSM and its relatives the
pre-norm block of the linear models; `released` is LrcSSM in the blocks of its released code. With `--published` each has the
configuration that was published for a data set, and these are of very different sizes.
"""

import math
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp

from lrcssm.errors import InvalidValue
from lrcssm.machine import environment
from lrcssm.models import ARCHITECTURES, RELEASED, ModelConfig, SequenceModel, parameter_count
from lrcssm.models.time import options_of
from lrcssm.report.table import doubts, number, print_table

from ..published import DATASETS, SIZES, configured, published, short_name
from . import ModelsBenchmark, ScalingBenchmark
from .record import chosen, make_record, measuring
from .step import arguments, compiled, compiled_in, fresh_compilations, megabytes, too_large
from .timing import interleave, is_uneven, measured, ratio

CHOICES: dict[str, dict[str, Any]] = ARCHITECTURES | {"released": RELEASED}
"""Fields of `ModelConfig` for each name that can be measured."""
COMMON = {"input_dim": 6, "output_dim": 5, "encoder": "linear", "layout": "pre-norm", "dropout": 0.0, "pool": "mean"}
"""Fields of all architectures that do not have their own: channels and classes are those of EigenWorms."""
REFERENCE = "lrcssm"

# Seconds of rounds for each architecture.
_BUDGET = 20.0
# Length from which the time of a long step is estimated before it is compiled.
_PROBE = 256


def configuration(name: str, options: ModelsBenchmark | ScalingBenchmark) -> ModelConfig:
    """An architecture at the sizes of the options, or at those that were published for it."""
    if isinstance(options, ModelsBenchmark) and options.published is not None:
        size = SIZES[_short(options.published)]
        fields = published(name, options.published).model
        return ModelConfig(input_dim=size.channels, output_dim=size.classes, **fields)
    sizes = {each: getattr(options, each) for each in ("hidden_dim", "state_dim", "num_blocks")}
    fields: dict[str, Any] = sizes | COMMON | CHOICES[name] | {"bidirectional": False}
    if "max_length" in options_of(fields.get("cell", "LRC")):  # of learned positions
        longest = options.length if isinstance(options, ModelsBenchmark) else max(options.lengths)
        fields["cell_options"] = dict(fields.get("cell_options", ())) | {"max_length": longest}
    return ModelConfig(**fields)


def measure(options: ModelsBenchmark) -> dict[str, Any]:
    """Measure the architectures.

    **Returns:**

    A record for JSON: `command`, `environment`, `options`, `dtype` and `rows`. Of a row, `step` is the time in
    milliseconds, `to_lrcssm` its best over that of LrcSSM, `compile_s` the time of tracing and compiling, and `memory_mb` the
    arrays beyond the arguments in MB of 10⁶ bytes.
    """
    names, facts, length = chosen_names(options), environment(), options.length
    if options.published is not None:
        short = _short(options.published)
        names, length = [name for name in names if short in configured(name)], SIZES[short].length
    with measuring("--length, --hidden-dim, --state-dim or --batch") as say, fresh_compilations():
        rows = measure_rows(names, length, options, say)
    return make_record("models", options, facts, rows) | {"dtype": jnp.result_type(float).name}


def chosen_names(options: ModelsBenchmark | ScalingBenchmark) -> list[str]:
    """Architectures to measure, LrcSSM first."""
    found = chosen(options.architectures, CHOICES, "architectures", REFERENCE)
    return [REFERENCE, *(name for name in found if name != REFERENCE)]


def _short(dataset: str) -> str:
    name = short_name(dataset)
    if name == "PPG" or name not in DATASETS:
        known = [full for short, full in DATASETS.items() if short != "PPG"]
        raise InvalidValue(f"--published got {dataset!r}; give one of {', '.join(known)}.")
    return name


def _batch(name: str, options: Any) -> int:
    if isinstance(options, ModelsBenchmark) and options.published is not None:
        return published(name, options.published).training["batch"]
    return options.batch


def measure_rows(
    names: list[str], length: int, options: Any, say: Any, shorter: Sequence[dict[str, Any]] = ()
) -> list[dict[str, Any]]:
    """Measure architectures in turn at one length.

    **Arguments:**

    - `names`, `length`, `options`: the architectures and their sizes.
    - `say`: shows progress.
    - `shorter`: rows of shorter sequences, from which times are estimated.

    **Returns:**

    One row for each architecture.
    """
    rows, thunks = {}, {}
    for name in names:
        say(f"{name}, T = {length:,}: compiling")
        rows[name], thunk = _prepare(name, length, options, times_of(shorter, name))
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
    """A row without its time, and the step to time, or `None`; `known` are milliseconds at shorter lengths."""
    row: dict[str, Any] = {
        "architecture": name, "length": length, "batch": _batch(name, options), "parameters": None, "compile_s": None,
        "memory_mb": None, "step": None, "to_lrcssm": None, "note": None,
    }  # fmt: skip
    try:
        model = SequenceModel(configuration(name, options), jax.random.key(0))
    except ImportError as error:
        return row | {"note": f"not measured: {error}"}, None
    row["parameters"] = parameter_count(model)
    if length > _PROBE:
        last, taken = max(known) if known else (_PROBE, 1e3 * _probe(model, row["batch"]))
        seconds = taken / 1e3 * (length / last) ** max(1.0, slope(known) or 1.0)
        if seconds > options.limit:
            return row | {"note": f"not measured, at least {seconds:.0f} s a step; raise --limit to have it"}, None
    given = arguments(model, length, row["batch"])
    step, row["compile_s"] = compiled_in(given)
    row["memory_mb"] = megabytes(step)
    if note := too_large(row["memory_mb"]):
        return row | {"note": note}, None
    return row, lambda: step(*given)


def times_of(rows: Sequence[dict[str, Any]], name: str) -> list[tuple[int, float]]:
    """Lengths at which an architecture was measured, and the milliseconds of a step."""
    return [(row["length"], row["step"]["best_ms"]) for row in rows if row["architecture"] == name and row["step"]]


def slope(points: list[tuple[int, float]]) -> float | None:
    """Power of the length with which a quantity grows between the two longest lengths."""
    if len(points) < 2:
        return None
    (t1, y1), (t2, y2) = sorted(points)[-2:]
    return math.log(y2 / y1) / math.log(t2 / t1)


def _probe(model: SequenceModel, batch: int) -> float:
    """Seconds of a short step."""
    given = arguments(model, _PROBE, batch)
    step = compiled(*given)
    return interleave({"probe": lambda: step(*given)}, rounds=2)["probe"].best


def show(record: dict[str, Any]) -> None:
    """Print a record as a table, and explain its columns."""
    options, facts, rows = record["options"], record["environment"], record["rows"]
    where = f"of the configurations published for {options['published']}, 1,000 of which are the paper's run times"
    if options["published"] is None:
        where = f"at T = {options['length']:,}, {sizes_of(options)}"
    print_table(
        ["architecture<", "batch", "parameters", "comp.\ns", "MB", "step\nms", "to\nLrcSSM"],
        [
            [
                row["architecture"], str(row["batch"]), f"{row['parameters']:,}" if row["parameters"] else "–",
                *map(number, (row["compile_s"], row["memory_mb"], (row["step"] or {}).get("best_ms"), row["to_lrcssm"])),
            ]
            for row in rows
        ],
        title=f"One training step {where}, {record['dtype']}; {facts['processor']}, {facts['cores']} cores",
        notes=notes(record),
    )  # fmt: skip


def sizes_of(options: dict[str, Any]) -> str:
    """Sizes in words."""
    return (
        f"batch {options['batch']}, hidden dimension {options['hidden_dim']}, {options['state_dim']} states, "
        f"{options['num_blocks']} blocks"
    )


def notes(record: dict[str, Any]) -> list[str]:
    """Notes below a table of training steps."""
    rows = record["rows"]
    return [
        *(f"{row['architecture']} at T = {row['length']:,}: {row['note']}." for row in rows if row["note"]),
        "Best times of several rounds, in turn. Comp.: tracing and compiling the step. MB: arrays beyond the arguments, as "
        "planned by XLA.",
        *doubts(record["environment"], [row["architecture"] for row in rows if is_uneven(row["step"])]),
    ]
