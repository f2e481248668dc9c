"""A forecast by ridge regression on lags and random liquid states: an average of choices that rolling origins judged."""

import dataclasses
import json
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ..data import Cases
from ..errors import InvalidValue
from .choices import BASES, Choice, Judged, Problem, averaged, base_forecast, inverse, transformed, transforms
from .lags import LagMap
from .rolling import conformal_margin, rolling_folds
from .units import Design

GROUPS = 32
_MOST_ERRORS = 1000


@dataclasses.dataclass(frozen=True)
class ForecastConfig:
    """Sizes of a `ForecastModel`; `input_dim` counts covariates too, `output_dim` is the horizon times the forecast channels."""

    input_dim: int
    output_dim: int
    horizon: int
    window: int
    season: int
    task: str = "forecast"

    def to_json(self) -> str:
        """All fields as a JSON object."""
        return json.dumps(dataclasses.asdict(self))


class Part(NamedTuple):
    """The weighted sum of all choices with one transform, which is a linear map itself.

    **Attributes:**

    - `transform`: `"log"` or `"linear"`.
    - `share`: of the whole forecast.
    - `map`: from windows to columns.
    - `bases`: weights of the simple forecasts, in the order of `BASES`.
    - `weights`, `intercept`: of the columns, `(columns, outputs)` and `(outputs,)`, in units of the scale of the channels.
    """

    transform: str
    share: float
    map: LagMap
    bases: np.ndarray
    weights: np.ndarray
    intercept: np.ndarray

    @classmethod
    def of(cls, problem: Problem, choices: list[Choice]) -> "Part":
        """Fit choices to all windows, and add them up."""
        own = [choice for choice in choices if choice.transform == problem.transform]
        share = sum(choice.weight for choice in own)
        fits = [problem.fit(choice) for choice in own]
        parts = [choice.weight / share for choice in own]
        weights, intercept = (sum(w * fit[i] for w, fit in zip(parts, fits, strict=True)) for i in range(2))
        bases = np.array([sum(w for w, one in zip(parts, own, strict=True) if one.base == kind) for kind in BASES])
        return cls(problem.transform, share, problem.map, bases, np.asarray(weights), np.asarray(intercept))

    def __call__(self, cases: Cases, future: np.ndarray | None, horizon: int) -> np.ndarray:
        """Forecasts, `(windows, horizon, channels)`."""
        seen = transformed(self.transform, cases, self.map.channels)
        pieces = np.stack(seen.series).astype(np.float64)[..., : self.map.channels]
        # Each window alone, so that no forecast depends, even by rounding, on the others.
        rows = self.map(seen, future).scaled((1.0, 1.0, 1.0, 1.0))
        change = np.stack([row @ self.weights for row in rows]) + self.intercept
        found = change.reshape(len(pieces), horizon, -1) * self.map.scale
        for kind, weight in zip(BASES, self.bases, strict=True):
            if weight:
                found = found + weight * base_forecast(pieces, kind, self.map.season, horizon)
        return inverse(self.transform, found)


