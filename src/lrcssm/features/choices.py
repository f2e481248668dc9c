"""Choices of a forecast, judged by rolling origins and averaged.

A choice is a simple forecast (the last value, the last season, the level of the window), corrected by a linear map of the window's
columns (see `lags`), or as it is. The penalty of each is the one with the least mean absolute error in the second half of the windows, each
forecast there by a fit on earlier windows (see `rolling`). The forecasts of all choices are averaged with weights that fall with
their errors e as e^(−n), where n is the number of horizons that do not overlap: this is the likelihood of errors with a Laplace
distribution. With few origins many choices keep some weight; with many origins one dominates.
"""

import dataclasses
import itertools
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from ..data import Cases
from ..errors import InvalidValue
from .lags import LagMap, Rows, levels
from .rolling import Fold, Ridge

PENALTIES = np.logspace(-3, 5, 17)
BASES = ("last", "season", "mean")
FAR = (0.0, 1.0)
LEVELS = (0.0, 1.0)
STATES = (0.0, 0.3, 1.0)
_LEAST_WEIGHT = 0.01


class Choice(NamedTuple):
    """One of the forecasts that are averaged.

    **Attributes:**

    - `transform`: `"log"` or `"linear"`, of the forecast channels.
    - `base`: the simple forecast: `"last"`, `"season"` or `"mean"`.
    - `far`, `level`, `states`: factors of these blocks of columns.
    - `penalty`: of the ridge regression; `None` for the simple forecast as it is.
    - `error`: its mean absolute error by rolling origins, in units of the deviation of the series.
    - `weight`: in the average.
    """

    transform: str
    base: str
    far: float
    level: float
    states: float
    penalty: float | None
    error: float
    weight: float = 1.0

    @property
    def factors(self) -> tuple[float, float, float, float]:
        """Factors of the blocks of columns."""
        return 1.0, self.far, self.level, self.states


class Judged(NamedTuple):
    """A choice and its forecasts by rolling origins."""

    choice: Choice
    forecasts: np.ndarray


@dataclasses.dataclass(frozen=True)
class Problem:
    """Training windows under one transform.

    **Attributes:**

    - `transform`: `"log"` or `"linear"`.
    - `map`, `rows`: their columns.
    - `pieces`, `after`: transformed values in the windows and after them, `(windows, time, channels)`.
    - `truth`: the values after them as they are.
    - `unit`: mean absolute deviation of each channel, in which errors are measured.
    """

    transform: str
    map: LagMap
    rows: Rows
    pieces: np.ndarray
    after: np.ndarray
    truth: np.ndarray
    unit: np.ndarray

    @classmethod
    def of(cls, transform: str, cases: Cases, after: np.ndarray, future: Any, **how: Any) -> "Problem":
        """Windows with the values after them; `how` as for `LagMap.of`."""
        seen = transformed(transform, cases, after.shape[2])
        made = LagMap.of(seen, after.shape[2], **how)
        pieces = np.stack(seen.series).astype(np.float64)[..., : after.shape[2]]
        then = np.log(after) if transform == "log" else after
        unit = np.abs(after - np.median(after, (0, 1))).mean((0, 1))
        return cls(transform, made, made(seen, future), pieces, then, after, np.where(unit > 0, unit, 1.0))

    def base(self, kind: str) -> np.ndarray:
        """A simple forecast of all windows."""
        return base_forecast(self.pieces, kind, self.map.season, self.after.shape[1])

    def targets(self, kind: str) -> np.ndarray:
        """Corrections of it, `(windows, outputs)`, in units of the scale of the channels."""
        return ((self.after - self.base(kind)) / self.map.scale).reshape(len(self.after), -1)

    def error(self, forecasts: np.ndarray, which: np.ndarray) -> float:
        """Mean absolute error of forecasts, not transformed; each channel in its unit."""
        return float((np.abs(forecasts - self.truth[which]) / self.unit).mean())

    def judge(self, folds: list[Fold], *, states: bool, level: bool) -> Iterator[Judged]:
        """All choices, each with its best penalty.

        **Arguments:**

        - `folds`: at least one.
        - `states`, `level`: true if random units and the level are to be tried.
        """
        kinds = [kind for kind in BASES if kind != "season" or self.map.season > 1]
        tested = np.concatenate([fold.test for fold in folds])
        bases = [self.base(kind)[tested] for kind in kinds]
        targets = np.concatenate([self.targets(kind) for kind in kinds], 1)
        for kind, base in zip(kinds, bases, strict=True):
            forecasts = inverse(self.transform, base)
            # The last value and the last season are the same under both transforms.
            if self.transform == "linear" or kind == "mean":
                yield Judged(
                    Choice(self.transform, kind, 0.0, 0.0, 0.0, None, self.error(forecasts, tested)), forecasts
                )
        far = FAR if self.rows.far.shape[1] else FAR[:1]
        tried = [
            factors
            for factors in itertools.product(far, LEVELS if level else LEVELS[:1], STATES if states else STATES[:1])
            if not factors[2] or factors[0] == far[-1]  # the states see far steps anyway
        ]
        for factors in tried:
            columns = self.rows.scaled((1.0, *factors))
            paths = [Ridge.of(columns[train], targets[train]).path(columns[test], PENALTIES) for train, test in folds]
            best: dict[str, Judged] = {}
            for penalty, parts in zip(PENALTIES, zip(*paths, strict=True), strict=True):
                changes = np.concatenate(parts).reshape(len(tested), len(kinds), *self.after.shape[1:])
                for i, kind in enumerate(kinds):
                    forecasts = inverse(self.transform, bases[i] + changes[:, i] * self.map.scale)
                    error = self.error(forecasts, tested)
                    if kind not in best or error < best[kind].choice.error:
                        best[kind] = Judged(Choice(self.transform, kind, *factors, float(penalty), error), forecasts)
            yield from best.values()

    def fit(self, choice: Choice) -> tuple[np.ndarray, np.ndarray]:
        """Weights of all columns, `(columns, outputs)`, and intercept of a choice, fitted to all windows."""
        if choice.penalty is None:
            outputs = self.after.shape[1] * self.after.shape[2]
            return np.zeros((sum(block.shape[1] for block in self.rows), outputs)), np.zeros(outputs)
        ridge = Ridge.of(self.rows.scaled(choice.factors), self.targets(choice.base))
        weights, intercept = ridge.weights(choice.penalty)
        whole, start = [], 0
        for block, factor in zip(self.rows, choice.factors, strict=True):
            size = block.shape[1] if factor else 0
            whole.append(
                factor * weights[start : start + size] if factor else np.zeros((block.shape[1], weights.shape[1]))
            )
            start += size
        return np.concatenate(whole), intercept


