"""The pictures of a report, as SVG."""

import io
import re
from collections.abc import Sequence
from typing import Any

import matplotlib
import numpy as np
from matplotlib.figure import Figure

from ..training import Evaluation

BLUE, RED, GREY = "#3b6ea8", "#c0504d", "0.6"


def svg(figure: Figure) -> str:
    """The figure as an element to put into a page."""
    text = io.StringIO()
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": "lrcssm"}):
        figure.savefig(text, format="svg", metadata={"Date": None, "Creator": None})
    found = re.search(r"<svg.*</svg>", text.getvalue(), re.DOTALL)
    assert found is not None
    return found.group()


def learning_curves(history: Sequence[Evaluation], best_step: int) -> Figure:
    """Training loss, and the validation score with the best step marked."""
    steps = [epoch.step for epoch in history]
    figure = Figure(figsize=(8, 3), layout="constrained")
    left, right = figure.subplots(1, 2)
    left.plot(steps, [epoch.loss for epoch in history], color=BLUE)
    left.set(xlabel="step", ylabel="training loss")
    name = next((name for name in ("accuracy", "mse") if history and name in history[-1].scores), None)
    if name is not None:
        right.plot(steps, [epoch.scores[name] for epoch in history], color=RED)
        right.axvline(best_step, color=GREY, linewidth=1, zorder=0)
        right.annotate(
            " best", (best_step, 0.02), xycoords=("data", "axes fraction"), color="0.4", fontsize=8,
            ha="right" if best_step > 0.8 * steps[-1] else "left",
        )  # fmt: skip
        right.set(ylabel=f"validation {'mean squared error' if name == 'mse' else name}")
    right.set(xlabel="step")
    return _tidy(figure)


def iterations(history: Sequence[Evaluation]) -> Figure:
    """The solver's iterations on average, at each look."""
    figure = Figure(figsize=(8, 2.2), layout="constrained")
    axes = figure.subplots()
    axes.plot([epoch.step for epoch in history], [epoch.iterations for epoch in history], color=BLUE)
    axes.set(xlabel="step", ylabel="iterations", ylim=(0, None))
    return _tidy(figure)


def confusion(targets: np.ndarray, guesses: np.ndarray, classes: Sequence[str]) -> Figure:
    """Confusion matrix: cases of each true and predicted class."""
    size = len(classes)
    counts = np.zeros((size, size), int)
    np.add.at(counts, (targets, guesses), 1)
    inches = min(9.0, 2.2 + 0.42 * size)
    figure = Figure(figsize=(inches, inches), layout="constrained")
    axes = figure.subplots()
    shares = counts / np.maximum(counts.sum(1, keepdims=True), 1)
    axes.imshow(shares, cmap="Blues", vmin=0, vmax=1)
    if size <= 30:
        for i, j in np.ndindex(size, size):
            if counts[i, j]:
                axes.text(j, i, str(counts[i, j]), ha="center", va="center", fontsize=8,
                          color="white" if shares[i, j] > 0.5 else "black")  # fmt: skip
        names = [name if len(name) <= 14 else name[:13] + "…" for name in classes]
        axes.set_xticks(range(size), names, rotation=90 if max(map(len, names)) > 3 else 0, fontsize=8)
        axes.set_yticks(range(size), names, fontsize=8)
    axes.set(xlabel="predicted", ylabel="true")
    return figure


def residuals(targets: np.ndarray, outputs: np.ndarray) -> Figure:
    """Predicted against true values, and the distribution of their difference."""
    targets, outputs = targets.reshape(len(targets), -1), outputs.reshape(len(outputs), -1)
    figure = Figure(figsize=(8, 3.4), layout="constrained")
    left, right = figure.subplots(1, 2)
    for k in range(min(targets.shape[1], 8)):
        left.plot(targets[:, k], outputs[:, k], ".", markersize=4, alpha=0.6)
    ends = [min(targets.min(), outputs.min()), max(targets.max(), outputs.max())]
    left.plot(ends, ends, color=GREY, linewidth=1, zorder=0)
    left.set(xlabel="true", ylabel="predicted")
    right.hist((outputs - targets).ravel(), bins=40, color=BLUE)
    right.axvline(0, color=GREY, linewidth=1)
    right.set(xlabel="predicted − true", ylabel="cases")
    return _tidy(figure)


def series(cases: Sequence[np.ndarray], titles: Sequence[str]) -> Figure:
    """A few series side by side, each channel at unit scale."""
    columns = min(3, len(cases))
    rows = -(-len(cases) // columns)
    figure = Figure(figsize=(8, 1.7 * rows), layout="constrained")
    grid = figure.subplots(rows, columns, squeeze=False).ravel()
    for axes, one, title in zip(grid, cases, titles, strict=False):
        shown = one[:, :8]
        thin = shown[:: max(1, len(shown) // 2000)]
        spread = np.maximum(thin.std(0), 1e-12)
        axes.plot(np.arange(0, len(shown), max(1, len(shown) // 2000)), (thin - thin.mean(0)) / spread, linewidth=0.8)
        axes.set_title(title, fontsize=8)
        axes.tick_params(labelsize=7)
    for axes in grid[len(cases) :]:
        axes.set_visible(False)
    return _tidy(figure)


def time_constants(layers: Sequence[np.ndarray], steps: int) -> Figure:
    """Time constants of the units of each block, sorted."""
    figure = Figure(figsize=(8, 2.8), layout="constrained")
    axes = figure.subplots()
    for i, found in enumerate(layers):
        kept = np.sort(found[np.isfinite(found)])
        forever = len(found) - len(kept)
        note = f", {forever} for ever" if forever else ""
        axes.plot(np.arange(len(kept)), kept, ".-", markersize=3, linewidth=0.7, label=f"block {i + 1}{note}")
    axes.axhline(steps, color=GREY, linewidth=1, zorder=0)
    axes.annotate("the sequence's length", (0.01, steps), xycoords=("axes fraction", "data"), fontsize=8, color="0.4",
                  ha="left", va="bottom")  # fmt: skip
    axes.set(yscale="log", xlabel="unit, sorted", ylabel="steps remembered")
    axes.legend(frameon=False, fontsize=8, loc="lower right")
    return _tidy(figure)


def _tidy(figure: Figure) -> Figure:
    for axes in figure.axes:
        axes.spines[["top", "right"]].set_visible(False)
    return figure


def uncertain(outputs: np.ndarray, targets: np.ndarray, classify: bool, count: int = 6) -> Any:
    """The cases that the model is least sure of, or (for numbers) furthest off."""
    if classify:
        ordered = np.sort(outputs, -1)
        return np.argsort(ordered[:, -1] - ordered[:, -2], kind="stable")[:count]
    error = np.abs(outputs - targets.reshape(outputs.shape)).reshape(len(outputs), -1).max(-1)
    return np.argsort(-error, kind="stable")[:count]
