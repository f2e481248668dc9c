"""A forecast by ridge regression on lags and random liquid states, chosen and judged by rolling origins.

A forecast of H steps is a simple forecast (the last value, the last season or the level of the window) and a linear map of the
window's columns (see `lags`). Which simple forecast, logarithms or not, how much the level and the states count, and the penalty
are chosen by the mean absolute error of forecasts in the second half of the windows, each by a fit on what came before (see
`rolling`). The best few choices are averaged. Their errors there are also those of the prediction intervals.
"""

import dataclasses
import itertools
import json
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from ..data import Cases
from ..errors import InvalidValue
from .lags import LagMap, Rows, levels
from .rolling import Fold, Ridge, conformal_margin, rolling_folds
from .units import Design

PENALTIES = np.logspace(-3, 5, 17)
BASES = ("last", "season", "mean")
LEVELS = (0.0, 1.0)
STATES = (0.0, 0.3, 1.0)
TRANSFORMS = ("none", "log")
GROUPS = 32
_MEMBERS = 4
_NEAR = 1.1  # errors of averaged choices, at most, relative to the best
_MOST_ERRORS = 1000


class Choice(NamedTuple):
    """What is chosen by rolling origins.

    **Attributes:**

    - `transform`: `"log"` or `"none"`, of the forecast channels.
    - `base`: the simple forecast: `"last"`, `"season"` or `"mean"`.
    - `level`, `states`: factors of these blocks of columns.
    - `penalty`: of the ridge regression.
    """

    transform: str
    base: str
    level: float
    states: float
    penalty: float

    @property
    def factors(self) -> tuple[float, float, float]:
        """Factors of the blocks of columns."""
        return 1.0, self.level, self.states


class Member(NamedTuple):
    """A choice, fitted: weights `(columns, outputs)` and intercept, in units of the scale of the channels."""

    choice: Choice
    weights: np.ndarray
    intercept: np.ndarray


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