def averaged(found: list[Judged], count: float) -> list[Judged]:
    """Give weights to choices; those of almost none are left out.

    **Arguments:**

    - `found`: all choices.
    - `count`: number of horizons that do not overlap.
    """
    errors = np.array([max(one.choice.error, 1e-12) for one in found])
    weights = (errors.min() / errors) ** max(count, 1.0)
    weights = np.where(weights >= _LEAST_WEIGHT * weights.max(), weights, 0.0)
    weights /= weights.sum()
    kept = [
        Judged(one.choice._replace(weight=float(weight)), one.forecasts)
        for one, weight in zip(found, weights, strict=True) if weight
    ]  # fmt: skip
    return sorted(kept, key=lambda one: -one.choice.weight)


def base_forecast(pieces: np.ndarray, kind: str, season: int, horizon: int) -> np.ndarray:
    """Repeat the last value, the last season, or the level of windows `(windows, time, channels)`."""
    last = levels(pieces, season) if kind == "mean" else pieces[:, -(season if kind == "season" else 1) :]
    return np.tile(last, (1, -(-horizon // last.shape[1]), 1))[:, :horizon]


def transforms(given: str, cases: Cases, after: np.ndarray) -> tuple[str, ...]:
    """Transforms to try."""
    if given == "linear":
        return ("linear",)
    channels = after.shape[2]
    positive = min(min(float(one[:, :channels].min()) for one in cases.series), float(after.min())) > 0
    if given == "log" and not positive:
        raise InvalidValue('scale="log" needs values above 0, but some are not; give scale="linear".')
    return ("log",) if given == "log" else ("linear", "log") if positive else ("linear",)


def transformed(transform: str, cases: Cases, channels: int) -> Cases:
    """Cases with logarithms of their first channels, or as they are."""
    if transform == "linear":
        return cases
    changed = []
    for one in cases.series:
        if not (one[:, :channels] > 0).all():
            raise InvalidValue(
                'A value of X is not above 0, but the forecaster takes logarithms; fit it with scale="linear".'
            )
        changed.append(np.concatenate([np.log(one[:, :channels].astype(np.float64)), one[:, channels:]], 1))
    return dataclasses.replace(cases, series=tuple(changed))


def inverse(transform: str, values: np.ndarray) -> np.ndarray:
    """Values from transformed ones."""
    return np.exp(values) if transform == "log" else values
