"""Pictures of predictions: confusion matrix, reliability diagram, residuals, and matrices of contributions."""

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ..training.reliability import Reliability
from .plots import BLUE, GREY, RED, narrow
from .text import plain

_NAMED = 100
_COUNTED = 30
_FOR, _AGAINST = np.array([74, 134, 200]) / 255, np.array([208, 96, 91]) / 255


def confusion_counts(targets: np.ndarray, guesses: np.ndarray, classes: int) -> np.ndarray:
    """Cases of each true (row) and predicted (column) class."""
    counts = np.zeros((classes, classes), int)
    np.add.at(counts, (targets.astype(int), guesses.astype(int)), 1)
    return counts


def confusion(counts: np.ndarray, classes: Sequence[str]) -> Figure:
    """Confusion matrix: shares of each true class as colours, cases as numbers where there is room."""
    size = len(counts)
    cell = 0.7 if size <= 4 else 0.32 if size <= _COUNTED else 0.16 if size <= _NAMED else 9 / size
    shares = counts / np.maximum(counts.sum(1, keepdims=True), 1)
    texts = np.where(counts > 0, counts.astype(str), "") if size <= _COUNTED else None
    names = list(classes) if size <= _NAMED else None
    figure, axes = matrix(shares, names, names, texts, cell=(cell, cell), strongest=1.0)
    axes.set(xlabel="predicted", ylabel="true")
    return figure


def matrix(
    values: np.ndarray,
    rows: Sequence[str] | None,
    columns: Sequence[str] | None,
    texts: np.ndarray | None = None,
    *,
    cell: tuple[float, float] = (0.5, 0.3),
    strongest: float | None = None,
) -> tuple[Figure, Axes]:
    """Numbers as colours: blue above 0 and red below it, more transparent towards 0.

    **Arguments:**

    - `values`: `(rows, columns)`; NaN is left blank.
    - `rows`, `columns`: names; none are written if not given.
    - `texts`: written into the cells.
    - `cell`: width and height of a cell, in inches.
    - `strongest`: the absolute value with the full colour; by default the largest.
    """
    shown = np.nan_to_num(values)
    top = strongest or max(float(np.abs(shown).max()), 1e-300)
    strength = np.clip(np.abs(shown) / top, 0, 1)
    colours = np.where(shown[..., None] >= 0, _FOR, _AGAINST)
    margin = lambda names: 0.5 + 0.075 * max((len(plain(one, 24)) for one in names or [""]), default=0)
    height, width = shown.shape
    long = columns is not None and max(len(plain(one, 24)) for one in columns) * 0.085 > cell[0]
    size = (
        margin(rows) + cell[0] * width + 0.15,
        (margin(columns) if long else 0.6) + cell[1] * height + 0.15,
    )
    figure = Figure(figsize=(max(size[0], 1.8), max(size[1], 1.2)), layout="constrained")
    axes = figure.subplots()
    axes.imshow(np.concatenate([colours, strength[..., None]], -1), aspect="auto", interpolation="nearest")
    small = 8 if cell[1] >= 0.2 else 6
    for (i, j), value in np.ndenumerate(strength) if texts is not None else ():
        if texts is not None and texts[i, j]:
            colour = "white" if value > 0.6 else "black"
            axes.text(j, i, str(texts[i, j]), ha="center", va="center", fontsize=8, color=colour)
    axes.set_xticks([] if columns is None else range(width), None if columns is None else [plain(one, 24) for one in columns],
                    rotation=90 if long else 0, fontsize=small)  # fmt: skip
    axes.set_yticks([] if rows is None else range(height), None if rows is None else [plain(one, 24) for one in rows],
                    fontsize=small)  # fmt: skip
    axes.spines[:].set_color(GREY)
    return figure, axes


def diagram(found: Reliability) -> Figure:
    """Reliability diagram: the share of right predictions against their probability."""
    figure, axes = narrow(3.3, 3.7)
    axes.plot([0, 1], [0, 1], color=GREY, linewidth=1, linestyle=":", label="perfectly calibrated")
    sizes = 15 + 150 * found.count / found.count.max()
    axes.scatter(found.confidence, found.accuracy, s=sizes, color=BLUE, alpha=0.7, linewidths=0, label="groups of cases",
                 clip_on=False)  # fmt: skip
    axes.set(xlabel="probability of the predicted class", ylabel="share that is right", xlim=(0, 1), ylim=(0, 1))
    axes.set_aspect("equal")
    axes.legend(frameon=False, fontsize=8, loc="upper left")
    return figure


def residuals(targets: np.ndarray, outputs: np.ndarray) -> list[Figure]:
    """Predicted against true values, and the distribution of their difference."""
    targets, outputs = targets.reshape(len(targets), -1), outputs.reshape(len(outputs), -1)
    count = min(targets.shape[1], 8)
    first, axes = narrow(3.2)
    for k in range(count):
        label, colour = (f"output {k}", f"C{k}") if count > 1 else ("cases", BLUE)
        axes.plot(targets[:, k], outputs[:, k], ".", color=colour, markersize=4, alpha=0.6, label=label)
    ends = [min(targets.min(), outputs.min()), max(targets.max(), outputs.max())]
    axes.plot(ends, ends, color=GREY, linewidth=1, zorder=0, label="predicted = true")
    axes.set(xlabel="true", ylabel="predicted")
    axes.legend(frameon=False, fontsize=8)
    second, axes = narrow(3.2)
    axes.hist(
        (outputs - targets).ravel(), bins=min(40, max(5, 2 * int(np.sqrt(outputs.size)))), color=BLUE, label="cases"
    )
    axes.axvline(0, color=RED, linewidth=1, label="no error")
    axes.set(xlabel="predicted − true", ylabel="cases")
    axes.legend(frameon=False, fontsize=8)
    return [first, second]


def uncertain(outputs: np.ndarray, targets: np.ndarray, classify: bool, count: int = 6) -> np.ndarray:
    """Positions of the most uncertain cases or, for numbers, of those with the largest errors."""
    if classify:
        ordered = np.sort(outputs, -1)
        return np.argsort(ordered[:, -1] - ordered[:, -2], kind="stable")[:count]
    error = np.abs(outputs - targets.reshape(outputs.shape)).reshape(len(outputs), -1).max(-1)
    return np.argsort(-error, kind="stable")[:count]