@dataclasses.dataclass(frozen=True)
class ForecastModel:
    """Ridge regression from windows to the values after them.

    **Attributes:**

    - `config`: sizes.
    - `map`: from windows to columns.
    - `members`: fitted choices, the best first; their forecasts are averaged.
    - `errors`: rolling errors of the average, `(origins, horizon, channels)`, of logarithms if `transform` is `"log"`.
    - `judged`: mean absolute errors there: `ours`, `lags` (the best choice without states) and `naive` (the last season).
    """

    config: ForecastConfig
    map: LagMap
    members: tuple[Member, ...]
    errors: np.ndarray
    judged: dict[str, float]

    @property
    def transform(self) -> str:
        """`"log"` or `"none"`."""
        return self.members[0].choice.transform

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
        transform: str = "auto",
        units: int = 256,
        max_time: float | None = None,
        seed: int = 0,
    ) -> "ForecastModel":
        """Choose and fit.

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
        - `transform`: `"none"`, `"log"`, or `"auto"` for the better one.
        - `units`: random liquid units; 0 for ridge regression on lags.
        - `max_time`: the longest time constant of a unit, in steps; half of the window if not given.
        - `seed`: of the random units.
        """
        series = np.zeros(len(after), int) if series is None else series
        begins = np.arange(len(after)) if begins is None else begins
        folds = rolling_folds(series, begins, after.shape[1])
        groups = min(GROUPS, max(units, 1))
        how = {
            "known": 0 if future is None else future.shape[2], "season": season, "max_time": max_time, "seed": seed,
            "design": Design(groups, max(1, round(units / groups))),
        }  # fmt: skip
        tried = [
            _Problem.of(name, cases, after, future, how)
            for name in _transforms(transform, cases, after)
        ]  # fmt: skip
        found = [one for problem in tried for one in problem.judged(folds, units > 0)]
        if not found:
            found = [(0.0, _cautious(tried[0], len(after)), np.zeros((0, *after.shape[1:])))]
        found.sort(key=lambda one: one[0])
        best = next(problem for problem in tried if problem.transform == found[0][1].transform)
        members = _averaged([one for one in found if one[1].transform == best.transform])
        forecasts = np.mean([one[2] for one in members], 0)
        tested = np.concatenate([fold.test for fold in folds]) if folds else np.zeros(0, int)
        naive = best.base("season" if season > 1 else "last")[tested]
        plain = min((one[0] for one in found if not one[1].states), default=0.0)
        judged = {"ours": best.error(forecasts, tested), "lags": plain, "naive": best.error(naive, tested)}
        errors = forecasts - best.after[tested]
        if len(errors) > _MOST_ERRORS:
            errors = errors[np.linspace(0, len(errors) - 1, _MOST_ERRORS).astype(int)]
        config = ForecastConfig(
            cases.channels, after.shape[1] * after.shape[2], after.shape[1], len(cases.series[0]), season
        )
        fitted = tuple(best.member(choice) for _, choice, _ in members)
        return cls(config, best.map, fitted, errors, judged)

    def __call__(self, cases: Cases, future: np.ndarray | None = None) -> np.ndarray:
        """Forecasts after windows, `(windows, horizon, channels)`.

        **Arguments:**

        - `cases`: windows.
        - `future`: as for `fit`.
        """
        return _inverse(self.transform, self._forecast(cases, future))

    def interval(
        self, cases: Cases, coverage: float, future: np.ndarray | None = None
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Forecasts and the ends of their conformal intervals, `(windows, horizon, channels)` each.

        **Arguments:**

        - `cases`, `future`: as for `fit`.
        - `coverage`: share of the values that are to lie within.
        """
        margin = conformal_margin(self.errors, coverage)
        if margin is None:
            count = len(self.errors)
            most = f"give at most {np.floor(1000 * count / (count + 1)) / 1000:g}" if count else "give a longer series"
            raise InvalidValue(f"coverage={coverage:g} is more than {count} rolling errors can tell; {most}.")
        middle = self._forecast(cases, future)
        low, high = middle - margin, middle + margin
        return _inverse(self.transform, middle), _inverse(self.transform, low), _inverse(self.transform, high)

    def _forecast(self, cases: Cases, future: np.ndarray | None) -> np.ndarray:
        """The forecasts, or their logarithms."""
        seen = _transformed(self.transform, cases, self.map.channels)
        rows, pieces = self.map(seen, future), np.stack(seen.series).astype(np.float64)[..., : self.map.channels]
        shape = (len(pieces), self.config.horizon, self.map.channels)
        found = []
        for choice, weights, intercept in self.members:
            columns = rows.scaled(choice.factors)
            # Each window alone, so that no forecast depends, even by rounding, on the others.
            change = np.stack([row @ weights for row in columns]) + intercept
            found.append(
                base_forecast(pieces, choice.base, self.config.season, shape[1])
                + change.reshape(shape) * self.map.scale
            )
        return np.mean(found, 0)

    def parameter_count(self) -> int:
        """Number of fitted numbers: the weights."""
        return sum(member.weights.size + member.intercept.size for member in self.members)

    def whole(self, **kind: Any) -> str | None:
        """Reason why a sequence cannot be given in pieces, to follow "it"."""
        del kind
        return "sees each window as a whole"

    def to_arrays(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """The model as JSON and arrays by name."""
        about, arrays = self.map.to_arrays()
        about |= {"members": [list(one.choice) for one in self.members], "judged": self.judged}
        about |= json.loads(self.config.to_json())
        for i, member in enumerate(self.members):
            arrays |= {f"weights.{i}": member.weights, f"intercept.{i}": member.intercept}
        return about, arrays | {"errors": self.errors}

    @classmethod
    def from_arrays(cls, about: dict[str, Any], arrays: dict[str, np.ndarray]) -> "ForecastModel":
        """The inverse of `to_arrays`; raises `ValueError` or `KeyError` if they do not fit together."""
        config = ForecastConfig(**{field.name: about[field.name] for field in dataclasses.fields(ForecastConfig)})
        own = {name: array for name, array in arrays.items() if not name.startswith(("weights.", "intercept."))}
        errors = own.pop("errors")
        made = LagMap.from_arrays(about, own)
        members = tuple(
            Member(Choice(*choice), arrays[f"weights.{i}"], arrays[f"intercept.{i}"])
            for i, choice in enumerate(about["members"])
        )
        outputs = (config.horizon, made.channels)
        known = made.known * config.horizon
        blocks = config.window * config.input_dim + known, made.channels, made.units.cell.v.size
        for choice, weights, intercept in members:
            wide = sum(size for size, factor in zip(blocks, choice.factors, strict=True) if factor)
            if weights.shape != (wide, config.output_dim) or intercept.shape != weights.shape[1:]:
                raise ValueError("its weights are not those of its configuration")
        if not members or errors.shape[1:] != outputs or outputs[0] * outputs[1] != config.output_dim:
            raise ValueError("its arrays are not those of its configuration")
        return cls(config, made, members, errors, dict(about["judged"]))


def base_forecast(pieces: np.ndarray, kind: str, season: int, horizon: int) -> np.ndarray:
    """A simple forecast of windows `(windows, time, channels)`: the last value, the last season, or the level again and again."""
    last = levels(pieces, season) if kind == "mean" else pieces[:, -(season if kind == "season" else 1) :]
    return np.tile(last, (1, -(-horizon // last.shape[1]), 1))[:, :horizon]


@dataclasses.dataclass(frozen=True)
class _Problem:
    """Windows under one transform, with their columns."""

    transform: str
    map: LagMap
    rows: Rows
    pieces: np.ndarray
    after: np.ndarray
    truth: np.ndarray

    @classmethod
    def of(cls, transform: str, cases: Cases, after: np.ndarray, future: Any, how: dict[str, Any]) -> "_Problem":
        seen = _transformed(transform, cases, after.shape[2])
        made = LagMap.of(seen, after.shape[2], **how)
        pieces = np.stack(seen.series).astype(np.float64)[..., : after.shape[2]]
        then = np.log(after) if transform == "log" else after
        return cls(transform, made, made(seen, future), pieces, then, after)

    def base(self, kind: str) -> np.ndarray:
        return base_forecast(self.pieces, kind, self.map.season, self.after.shape[1])

    def targets(self, kind: str) -> np.ndarray:
        return ((self.after - self.base(kind)) / self.map.scale).reshape(len(self.after), -1)

    def error(self, forecasts: np.ndarray, which: np.ndarray) -> float:
        """Mean absolute error, each channel in units of its mean absolute deviation."""
        if not len(which):
            return 0.0
        unit = np.abs(self.truth - np.median(self.truth, (0, 1))).mean((0, 1))
        error = np.abs(_inverse(self.transform, forecasts) - self.truth[which])
        return float((error / np.where(unit > 0, unit, 1.0)).mean())

    def judged(self, folds: list[Fold], states: bool) -> Iterator[tuple[float, Choice, np.ndarray]]:
        """Rolling error and rolling forecasts of each choice."""
        if not folds:
            return
        kinds = [kind for kind in BASES if kind != "season" or self.map.season > 1]
        tested = np.concatenate([fold.test for fold in folds])
        bases = {kind: self.base(kind)[tested] for kind in kinds}
        targets = np.concatenate([self.targets(kind) for kind in kinds], 1)
        for level, state in itertools.product(LEVELS, STATES if states else (0.0,)):
            columns = self.rows.scaled((1.0, level, state))
            paths = [
                list(Ridge.of(columns[train], targets[train]).path(columns[test], PENALTIES)) for train, test in folds
            ]
            for penalty, parts in zip(PENALTIES, zip(*paths, strict=True), strict=True):
                changes = np.concatenate(parts).reshape(len(tested), len(kinds), *self.after.shape[1:])
                for i, kind in enumerate(kinds):
                    forecasts = bases[kind] + changes[:, i] * self.map.scale
                    choice = Choice(self.transform, kind, level, state, float(penalty))
                    yield self.error(forecasts, tested), choice, forecasts

    def member(self, choice: Choice) -> Member:
        """The choice, fitted to all windows."""
        ridge = Ridge.of(self.rows.scaled(choice.factors), self.targets(choice.base))
        return Member(choice, *ridge.weights(choice.penalty))


def _averaged(found: list[tuple[float, Choice, np.ndarray]]) -> list[tuple[float, Choice, np.ndarray]]:
    """The best choice of each simple forecast and factor of the states, as far as they are nearly as good as the very best."""
    seen: dict[tuple[str, float], tuple[float, Choice, np.ndarray]] = {}
    for one in found:
        seen.setdefault((one[1].base, one[1].states), one)
    return [one for one in itertools.islice(seen.values(), _MEMBERS) if one[0] <= _NEAR * found[0][0]]


def _cautious(problem: _Problem, count: int) -> Choice:
    """The choice for series too short to judge any: the seasonal naive forecast, little changed."""
    kind = "season" if problem.map.season > 1 else "last"
    return Choice(problem.transform, kind, 0.0, 0.0, 10.0 * max(count, 1))


def _transforms(given: str, cases: Cases, after: np.ndarray) -> tuple[str, ...]:
    """Transforms to try."""
    if given == "none":
        return ("none",)
    channels = after.shape[2]
    positive = min(min(float(one[:, :channels].min()) for one in cases.series), float(after.min())) > 0
    if given == "log" and not positive:
        raise InvalidValue('transform="log" needs values above 0, but some are not; give transform="none".')
    return ("log",) if given == "log" else TRANSFORMS if positive else ("none",)


def _transformed(transform: str, cases: Cases, channels: int) -> Cases:
    if transform == "none":
        return cases
    changed = []
    for one in cases.series:
        one = one.astype(np.float64)
        if not (one[:, :channels] > 0).all():
            raise InvalidValue(
                'A value of X is not above 0, but the forecaster takes logarithms; fit it with transform="none".'
            )
        changed.append(np.concatenate([np.log(one[:, :channels]), one[:, channels:]], 1))
    return dataclasses.replace(cases, series=tuple(changed))


def _inverse(transform: str, values: np.ndarray) -> np.ndarray:
    return np.exp(values) if transform == "log" else values
