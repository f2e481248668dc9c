"""Pictures of training, as SVG that follows the colours of the page."""

import io
import re
import warnings
from collections.abc import Sequence

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ..training import Evaluation

BLUE, RED, GREY = "#4a86c8", "#d0605b", "0.6"
NARROW = (3.9, 2.7)
"""Inches of a picture that fits a phone."""
_INK = {"#000000": "ink", "#1a1a1a": "ink", "#333333": "ink", "#666666": "soft", "#ebebeb": "line"}
"""Black and greys as names of colours of the page."""


def svg(figure: Figure) -> str:
    """Draw a figure as an element to put into a page; black becomes the colour of the page's text, backgrounds transparent."""
    figure.patch.set_visible(False)
    for axes in figure.axes:
        axes.patch.set_visible(False)
        if (legend := axes.get_legend()) is not None:
            legend.get_frame().set_visible(False)
    text = io.StringIO()
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": "lrcssm"}), warnings.catch_warnings():
        # The browser has the glyphs that the font of matplotlib lacks.
        warnings.filterwarnings("ignore", message="(?s).*[Gg]lyph.*missing")
        figure.savefig(text, format="svg", metadata={"Date": None, "Creator": None})
    found = re.search(r"<svg.*</svg>", text.getvalue(), re.DOTALL)
    assert found is not None
    drawn = found.group()
    for colour, name in _INK.items():
        drawn = drawn.replace(colour, f"var(--{name})")
    return drawn


def narrow(height: float = NARROW[1], width: float = NARROW[0]) -> tuple[Figure, Axes]:
    """A figure for a phone, without a frame at the top and on the right."""
    figure = Figure(figsize=(width, height), layout="constrained")
    axes = figure.subplots()
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(labelsize=9)
    return figure, axes


def learning_curves(
    history: Sequence[Evaluation], best_step: int, baseline: tuple[str, float] | None = None
) -> list[Figure]:
    """Training loss, and the validation score (if there is one) with the best step and the constant prediction marked."""
    steps = [epoch.step for epoch in history]
    marker = "." if len(steps) < 30 else ""
    figure, axes = narrow()
    axes.plot(steps, [epoch.loss for epoch in history], color=BLUE, marker=marker)
    axes.set(xlabel="step", ylabel="training loss")
    name = next((name for name in ("accuracy", "mse") if history and name in history[-1].scores), None)
    if name is None:
        return [figure]
    second, axes = narrow()
    axes.plot(steps, [epoch.scores[name] for epoch in history], color=RED, marker=marker, label="validation cases")
    axes.axvline(best_step, color=GREY, linewidth=1, zorder=0, label="best step")
    if baseline is not None and baseline[0] == name:
        axes.axhline(baseline[1], color=GREY, linewidth=1, linestyle=":", zorder=0, label="constant prediction")
    axes.set(xlabel="step", ylabel="mean squared error" if name == "mse" else name)
    axes.legend(frameon=False, fontsize=8)
    return [figure, second]


def iterations(history: Sequence[Evaluation]) -> Figure:
    """Mean number of iterations of the solver at each evaluation."""
    figure, axes = narrow(2.2)
    axes.plot([epoch.step for epoch in history], [epoch.iterations for epoch in history], color=BLUE)
    axes.set(xlabel="step", ylabel="iterations", ylim=(0, None))
    return figure


def series(one: np.ndarray) -> Figure:
    """One series, each channel at unit scale, at most eight of them."""
    figure, axes = narrow(1.5, 2.6)
    shown, step = one[:, :8], max(1, len(one) // 1000)
    thin = shown[::step]
    spread = np.maximum(thin.std(0), 1e-12)
    marker = "." if len(thin) < 3 else ""
    axes.plot(np.arange(0, len(shown), step), (thin - thin.mean(0)) / spread, linewidth=0.8, marker=marker)
    axes.tick_params(labelsize=7)
    axes.set_xlabel("step", fontsize=7)
    return figure


def time_constants(layers: Sequence[np.ndarray], steps: int) -> Figure | None:
    """Time constants of the units of each block, sorted; nothing if none is finite."""
    if not any(np.isfinite(found).any() for found in layers):
        return None
    figure, axes = narrow(2.9, 5.2)
    for i, found in enumerate(layers):
        kept = np.sort(found[np.isfinite(found)])
        forever = len(found) - len(kept)
        note = f", {forever} without limit" if forever else ""
        axes.plot(np.arange(len(kept)), kept, ".-", markersize=3, linewidth=0.7, label=f"block {i + 1}{note}")
    axes.axhline(steps, color=GREY, linewidth=1, linestyle=":", zorder=0, label="length of the sequence")
    axes.set(yscale="log", xlabel="unit, sorted", ylabel="steps remembered")
    axes.legend(frameon=False, fontsize=8, loc="best")
    return figure
