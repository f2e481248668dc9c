"""The report of `lrcssm forecast`: one page with a picture and a table."""

import html
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from .page import head, page, section
from .plots import BLUE, GREY, RED, svg
from .text import plain

_MOST_CHANNELS = 4


def forecast_figure(
    values: np.ndarray,
    forecast: np.ndarray,
    low: np.ndarray,
    high: np.ndarray,
    *,
    names: Sequence[str],
    coverage: float,
    rolled: np.ndarray | None = None,
    origins: np.ndarray | None = None,
    stamps: Sequence[str] | None = None,
) -> Figure:
    """Draw the end of a series, forecasts at rolling origins, and the forecast with its intervals.

    **Arguments:**

    - `values`: `(time, channels)`.
    - `forecast`, `low`, `high`: `(horizon, channels)`.
    - `names`: of the channels.
    - `coverage`: of the intervals.
    - `rolled`, `origins`: forecasts `(origins, horizon, channels)` and the steps before each.
    - `stamps`: times as text, of the series and of the forecast.
    """
    horizon, channels = forecast.shape
    shown = min(channels, _MOST_CHANNELS)
    # Enough of the series to show some of the origins, and not so much that the forecast is a dot.
    begin = max(0, len(values) - max(10 * horizon, 60))
    figure = Figure(figsize=(8, 2.6 * shown + 0.4), layout="constrained")
    grid = figure.subplots(shown, 1, squeeze=False, sharex=True)[:, 0]
    steps, ahead = np.arange(begin, len(values)), np.arange(len(values), len(values) + horizon)
    for i, axes in enumerate(grid):
        axes.plot(steps, values[begin:, i], color="0.25", linewidth=1, label="observed")
        for number, origin in enumerate(origins if origins is not None and rolled is not None else ()):
            if origin >= begin and rolled is not None:
                label = "forecasts at earlier origins" if origin == max(origins) else None  # pyright: ignore
                axes.plot(
                    np.arange(origin, origin + horizon), rolled[number, :, i], color=BLUE, linewidth=1, label=label
                )
        axes.fill_between(
            ahead, low[:, i], high[:, i], color=RED, alpha=0.2, linewidth=0, label=f"{coverage:.0%} interval"
        )
        axes.plot(ahead, forecast[:, i], color=RED, linewidth=1.5, label="forecast")
        axes.axvline(len(values) - 0.5, color=GREY, linewidth=0.8, zorder=0)
        axes.set_ylabel(plain(names[i], 24))
        axes.spines[["top", "right"]].set_visible(False)
    if stamps is not None:
        places = np.linspace(begin, len(stamps) - 1, 6).round().astype(int)
        grid[-1].set_xticks(places, [plain(stamps[place], 20) for place in places])
    else:
        grid[-1].set_xlabel("step")
    handles, labels = grid[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=4, frameon=False, fontsize=9)
    return figure


def forecast_page(
    title: str, about: str, scores: Mapping[str, Mapping[str, Any]], figure: Figure, details: Sequence[str]
) -> str:
    """The page.

    **Arguments:**

    - `title`, `about`: the name of the data, and a sentence or two.
    - `scores`: of each forecaster by rolling origins.
    - `figure`: the result of `forecast_figure`.
    - `details`: further sentences.
    """
    own = next(iter(scores.values()))
    cards = [(f"{own['mae']:.4g}", "mean absolute error"), (f"{own['mase']:.3f}", "MASE")]
    if own["coverage"] is not None:
        cards.append((f"{own['coverage']:.0%}", "of the values within their interval"))
    columns = ("mae", "rmse", "mase", "coverage")
    rows = "".join(
        f"<tr><td>{html.escape(name)}</td>"
        + "".join(f'<td class="n">{cell(row[one], one)}</td>' for one in columns)
        + "</tr>"
        for name, row in scores.items()
    )
    table = f"<table><tr><th></th>{''.join(f'<th class=n>{one.upper() if one != columns[3] else one}</th>' for one in columns)}</tr>{rows}</table>"
    parts = [
        head(title, about, cards),
        section("Forecast", "", svg(figure)),
        section(
            "Rolling origins",
            "At each origin, a forecaster is fitted to the values before it and forecasts the values after it.",
            table,
        ),
        section("Details", "", "".join(f"<p>{html.escape(one)}</p>" for one in details)),
    ]
    return page(title, parts)


def cell(value: float | None, column: str) -> str:
    """A score as text."""
    if value is None:
        return "–"
    return f"{value:.0%}" if column == "coverage" else f"{value:.3f}" if column == "mase" else f"{value:.4g}"
