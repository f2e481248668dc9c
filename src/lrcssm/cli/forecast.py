"""`lrcssm forecast`: forecast a series in a table, and evaluate the forecaster by rolling origins."""

import dataclasses
import json
import sys
from typing import Annotated, Any, Literal

import numpy as np

from ..compilation import remember_compilations
from ..data.readers.series import SingleSeries, continued, read_series, uneven
from ..errors import InvalidValue
from ..files import write_text
from ..machine import check_destination
from ..memory import keep_memory
from ..training.predictions import csv_table
from .options import Missing
from .parser import Arg
from .progress import finite


@dataclasses.dataclass(frozen=True)
class Forecast:
    """Forecast a series in a table, with intervals, and score it against the seasonal naive forecast and ridge on lags."""

    source: Annotated[str, Arg("FILE", positional=True)]
    """A table (.csv, .tsv, .txt, .parquet) with a row for each step."""
    horizon: int = 12
    """Steps to forecast."""
    season: Annotated[int | None, Arg("INT")] = None
    """Steps of a season, 1 for none; guessed from the autocorrelation if not given."""
    target: Annotated[tuple[str, ...], Arg("COLUMN")] = ()
    """Columns to forecast; all numeric columns if not given. Other numeric columns are covariates, known up to the last step."""
    time: Annotated[str | None, Arg("COLUMN")] = None
    """Column with times: numbers or dates; none if there is no such column. Guessed if not given."""
    future: Annotated[tuple[str, ...], Arg("COLUMN")] = ()
    """Covariates that are also known for the steps to forecast. Their future values are in rows at the end of the table, with
    empty targets."""
    ignore: Annotated[tuple[str, ...], Arg("COLUMN")] = ()
    """Columns to leave out."""
    method: Literal["ridge", "gradient"] = "ridge"
    """Ridge regression on lags and random liquid states, refitted at each origin; or an LrcSSM that is trained by gradients,
    once, at the first origin, and once more for the forecast."""
    window: Annotated[int | None, Arg("INT")] = None
    """Number of past steps that a forecast uses; chosen from horizon, season and length if not given."""
    missing: Missing = "error"
    """Policy for missing values: raise an error, skip their steps (mask), or carry the last value forward (fill)."""
    origins: int = 8
    """Rolling origins in the last 40 % of the series."""
    coverage: float = 0.9
    """Coverage of the intervals."""
    out: Annotated[str | None, Arg("FILE.csv")] = None
    """File for the forecast; by default NAME-forecast.csv. An existing file is replaced."""
    report: Annotated[str | None, Arg("FILE.html")] = None
    """File for the report; by default NAME-forecast.html. An existing file is replaced."""
    save: Annotated[str | None, Arg("FILE")] = None
    """Also save the fitted forecaster."""
    seed: int = 0
    """Seed of the random units or weights."""
    steps: Annotated[int | None, Arg("INT")] = None
    """Gradient steps, with --method gradient."""
    json: bool = False
    """Print JSON."""

    def __post_init__(self):
        for name in ("horizon", "season", "window", "origins", "steps"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise InvalidValue(f"--{name} got {value}; give a whole number of at least 1.")
        if not 0 < self.coverage < 1:
            raise InvalidValue(f"--coverage got {self.coverage:g}; give a number between 0 and 1, such as 0.9.")
        if self.steps is not None and self.method == "ridge":
            raise InvalidValue("--steps is for gradient steps; give --method gradient, or leave it out.")

    def run(self) -> None:
        """Score, forecast, write the files and print a table or JSON."""
        keep_memory()
        remember_compilations()
        table = read_series(self.source, time=self.time, ignore=self.ignore)
        data = _Data.of(table, self)
        out, page = self.out or f"{table.name}-forecast.csv", self.report or f"{table.name}-forecast.html"
        for path in (out, page, self.save):
            check_destination(path)
        found = _forecast(data, self)
        write_text(out, _csv(data, found))
        write_text(page, _page(data, found, self))
        if self.save is not None:
            found.model.save(self.save)
        files = {"forecast": out, "report": page} | ({} if self.save is None else {"model": self.save})
        if self.json:
            print(json.dumps(finite(_record(data, found, self) | {"files": files})))
        else:
            _print(data, found, self, files)


@dataclasses.dataclass(frozen=True)
class _Data:
    """The series and its covariates."""

    table: SingleSeries
    names: tuple[str, ...]
    values: np.ndarray
    past: np.ndarray | None
    future: np.ndarray | None
    ahead: list[str]
    notes: list[str]

    @classmethod
    def of(cls, table: SingleSeries, options: Forecast) -> "_Data":
        """Columns by their roles, and the steps to forecast."""
        for option, asked in (("target", options.target), ("future", options.future)):
            for name in asked:
                if table.names.count(name) != 1:
                    raise InvalidValue(
                        f"--{option} got {name!r}, which is not the name of one column of numbers; there are "
                        f"{', '.join(table.names)}."
                    )
        names = options.target or tuple(name for name in table.names if name not in options.future)
        if both := set(names) & set(options.future):
            raise InvalidValue(f"{both.pop()!r} was given to --target and to --future; give it to one of them.")
        if not names:
            raise InvalidValue("No column is left to forecast; name one with --target.")
        pick = lambda wanted: table.values[:, [table.names.index(name) for name in wanted]]
        values, others = pick(names), [name for name in table.names if name not in (*names, *options.future)]
        known = np.flatnonzero(~np.isnan(values).all(1))
        if not len(known):
            raise InvalidValue(f"{', '.join(names)} holds no number; name another column with --target.")
        end, notes = int(known[-1]) + 1, []
        future = pick(options.future) if options.future else None
        after = len(table.values) - end
        if future is not None and after < options.horizon:
            raise InvalidValue(
                f"--future needs rows for the {options.horizon} steps to forecast, but {after} rows at the end of the table "
                "have no value of the targets; add rows, or give a smaller --horizon."
            )
        if after and future is None:
            notes.append(f"The last {after} rows have no value to forecast from and are left out.")
        if options.missing == "error" and (gaps := int(np.isnan(values[:end]).sum())):
            raise InvalidValue(
                f"{', '.join(names)} has {gaps} missing values; --missing fill carries the last value forward, --missing mask "
                "skips such steps."
            )
        if uneven(table):
            notes.append("The times between rows differ; rows are treated as equal steps.")
        kept = table._replace(
            values=table.values[:end], times=None if table.times is None else table.times[:end],
            stamps=None if table.stamps is None else table.stamps[:end],
        )  # fmt: skip
        ahead = continued(kept, options.horizon)
        if future is not None and table.stamps is not None:
            ahead = list(table.stamps[end : end + options.horizon])
        past = pick(others)[:end] if others and options.target else None
        return cls(
            kept, names, values[:end], past, None if future is None else future[: end + options.horizon], ahead, notes
        )


@dataclasses.dataclass(frozen=True)
class _Found:
    """The fitted forecaster, its forecast, and scores by rolling origins."""

    model: Any
    forecast: np.ndarray
    low: np.ndarray
    high: np.ndarray
    scores: dict[str, dict[str, float | None]]
    origins: np.ndarray
    rolled: np.ndarray


def _forecast(data: _Data, options: Forecast) -> _Found:
    from ..estimators import LrcRidgeForecaster, LrcSSMForecaster
    from ..estimators.backtest import RidgeOnLags, SeasonalNaive, backtest, judge, origins_of
    from ..estimators.windows import carried_forward
    from ..features.season import guess_season

    values, end = data.values, len(data.values)
    season = guess_season([values]) if options.season is None else options.season
    how: dict[str, Any] = {
        "horizon": options.horizon,
        "season": season,
        "window": options.window,
        "missing": options.missing,
    }
    how["random_state"] = options.seed
    ridge = options.method == "ridge"

    def make() -> Any:
        if ridge:
            return LrcRidgeForecaster(**how)
        more: dict[str, Any] = {} if options.steps is None else {"steps": options.steps}
        return LrcSSMForecaster(method="gradient", **how, **more)

    if not ridge and (data.past is not None or data.future is not None):
        raise InvalidValue(
            "--method gradient takes no covariates; give --method ridge, or leave the other columns out."
        )
    origins = origins_of(end, options.horizon, options.origins)
    name = "LrcRidgeForecaster" if ridge else "LrcSSMForecaster"
    fill: Any = lambda part: None if part is None else carried_forward(part[None])[0]
    rivals = {
        "ridge on lags": RidgeOnLags(options.horizon, season), "seasonal naive": SeasonalNaive(options.horizon, season)
    }  # fmt: skip
    tell = (
        (lambda text: print(f"\r{name}: {text} ", end="", file=sys.stderr))
        if sys.stderr.isatty()
        else lambda text: None
    )
    future = None if data.future is None else data.future[:end]
    own = backtest(
        make, values, origins, past=data.past, future=future, coverage=options.coverage, refit=ridge, tell=tell
    )  # fmt: skip
    if sys.stderr.isatty():
        print("\r\033[K", end="", file=sys.stderr)
    scores = {name: judge(own, values, origins, season)}
    for rival, simple in rivals.items():
        rolled = backtest(
            lambda simple=simple: simple, fill(values), origins, past=fill(data.past), future=fill(future)
        )  # pyright: ignore
        scores[rival] = judge(rolled, values, origins, season)
    model = make().fit(values, past_covariates=data.past, future_covariates=future)
    ahead = None if data.future is None else data.future[end:]
    forecast = model.predict(future_covariates=ahead)
    low, high = model.predict_interval(future_covariates=ahead, coverage=options.coverage)
    return _Found(model, forecast, low, high, scores, origins, own.forecasts)


def _csv(data: _Data, found: _Found) -> str:
    """The forecast as a table."""
    rows = [["time", *(f"{name}{end}" for name in data.names for end in ("", " low", " high"))]]
    for i, when in enumerate(data.ahead):
        cells = (part[i, k] for k in range(len(data.names)) for part in (found.forecast, found.low, found.high))
        rows.append([when, *(f"{cell:.6g}" for cell in cells)])
    return csv_table(rows)


def _season(found: _Found, options: Forecast) -> str:
    season = found.model.season_
    said = "no season" if season == 1 else f"a season of {season} steps"
    return said + (" (guessed from the autocorrelation)" if options.season is None else "")


def _about(data: _Data, found: _Found, options: Forecast) -> str:
    return (
        f"{len(data.values)} steps of {', '.join(data.names)}; {_season(found, options)}. The next {options.horizon} steps, from "
        f"{data.ahead[0]} to {data.ahead[-1]}, with {options.coverage:.0%} intervals."
    )


def _page(data: _Data, found: _Found, options: Forecast) -> str:
    from ..report.forecast import forecast_figure, forecast_page

    stamps = None if data.table.stamps is None else [*data.table.stamps, *data.ahead]
    figure = forecast_figure(
        data.values, found.forecast, found.low, found.high, names=data.names, coverage=options.coverage,
        rolled=found.rolled, origins=found.origins, stamps=stamps,
    )  # fmt: skip
    details = [
        data.table.guess,
        *data.notes,
        f"{len(found.origins)} origins; intervals are conformal, for each step ahead.",
    ]
    return forecast_page(f"Forecast of {data.table.name}", _about(data, found, options), found.scores, figure, details)


def _record(data: _Data, found: _Found, options: Forecast) -> dict[str, Any]:
    rows = [
        {"time": when} | {
            name: {"forecast": found.forecast[i, k], "low": found.low[i, k], "high": found.high[i, k]}
            for k, name in enumerate(data.names)
        }
        for i, when in enumerate(data.ahead)
    ]  # fmt: skip
    return {
        "data": data.table.name, "guess": data.table.guess, "notes": data.notes, "steps": len(data.values),
        "horizon": options.horizon, "season": found.model.season_, "season_guessed": options.season is None,
        "window": found.model.window_, "coverage": options.coverage, "origins": found.origins.tolist(),
        "scores": found.scores, "forecast": rows,
    }  # fmt: skip


def _print(data: _Data, found: _Found, options: Forecast, files: dict[str, str]) -> None:
    from ..report.forecast import cell
    from ..report.table import print_table

    columns = ("mae", "rmse", "mase", "coverage")
    rows = [[name, *(cell(row[one], one) for one in columns)] for name, row in found.scores.items()]
    print_table(
        ("forecaster<", "  MAE", "  RMSE", "  MASE", "  coverage"), rows,
        title=f"{data.table.guess} {_about(data, found, options)}",
        notes=[*data.notes, f"{len(found.origins)} rolling origins. " + " ".join(f"The {what} is in {path}." for what, path in files.items())],
    )  # fmt: skip
