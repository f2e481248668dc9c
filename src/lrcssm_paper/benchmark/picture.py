"""The record of `lrcssm benchmark scaling` as a picture."""

from typing import Any

from matplotlib.figure import Figure


def draw_scaling(record: dict[str, Any]) -> Figure:
    """The time of a training step of each architecture against the length of the sequence, slowest first in the legend."""
    lines = {}
    for row in record["rows"]:
        if row["step"]:
            lines.setdefault(row["architecture"], []).append((row["length"], row["step"]["best_ms"]))
    figure = Figure(figsize=(7.2, 3.8), layout="constrained")
    axes = figure.subplots()
    # By the time that a step would take at the longest length, if it grew on as it does.
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
