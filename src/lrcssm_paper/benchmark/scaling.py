"""A training step of every architecture over the length of the sequence, and the powers with which time and memory grow."""

from typing import Any

import jax.numpy as jnp
from matplotlib.figure import Figure

from lrcssm.machine import environment
from lrcssm.report.table import number, print_table

from . import ScalingBenchmark
from .models import chosen_names, measure_rows, notes, sizes_of, slope, times_of
from .record import make_record, measuring
from .step import fresh_compilations


def measure(options: ScalingBenchmark) -> dict[str, Any]:
    """Measure the architectures at all lengths.

    **Returns:**

    A record as that of `models.measure`; `exponents` holds for each architecture the slope of the logarithm of time and of
    memory over that of the length, between its two longest measured lengths.
    """
    names, facts, rows = chosen_names(options), environment(), []
    with measuring("--lengths, --hidden-dim, --state-dim or --batch") as say, fresh_compilations():
        for length in sorted(set(options.lengths)):
            ended = {row["architecture"] for row in rows if row["step"] is None}
            rows += measure_rows([name for name in names if name not in ended], length, options, say, rows)
    more = {"dtype": jnp.result_type(float).name, "exponents": exponents(rows)}
    return make_record("scaling", options, facts, rows) | more


def exponents(rows: list[dict[str, Any]]) -> dict[str, dict[str, float | None]]:
    """Powers of the length with which time and memory of each architecture grow at the longest lengths."""
    found = {}
    for name in dict.fromkeys(row["architecture"] for row in rows):
        sizes = [(row["length"], row["memory_mb"]) for row in rows if row["architecture"] == name and row["memory_mb"]]
        found[name] = {"time": slope(times_of(rows, name)), "memory": slope(sizes)}
    return found


def show(record: dict[str, Any]) -> None:
    """Print the time of a step at each length, and the powers."""
    options, facts, rows = record["options"], record["environment"], record["rows"]
    lengths = sorted(set(options["lengths"]))
    times = {(row["architecture"], row["length"]): (row["step"] or {}).get("best_ms") for row in rows}
    print_table(
        ["architecture<", *(f"T = {length:,}\nms" for length in lengths), "time\n~ T^", "memory\n~ T^"],
        [
            [
                name, *(number(times.get((name, length))) for length in lengths),
                *(number(record["exponents"][name][of]) for of in ("time", "memory")),
            ]
            for name in record["exponents"]
        ],
        title=f"One training step over the length, {sizes_of(options)}, {record['dtype']}; {facts['processor']}, "
        f"{facts['cores']} cores",
        notes=[*notes(record), "The powers are those between the two longest lengths that were measured."],
    )  # fmt: skip


def draw(record: dict[str, Any]) -> Figure:
    """Draw the time of a training step of each architecture against the length, the slowest first in the legend."""
    rows = record["rows"]
    lines = {name: points for name in record["exponents"] if (points := times_of(rows, name))}
    figure = Figure(figsize=(7.2, 3.8), layout="constrained")
    axes = figure.subplots()
    # Sorted by the time of a step at the longest length, extrapolated if it was not measured there.
    longest = max(length for line in lines.values() for length, _ in line)
    power = lambda name: record["exponents"][name]["time"]
    last = lambda name: lines[name][-1][1] * (longest / lines[name][-1][0]) ** (power(name) or 1)
    for name in sorted(lines, key=last, reverse=True):
        bold = name == "lrcssm"
        label = name if power(name) is None else f"{name}, T^{power(name):.2f}"
        axes.loglog(*zip(*lines[name], strict=True), "o-", markersize=4, linewidth=2.6 if bold else 1.3, label=label)
    axes.set(xlabel="steps T", ylabel="ms, one training step")
    axes.spines[["top", "right"]].set_visible(False)
    figure.legend(loc="outside right upper", frameon=False, fontsize=9)
    return figure
