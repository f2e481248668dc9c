"""Rolling-origin evaluation of forecasters, and simple reference forecasters.

At each origin a forecaster is fitted to the values before it and forecasts the values after it.
"""

import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
from sklearn.linear_model import RidgeCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from ..errors import InvalidValue
from .windows import cut, naive_error, seasonal_naive

PENALTIES = np.logspace(-3, 6, 19)
SHARE = 0.6
"""Share of the series before the first origin."""


class SeasonalNaive(NamedTuple):
    """The seasonal naive forecast: repeat the last season, or the last value with a season of 1.

    **Attributes:**

    - `horizon`, `season`: in steps.
    """

    horizon: int
    season: int

    def forecast(self, series: np.ndarray, past: np.ndarray | None, future: np.ndarray | None) -> np.ndarray:
        """Forecast after a series `(time, channels)`, `(horizon, channels)`; covariates are not used."""
        del past, future
        return seasonal_naive(series[None], self.horizon, self.season)[0]


class RidgeOnLags(NamedTuple):
    """Ridge regression of all steps of the horizon on the last values, its penalty by leave-one-out.

    ```python
    import numpy as np
    from lrcssm.estimators.backtest import RidgeOnLags

    y = np.sin(np.arange(100) / 3)[:, None]
    print(RidgeOnLags(horizon=4, season=1).forecast(y, None, None).shape)  # (4, 1)
    ```

    **Attributes:**

    - `horizon`, `season`: in steps; there are as many lags as the longer of them, and at least 12.
    """

    horizon: int
    season: int

    def forecast(self, series: np.ndarray, past: np.ndarray | None, future: np.ndarray | None) -> np.ndarray:
        """Fit and forecast.

        **Arguments:**

        - `series`: `(time, channels)`.
        - `past`: covariates `(time, covariates)`, whose lags are used too.
        - `future`: covariates `(time + horizon, covariates)`.
        """
        count = len(series)
        lags = max(min(max(self.season, self.horizon, 12), count // 3), 1)
        known = [part[:count] for part in (series, past, future) if part is not None]
        begins = np.arange(count - lags - self.horizon + 1)
        if not len(begins):
            raise InvalidValue(f"Ridge on lags got {count} steps; it needs at least {lags + self.horizon}.")
        windows, after = cut(np.concatenate(known, 1), begins, lags, self.horizon)
        last = np.concatenate(known, 1)[None, -lags:]
        columns, row = (part.reshape(len(part), -1) for part in (windows, last))
        if future is not None:
            ahead = after[..., after.shape[2] - future.shape[1] :].reshape(len(after), -1)
            columns = np.concatenate([columns, ahead], 1)
            row = np.concatenate([row, future[count : count + self.horizon].reshape(1, -1)], 1)
        targets = after[..., : series.shape[1]].reshape(len(after), -1)
        model = make_pipeline(StandardScaler(), RidgeCV(alphas=PENALTIES)).fit(columns, targets)
        return np.asarray(model.predict(row)).reshape(self.horizon, series.shape[1])


class Rolled(NamedTuple):
    """Forecasts of one forecaster at all origins.

    **Attributes:**

    - `forecasts`: `(origins, horizon, channels)`.
    - `low`, `high`: ends of intervals, or `None`.
    - `seconds`: of all fits and forecasts.
    """

    forecasts: np.ndarray
    low: np.ndarray | None
    high: np.ndarray | None
    seconds: float


def origins_of(length: int, horizon: int, count: int, share: float = SHARE) -> np.ndarray:
    """Origins in a series: numbers of steps before each forecast, evenly spaced.

    **Arguments:**

    - `length`: steps of the series.
    - `horizon`: steps of a forecast.
    - `count`: origins, at most.
    - `share`: of the series before the first origin.
    """
    first, last = max(round(share * length), 1), length - horizon
    if last < first:
        raise InvalidValue(
            f"A series of {length} steps has no origin with a horizon of {horizon} after {share:.0%} of it; give a longer "
            "series or a smaller horizon."
        )
    return np.unique(np.linspace(first, last, count).round().astype(int))


def backtest(
    make: Callable[[], Any],
    series: np.ndarray,
    origins: np.ndarray,
    *,
    past: np.ndarray | None = None,
    future: np.ndarray | None = None,
    coverage: float | None = None,
    refit: bool = True,
    tell: Callable[[str], None] = lambda text: None,
) -> Rolled:
    """Forecast at every origin.

    **Arguments:**

    - `make`: makes a forecaster: an estimator with `fit` and `predict`, or one with `forecast`.
    - `series`: `(time, channels)`.
    - `origins`: as `origins_of` gives them.
    - `past`, `future`: covariates `(time, covariates)`.
    - `coverage`: of intervals, which the forecaster must then support.
    - `refit`: refit at each origin; otherwise fit at the first one only.
    - `tell`: called with a description of the progress.
    """
    start, found, ends = time.perf_counter(), [], []
    model = make()
    for number, origin in enumerate(origins, 1):
        tell(f"origin {number} of {len(origins)}")
        before = None if past is None else past[:origin]
        if hasattr(model, "forecast"):
            later = None if future is None else future[: origin + model.horizon]
            found.append(model.forecast(series[:origin], before, later))
            continue
        if refit or number == 1:
            here = None if future is None else future[:origin]
            model = make().fit(series[:origin], past_covariates=before, future_covariates=here)
        later = None if future is None else future[: origin + model.horizon_]
        given = {"past_covariates": before, "future_covariates": later}
        found.append(model.predict(series[:origin], **given))
        if coverage is not None:
            ends.append(model.predict_interval(series[:origin], coverage=coverage, **given))
    low, high = (np.stack(part) for part in zip(*ends, strict=True)) if ends else (None, None)
    return Rolled(np.stack(found), low, high, time.perf_counter() - start)


def judge(rolled: Rolled, series: np.ndarray, origins: np.ndarray, season: int) -> dict[str, float | None]:
    """Errors of rolled forecasts: `mae`, `rmse`, `mase` and the `coverage` of intervals (`None` without them).

    **Arguments:**

    - `rolled`: the forecasts.
    - `series`, `origins`: as for `backtest`; missing values are left out.
    - `season`: of the naive forecast whose error before the first origin is the unit of MASE.
    """
    horizon = rolled.forecasts.shape[1]
    truth = np.stack([series[origin : origin + horizon] for origin in origins])
    error, known = rolled.forecasts - truth, ~np.isnan(truth)
    unit = naive_error([series[: origins[0]]], season)
    covered = None
    if rolled.low is not None and rolled.high is not None:
        covered = float(((rolled.low <= truth) & (truth <= rolled.high))[known].mean())
    return {
        "mae": float(np.abs(error)[known].mean()),
        "rmse": float(np.sqrt((error**2)[known].mean())),
        "mase": float(np.abs(error / unit)[known].mean()),
        "coverage": covered,
    }


def compare(scores: Mapping[str, Mapping[str, float | None]], name: str, rival: str) -> float:
    """MAE of a forecaster relative to that of a rival; 1 where both are 0."""
    own, other = scores[name]["mae"] or 0.0, scores[rival]["mae"] or 0.0
    return own / other if other else 1.0 if not own else float("inf")
