"""Forecasters over eight series: errors by rolling origins relative to ridge on lags, coverage of intervals, and time."""

import importlib.util
from collections.abc import Callable
from typing import Any

import numpy as np
from matplotlib.figure import Figure

import lrcssm
from lrcssm.compilation import remember_compilations
from lrcssm.estimators.backtest import RidgeOnLags, SeasonalNaive, backtest, judge, origins_of
from lrcssm.machine import environment
from lrcssm.report.table import doubts, print_table

from . import ForecastBenchmark
from .record import chosen, make_record, progress
from .series import SERIES, Series

RIVAL = "ridge on lags"
FORECASTERS: dict[str, Callable[[int, int, int], Any]] = {
    "LrcRidgeForecaster": lambda horizon, season, seed: lrcssm.LrcRidgeForecaster(
        horizon=horizon, season=season, random_state=seed
    ),
    "LrcRidgeForecaster, season guessed": lambda horizon, season, seed: lrcssm.LrcRidgeForecaster(
        horizon=horizon, random_state=seed
    ),
    "lags without states": lambda horizon, season, seed: lrcssm.LrcRidgeForecaster(
        horizon=horizon, season=season, n_units=0, random_state=seed
    ),
    "LrcSSMForecaster": lambda horizon, season, seed: lrcssm.LrcSSMForecaster(
        horizon=horizon, season=season, method="gradient", random_state=seed
    ),
    RIVAL: lambda horizon, season, seed: RidgeOnLags(horizon, season),
    "seasonal naive": lambda horizon, season, seed: SeasonalNaive(horizon, season),
}
"""Forecasters by name, from horizon, season and seed."""
ONCE = ("LrcSSMForecaster",)
"""Forecasters that are fitted at the first origin only: those that are trained by gradients."""


def measure(options: ForecastBenchmark) -> dict[str, Any]:
    """Evaluate all forecasters on all series by rolling origins.

    **Returns:**

    A record for JSON: `command`, `environment`, `options`, `rows` (one for each forecaster and series), `summary` (see
    `summarise`) and `unavailable`, the series that were left out because a package is not installed.
    """
    facts = environment("aeon", "scikit-learn")
    names, models = chosen(options.series, SERIES, "series"), chosen(options.models, FORECASTERS, "models", RIVAL)
    missing = [name for name in names if SERIES[name].package and not importlib.util.find_spec(SERIES[name].package)]
    remember_compilations()
    rows = []
    with progress() as say:
        for name in names:
            for model in models if name not in missing else ():
                say(f"{name}: {model}")
                rows.append({"series": name, "model": model} | _run(SERIES[name], model, options))
    return make_record("forecast", options, facts, rows) | {"summary": summarise(rows, models), "unavailable": missing}


def _run(series: Series, model: str, options: ForecastBenchmark) -> dict[str, Any]:
    values, past = series.make()
    origins = origins_of(len(values), series.horizon, options.origins)
    make = lambda: FORECASTERS[model](series.horizon, series.season, options.seed)
    ours = model not in (RIVAL, "seasonal naive")
    once = model in ONCE
    rolled = backtest(
        make, values, origins, past=None if once else past, coverage=options.coverage if ours else None, refit=not once
    )
    found = judge(rolled, values, origins, series.season)
    return {"steps": len(values), "horizon": series.horizon, "season": series.season, "origins": len(origins),
            **found, "seconds": rolled.seconds}  # fmt: skip


def summarise(rows: list[dict[str, Any]], models: list[str]) -> list[dict[str, Any]]:
    """Compare each forecaster with ridge on lags.

    **Arguments:**

    - `rows`: results.
    - `models`: names of the forecasters.

    **Returns:**

    For each its name, `model`; `ratios`, its MAE relative to that of ridge on lags by series; their `mean` and geometric mean,
    `geometric`; the number of series where it is `better`; the mean `coverage`; and the `seconds` in all.
    """
    results = {(row["model"], row["series"]): row for row in rows}
    names = list(dict.fromkeys(row["series"] for row in rows))
    found = []
    for model in models:
        ratios = {name: results[model, name]["mae"] / max(results[RIVAL, name]["mae"], 1e-300) for name in names}
        values = np.array(list(ratios.values()))
        covered = [one for name in names if (one := results[model, name]["coverage"]) is not None]
        found.append({
            "model": model, "ratios": ratios, "mean": float(values.mean()),
            "geometric": float(np.exp(np.log(np.maximum(values, 1e-300)).mean())), "better": int((values < 1).sum()),
            "coverage": float(np.mean(covered)) if covered else None,
            "seconds": float(sum(results[model, name]["seconds"] for name in names)),
        })  # fmt: skip
    return found


def show(record: dict[str, Any]) -> None:
    """Print a table of ratios, and one sentence for each forecaster."""
    summary = record["summary"]
    names = list(summary[0]["ratios"]) if summary else []
    mae = {(row["model"], row["series"]): row["mae"] for row in record["rows"]}
    rows: list[list[str] | None] = [
        [name, f"{mae[RIVAL, name]:.4g}", *(f"{one['ratios'][name]:.3f}" for one in summary)] for name in names
    ]
    rows.append(None)
    rows.append(["mean", "", *(f"{one['mean']:.3f}" for one in summary)])
    rows.append(["geometric mean", "", *(f"{one['geometric']:.3f}" for one in summary)])
    rows.append(["coverage", "", *("–" if one["coverage"] is None else f"{one['coverage']:.0%}" for one in summary)])
    rows.append(["seconds", "", *(f"{one['seconds']:.0f}" for one in summary)])
    notes = [
        f"MAE relative to {RIVAL}, over {record['options']['origins']} rolling origins; the first column is its MAE."
    ]
    if record["unavailable"]:
        notes.append(f"Left out, because aeon is not installed: {', '.join(record['unavailable'])}.")
    heads = ("series<", "  MAE", *(f"  {one['model']}" for one in summary))
    print_table(heads, rows, title="Forecasters", notes=[*notes, *doubts(record["environment"], [])])


def draw(record: dict[str, Any]) -> Figure:
    """Draw the ratios of each forecaster, series by series."""
    summary = [one for one in record["summary"] if one["model"] != RIVAL]
    names = list(summary[0]["ratios"])
    figure = Figure(figsize=(8, 3.6), layout="constrained")
    axes = figure.subplots()
    width = 0.8 / len(summary)
    for i, one in enumerate(summary):
        places = np.arange(len(names)) + (i - (len(summary) - 1) / 2) * width
        label = f"{one['model']} (mean {one['mean']:.2f})"
        axes.bar(places, [one["ratios"][name] for name in names], width, label=label)
    axes.axhline(1, color="0.3", linewidth=1)
    axes.set_xticks(range(len(names)), names, rotation=20)
    axes.set(ylabel=f"MAE relative to {RIVAL}")
    axes.spines[["top", "right"]].set_visible(False)
    figure.legend(loc="outside upper center", ncols=min(len(summary), 3), frameon=False, fontsize=8)
    return figure