@dataclasses.dataclass(frozen=True)
class ForecastModel:
    """Ridge regression from windows to the values after them.

    **Attributes:**

    - `config`: sizes.
    - `parts`: one for each transform; their forecasts are added up.
    - `choices`: what the parts consist of, by weight.
    - `errors`: rolling errors, `(origins, horizon, channels)`; of logarithms if choices that take
        logarithms have most of the weight.
    - `floor`: least value of the forecasts if some choices take logarithms, a tenth of the least value in training; or 0.
    - `judged`: mean absolute errors by rolling origins: `mae`, `lags_mae` (without states) and `naive_mae` (the last season);
        `None` if the series are too short for them.
    """

    config: ForecastConfig
    parts: tuple[Part, ...]
    choices: tuple[Choice, ...]
    errors: np.ndarray
    floor: float
    judged: dict[str, float | None]

    @classmethod
    def fit(
        cls,
        cases: Cases,
        after: np.ndarray,
        *,
        season: int,
        future: np.ndarray | None = None,
        series: np.ndarray | None = None,
        begins: np.ndarray | None = None,
        scale: str = "auto",
        units: int = 256,
        level: bool = True,
        max_time: float | None = None,
        seed: int = 0,
    ) -> "ForecastModel":
        """Judge the choices and fit their average.

        ```python
        import numpy as np
        from lrcssm.data import Cases
        from lrcssm.features import ForecastModel

        y = np.sin(np.arange(200) / 3)
        pieces = np.stack([y[i : i + 30] for i in range(160)])
        model = ForecastModel.fit(Cases.of(pieces[:, :24, None]), pieces[:, 24:, None], season=1, units=32)
        print(model(Cases.of(y[None, -24:, None])).shape)  # (1, 6, 1): one window, 6 steps, 1 channel
        ```

        **Arguments:**

        - `cases`: windows in the order of time, all of one length. The first channels are forecast, the others are covariates.
        - `after`: the values that follow, `(windows, horizon, channels)`.
        - `season`: steps of a season, 1 for none.
        - `future`: covariates at these steps, `(windows, horizon, covariates)`; they are the last channels of `cases`.
        - `series`, `begins`: the number of each window's series, and the step at which it begins; one series of windows at every
            step if not given.
        - `scale`: of the forecast channels: `"linear"`, `"log"`, or `"auto"` for both, weighted as all choices.
        - `units`: random liquid units; 0 for ridge regression on lags.
        - `level`: whether the level of the window may count; without it, a series that is shifted has a forecast that is
            shifted as much.
        - `max_time`: the longest time constant of a unit, in steps; half of the window if not given.
        - `seed`: of the random units.
        """
        windows, horizon, channels = after.shape
        series = np.zeros(windows, int) if series is None else series
        begins = np.arange(windows) if begins is None else begins
        folds = rolling_folds(series, begins, horizon)
        groups = min(GROUPS, max(units, 1))
        how = {
            "known": 0 if future is None else future.shape[2], "season": season, "horizon": horizon,
            "design": Design(groups, max(1, round(units / groups))), "max_time": max_time, "seed": seed,
        }  # fmt: skip
        problems = [Problem.of(name, cases, after, future, **how) for name in transforms(scale, cases, after)]
        tested = np.concatenate([fold.test for fold in folds]) if folds else np.zeros(0, int)
        if folds:
            found = [one for problem in problems for one in problem.judge(folds, states=units > 0, level=level)]
            spacing = max(float(np.median(np.diff(begins))), 1.0) if windows > 1 else 1.0
            count = len(tested) * spacing / horizon
            members = averaged(found, count)
            plain = averaged([one for one in found if not one.choice.states], count)
        else:
            members = plain = [_cautious(problems[0], np.zeros((0, horizon, channels)))]
        forecasts, lags = (sum(one.choice.weight * one.forecasts for one in group) for group in (members, plain))
        naive = inverse(problems[0].transform, problems[0].base("season" if season > 1 else "last"))[tested]
        floor = 0.1 * float(after.min()) if any(one.choice.transform == "log" for one in members) else 0.0
        truth = after[tested]
        mae = lambda guesses: float(np.abs(guesses - truth).mean()) if len(truth) else None
        errors = forecasts - truth
        if _logarithmic([one.choice for one in members]):
            errors = np.log(np.maximum(forecasts, floor)) - np.log(truth)
        if len(errors) > _MOST_ERRORS:
            errors = errors[np.linspace(0, len(errors) - 1, _MOST_ERRORS).astype(int)]
        chosen = [one.choice for one in members]
        parts = tuple(
            Part.of(one, chosen) for one in problems if any(choice.transform == one.transform for choice in chosen)
        )
        config = ForecastConfig(cases.channels, horizon * channels, horizon, len(cases.series[0]), season)
        judged = {"mae": mae(forecasts), "lags_mae": mae(lags), "naive_mae": mae(naive)}
        return cls(config, parts, tuple(chosen), errors, floor, judged)

    def __call__(self, cases: Cases, future: np.ndarray | None = None) -> np.ndarray:
        """Forecasts after windows, `(windows, horizon, channels)`.

        **Arguments:**

        - `cases`: windows.
        - `future`: as for `fit`.
        """
        total = np.sum([part.share * part(cases, future, self.config.horizon) for part in self.parts], 0)
        return np.maximum(total, self.floor) if self.floor else total

    def outputs(self, cases: Cases) -> np.ndarray:
        """Forecasts as rows, `(windows, horizon · channels)`, of a model without future covariates."""
        return self(cases).reshape(len(cases), -1)

    def interval(
        self, cases: Cases, coverage: float, future: np.ndarray | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Ends of conformal intervals, `(windows, horizon, channels)` each.

        **Arguments:**

        - `cases`, `future`: as for `fit`.
        - `coverage`: share of the values that are to lie within.
        """
        margin = margin_of(self.errors, coverage)
        middle = self(cases, future)
        if _logarithmic(self.choices):
            return middle * np.exp(-margin), middle * np.exp(margin)
        return middle - margin, middle + margin

    def parameter_count(self) -> int:
        """Number of fitted numbers: the weights."""
        return sum(part.weights.size + part.intercept.size for part in self.parts)

    def whole(self, **kind: Any) -> str | None:
        """Reason why a sequence cannot be given in pieces, to follow "it"."""
        del kind
        return "takes each window as a whole"

    def to_arrays(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """The model as JSON and arrays by name."""
        about: dict[str, Any] = json.loads(self.config.to_json())
        about |= {
            "floor": self.floor,
            "judged": self.judged,
            "choices": [list(one) for one in self.choices],
            "parts": [],
        }
        arrays = {"errors": self.errors}
        for i, part in enumerate(self.parts):
            config, own = part.map.to_arrays()
            about["parts"].append(config | {"transform": part.transform, "share": part.share})
            own |= {name: getattr(part, name) for name in ("bases", "weights", "intercept")}
            arrays |= {f"{i}.{name}": array for name, array in own.items()}
        return about, arrays

    @classmethod
    def from_arrays(cls, about: dict[str, Any], arrays: dict[str, np.ndarray]) -> "ForecastModel":
        """The inverse of `to_arrays`; raises `ValueError` or `KeyError` if they do not fit together."""
        config = ForecastConfig(**{field.name: about[field.name] for field in dataclasses.fields(ForecastConfig)})
        sizes = [getattr(config, name) for name in ("input_dim", "output_dim", "horizon", "window", "season")]
        if any(type(size) is not int or not 0 < size < 2**31 for size in sizes) or config.task != "forecast":
            raise ValueError("its sizes are not those of a forecast")
        parts = []
        for i, one in enumerate(about["parts"]):
            own = {name.partition(".")[2]: array for name, array in arrays.items() if name.startswith(f"{i}.")}
            fitted = [own.pop(name) for name in ("bases", "weights", "intercept")]
            part = Part(one["transform"], float(one["share"]), LagMap.from_arrays(one, own), *fitted)
            wide = part.map.columns(config.window, config.input_dim, config.horizon)
            fits = part.map.units.mixes.shape[1] == config.input_dim and part.bases.shape == (len(BASES),)
            if (
                not fits
                or part.map.channels * config.horizon != config.output_dim
                or part.transform not in ("linear", "log")
            ):
                raise ValueError("its parts are not those of its configuration")
            if max(part.map.season, part.map.near) > config.window:
                raise ValueError("its season or near steps are longer than its window")
            if part.weights.shape != (wide, config.output_dim) or part.intercept.shape != (config.output_dim,):
                raise ValueError("its weights are not those of its configuration")
            parts.append(part)
        shape = (config.horizon, config.output_dim // config.horizon)
        if not parts or arrays["errors"].shape[1:] != shape:
            raise ValueError("its arrays are not those of its configuration")
        chosen = tuple(Choice(*one) for one in about["choices"])
        if not all(isinstance(choice.weight, int | float) for choice in chosen):
            raise ValueError("its choices have no weights")
        return cls(config, tuple(parts), chosen, arrays["errors"], float(about["floor"]), dict(about["judged"]))


def _logarithmic(choices: Sequence[Choice]) -> bool:
    """True if choices that take logarithms have most of the weight: then errors grow with the values."""
    return sum(choice.weight for choice in choices if choice.transform == "log") >= 0.5


def margin_of(errors: np.ndarray, coverage: float) -> np.ndarray:
    """The conformal margin, or `InvalidValue` if there are too few errors for the coverage."""
    margin = conformal_margin(errors, coverage)
    if margin is not None:
        return margin
    count = len(errors)
    most = f"give at most {np.floor(1000 * count / (count + 1)) / 1000:g}" if count else "give a longer series"
    raise InvalidValue(f"coverage={coverage:g} needs more than the {count} rolling errors there are; {most}.")


def _cautious(problem: Problem, forecasts: np.ndarray) -> Judged:
    """The choice for series too short to judge any: the seasonal naive forecast, little changed."""
    kind = "season" if problem.map.season > 1 else "last"
    return Judged(Choice(problem.transform, kind, 0.0, 0.0, 0.0, 10.0 * len(problem.after), 0.0), forecasts)
