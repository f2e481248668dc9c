"""Pictures of the paper's tables and of comparisons."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter

from lrcssm.report.plots import BLUE, GREY, RED

from .ranks import Ranks

COLOURS = (BLUE, RED, "#5a9a5a", "#b8860b", "#7a5ea8", "#4aa3a3", "#8c564b", "#555555")


def critical_difference(found: Ranks) -> Figure:
    """Draw average ranks on a line, the best on the left; bars join models that do not differ."""
    figure = Figure(figsize=(8, 0.62 * _rank_height(found)), layout="constrained")
    draw_ranks(figure.subplots(), found)
    return figure


def _rank_height(found: Ranks) -> float:
    return 1.6 + 0.16 * len(found.alike()) + 0.3 * -(-len(found.names) // 2)


def against(axes: Axes, points: Sequence[tuple[float, float]], rival: str, ours: str) -> None:
    """Draw accuracies of two models, a point for each data set; above the diagonal ours is better."""
    axes.plot([0, 1], [0, 1], color=GREY, linewidth=0.8)
    axes.plot(*zip(*points, strict=True), "o", color=BLUE, markersize=4, alpha=0.8) if points else None
    low = max(0.0, min((min(point) for point in points), default=0.0) - 0.05)
    axes.set(xlabel=rival, ylabel=ours, xlim=(low, 1.01), ylim=(low, 1.01), aspect="equal")
    axes.tick_params(labelsize=8)
    axes.spines[["top", "right"]].set_visible(False)


def draw_ranks(axes: Axes, found: Ranks) -> None:
    """Draw the diagram of critical differences."""
    count, bars = len(found.names), found.alike()
    left = -(-count // 2)
    room = 0.8 + 0.16 * len(bars)  # between the line of ranks and the first name
    height = _rank_height(found)
    axes.set(xlim=(1 - 0.42 * (count - 1), count + 0.42 * (count - 1)), ylim=(-height + 0.6, 0.85))
    axes.axis("off")
    axes.plot([1, count], [0, 0], color="0.2", linewidth=1)
    for rank in range(1, count + 1):
        axes.plot([rank, rank], [0, 0.1], color="0.2", linewidth=1)
        axes.text(rank, 0.16, str(rank), ha="center", va="bottom", fontsize=8)
    for i, (name, rank) in enumerate(zip(found.names, found.ranks, strict=True)):
        first = i < left
        y = -room - 0.3 * (i if first else count - 1 - i)
        end = 1 - 0.06 * (count - 1) if first else count + 0.06 * (count - 1)
        axes.plot([rank, rank, end], [0, y, y], color=GREY, linewidth=0.8)
        axes.annotate(
            f"{name}  {rank:.2f}" if first else f"{rank:.2f}  {name}", (end, y), (-5 if first else 5, 0),
            textcoords="offset points", ha="right" if first else "left", va="center", fontsize=9,
        )  # fmt: skip
    for i, (first, last) in enumerate(bars):
        y = -0.3 - 0.16 * i
        axes.plot([found.ranks[first] - 0.03, found.ranks[last] + 0.03], [y, y], color="0.1", linewidth=3,
                  solid_capstyle="butt")  # fmt: skip
    if found.critical < count - 1:
        axes.plot([1, 1 + found.critical], [0.62, 0.62], color=RED, linewidth=2, solid_capstyle="butt")
        axes.annotate(f"critical difference {found.critical:.2f}", (1 + found.critical, 0.62), (6, 0),
                      textcoords="offset points", va="center", fontsize=8)  # fmt: skip


def accuracy_against_cost(points: Mapping[str, Sequence[tuple[str, float, float]]], unit: str) -> Figure:
    """Draw the models of each data set by time and score of a run; `points` are (name, seconds, score)."""
    figure, grid = _panels(points, 2.9)
    for axes, own in zip(grid, points.values(), strict=False):
        seconds, scores = np.array([point[1] for point in own]), np.array([point[2] for point in own])
        axes.plot(seconds, scores, "o", color=BLUE, markersize=5)
        axes.set(xscale="log", xlabel="seconds to train", ylabel=f"test ({unit})" if unit else "test")
        spread = max(scores.max() - scores.min(), 1.0)
        axes.set_ylim(scores.min() - 0.15 * spread, scores.max() + 0.15 * spread)
        axes.set_xlim(seconds.min() / 1.6, seconds.max() * max(1.6, (seconds.max() / seconds.min()) ** 0.5))
        ticks = _round_numbers(*axes.get_xlim())
        axes.set_xticks(ticks, [f"{value:,.6g}" for value in ticks])
        axes.xaxis.set_minor_formatter(NullFormatter())
        heights = _apart((scores - axes.get_ylim()[0]) / (1.3 * spread), 0.07)
        for (name, *_), x, y, at in zip(own, seconds, scores, heights, strict=True):
            at = axes.get_ylim()[0] + at * 1.3 * spread
            axes.annotate(
                name, (x, y), (12, 0), textcoords="offset points", fontsize=8, va="center", color="0.2",
            ) if abs(at - y) < 0.02 * spread else axes.annotate(
                name, (x, y), (x * (axes.get_xlim()[1] / axes.get_xlim()[0]) ** 0.08, at), fontsize=8, va="center",
                color="0.2", arrowprops={"arrowstyle": "-", "color": GREY, "linewidth": 0.6, "shrinkA": 0, "shrinkB": 3},
            )  # fmt: skip
    return figure


def iterations(groups: Mapping[str, np.ndarray]) -> Figure:
    """Draw the Newton iterations of each layer, on average while training, for each group of runs."""
    figure = Figure(figsize=(8, 0.8 + 0.42 * len(groups)), layout="constrained")
    axes = figure.subplots()
    for place, counts in enumerate(groups.values()):
        for layer, count in enumerate(counts):
            axes.plot(count, place, "o", color=COLOURS[layer % len(COLOURS)], markersize=6, alpha=0.9,
                      label=f"layer {layer + 1}")  # fmt: skip
    axes.set_yticks(range(len(groups)), list(groups), fontsize=9)
    axes.set(xlabel="iterations", xlim=(0, None), ylim=(len(groups) - 0.5, -0.5))
    axes.grid(axis="x", color="0.92")
    _legend(figure, [axes])
    return _tidied(figure)


def iterations_during(groups: Mapping[str, Sequence[Any]]) -> Figure:
    """Draw the iterations over the steps of training; each run has a line for each layer."""
    figure, grid = _panels(groups, 2.4)
    for axes, runs in zip(grid, groups.values(), strict=False):
        for run in runs:
            steps = [step for step, _ in run]
            for layer, counts in enumerate(np.array([by_layer for _, by_layer in run]).T):
                axes.plot(steps, counts, color=COLOURS[layer % len(COLOURS)], linewidth=0.9, alpha=0.8,
                          label=f"layer {layer + 1}")  # fmt: skip
        axes.set(xlabel="step", ylabel="iterations", ylim=(0, None))
    _legend(figure, grid)
    return figure


def time_constants(groups: Mapping[str, Mapping[str, Any]]) -> Figure:
    """Draw the time constants of each layer before and after training: the median, half and four fifths of the units."""
    figure, grid = _panels(groups, 2.6)
    for axes, found in zip(grid, groups.values(), strict=False):
        layers = len(found["after"])
        for shift, when, colour in ((-0.14, "before", GREY), (0.14, "after", BLUE)):
            for layer, values in enumerate(found[when]):
                at = dict(zip(found["quantiles"], values, strict=True))
                for low, high, width in ((10, 90, 1.2), (25, 75, 5.0)):
                    axes.plot([layer + 1 + shift] * 2, [at[low], at[high]], color=colour, linewidth=width,
                              solid_capstyle="butt")  # fmt: skip
                axes.plot(layer + 1 + shift, at[50], "_", color="0.1", markersize=9)
            axes.plot([], [], color=colour, linewidth=5, label=when)
        axes.set(yscale="log", xlabel="layer", ylabel="steps remembered", xlim=(0.5, layers + 0.5))
        axes.set_xticks(range(1, layers + 1))
    _legend(figure, grid[:1])
    return figure


def _panels(groups: Mapping[str, Any], height: float) -> tuple[Figure, list[Axes]]:
    """Make an axes for each group, three in a row."""
    columns = min(3, max(2, len(groups)))
    rows = -(-len(groups) // columns)
    figure = Figure(figsize=(8, height * rows), layout="constrained")
    grid = list(figure.subplots(rows, columns, squeeze=False).ravel())
    for axes in grid[len(groups) :]:
        axes.set_visible(False)
    for axes, name in zip(grid, groups, strict=False):
        axes.set_title(name, fontsize=9)
        axes.tick_params(labelsize=8)
    _tidied(figure)
    return figure, grid


def _round_numbers(low: float, high: float, most: int = 4) -> list[float]:
    """Round numbers between two limits of a logarithmic axis, at most `most`."""
    decades = 10.0 ** np.arange(np.floor(np.log10(low)), np.ceil(np.log10(high)) + 1)
    found: list[float] = []
    for parts in ((1,), (1, 3), (1, 2, 5), (1, 1.5, 2, 3, 5, 7)):
        inside = [part * decade for decade in decades for part in parts if low <= part * decade <= high]
        if len(inside) > most:
            break
        found = inside
    return found


def _apart(places: np.ndarray, least: float) -> np.ndarray:
    """Move places apart until neighbours have at least a given distance."""
    order, found = np.argsort(places, kind="stable"), places.astype(float).copy()
    for _ in range(200):
        gaps = np.diff(found[order])
        if (gaps >= least - 1e-9).all():
            break
        push = np.maximum(least - gaps, 0) / 2
        moved = found[order]
        moved[1:] += push
        moved[:-1] -= push
        found[order] = np.clip(moved, 0, 1)
    return found


def _legend(figure: Figure, grid: Sequence[Axes]) -> None:
    """Add one legend for all axes, above them."""
    known: dict[str, Any] = {}
    for axes in grid:
        handles, labels = axes.get_legend_handles_labels()
        known = dict(zip(labels, handles, strict=True)) | known
    names = sorted(known) if len(grid) > 1 else list(known)
    figure.legend(
        [known[name] for name in names], names, frameon=False, fontsize=8, loc="outside upper right",
        ncols=min(len(known), 8),
    )  # fmt: skip


def _tidied(figure: Figure) -> Figure:
    for axes in figure.axes:
        axes.spines[["top", "right"]].set_visible(False)
    return figure
