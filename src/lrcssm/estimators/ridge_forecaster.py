"""Forecaster by ridge regression on lags and random liquid states."""

from collections.abc import Mapping
from typing import Any, Literal, no_type_check

import numpy as np
from sklearn.base import BaseEstimator

from ..errors import InvalidValue
from ..features import ForecastModel
from ..training import Trained
from .arrays import check_missing, seed_of
from .base import all_or_nothing
from .forecast_inputs import several
from .forecasts import Forecasts
from .saving import Saved
from .windows import Windows, complete, naive_error, positions, window_of

MOST_WINDOWS = 8192
"""Largest number of windows for ridge regression; longer series are sampled evenly."""
N_UNITS = 256


def fit_ridge(forecaster: Any, series: list[np.ndarray], stamps: list[np.ndarray] | None, **how: Any) -> ForecastModel:
    """Ridge regression on windows of series.

    **Arguments:**

    - `forecaster`: with its sizes set.
    - `series`, `stamps`: as returned by its `_given`.
    - `how`: further arguments of `ForecastModel.fit`.
    """
    most = max(MOST_WINDOWS // len(series), 1)
    begins = [positions(len(one), forecaster.window_, forecaster.horizon_, most=most) for one in series]
    every = Windows.of(series, stamps, begins, forecaster.window_, forecaster.horizon_)
    kept = complete(every, forecaster.missing)
    if not kept.any():
        raise InvalidValue(
            f"{type(forecaster).__name__} found no window of {forecaster.window_} steps with {forecaster.horizon_} known values "
            "after it; make the horizon smaller, or fill missing values in."
        )
    windows = every.take(kept)
    return ForecastModel.fit(
        forecaster._cases(windows),
        windows.after[..., : forecaster.n_channels_],
        season=forecaster.season_,
        future=forecaster._future(windows),
        series=np.repeat(np.arange(len(series)), [len(one) for one in begins])[kept],
        begins=np.concatenate(begins)[kept],
        **how,
    )


class LrcRidgeForecaster(Forecasts, Saved, BaseEstimator):
    """Forecaster by ridge regression on lags and the states of random liquid units: fits in seconds, without gradient steps.

    ```python
    import lrcssm, numpy as np

    t = np.arange(300)
    y = np.sin(2 * np.pi * t / 12) + 0.01 * t + 0.1 * np.random.default_rng(0).normal(size=300)
    model = lrcssm.LrcRidgeForecaster(horizon=6, random_state=0).fit(y)
    print(model.season_, model.predict())  # 12, guessed, and the 6 values after the last one
    low, high = model.predict_interval(coverage=0.9)
    ```

    Time is the first axis here: `(n_timepoints,)`, `(n_timepoints, n_channels)`, or a list of such arrays for several series.

    Choices are evaluated by rolling origins: the second half of the windows is forecast by fits to the earlier steps. The
    prediction intervals are computed from the errors of these forecasts.

    **Arguments:**

    - `missing`: policy for NaN: `"error"` raises an error, `"mask"` skips a step where a channel is missing in the units,
        `"fill"` carries the last value forward; both fill the lags. Values to be forecast are never filled in.
    - `horizon`: number of values that are forecast at once. `predict` extends the horizon by using its own forecasts as
        observations.
    - `window`: number of past values that a forecast uses; by default chosen from the horizon, the season and the length.
    - `season`: steps of a season, 1 for none; by default guessed from the autocorrelation.
    - `scale`: `"log"` takes logarithms of the series, `"linear"` does not, `"auto"` evaluates both if all values are positive.
    - `n_units`: random liquid units; 0 for ridge regression on lags alone.
    - `max_time`: the longest time constant of a unit, in steps; by default half of the window.
    - `random_state`: seed; a whole number makes results reproducible.

    **Attributes:**

    - `season_`, `season_guessed_`: the season, and true if it was guessed.
    - `window_`, `horizon_`: number of past values that a forecast uses, and of values that are forecast at once.
    - `choices_`: the `lrcssm.features.choices.Choice` of each ridge regression that the forecast averages, by weight.
    - `rolling_`: mean absolute errors by rolling origins: `mae`, `lags_mae` of ridge regression on lags alone, and `naive_mae` of
        the seasonal naive forecast; `None` for series that are too short.
    - `baseline_`: `naive_mae` of these.
    - `trained_`, `model_`: the `lrcssm.training.Trained` and its `lrcssm.features.ForecastModel`.
    - `tails_`, `stamps_`: the last values of each series, from which `predict` starts, and their times if `fit` had any.
    - `n_channels_`, `n_features_in_`: channels.
    - `n_past_`, `n_future_`: covariates.
    """

    trained_: Trained

    @no_type_check  # parameters are checked in `fit`, not even their types before
    def __init__(
        self,
        *,
        missing: Literal["error", "mask", "fill"] = "error",
        horizon: int = 1,
        window: int | None = None,
        season: int | None = None,
        scale: Literal["auto", "linear", "log"] = "auto",
        n_units: int = N_UNITS,
        max_time: float | None = None,
        random_state: int | np.random.RandomState | None = None,
    ):
        self.missing = missing
        self.horizon = horizon
        self.window = window
        self.season = season
        self.scale = scale
        self.n_units = n_units
        self.max_time = max_time
        self.random_state = random_state

    @property
    def model_(self) -> ForecastModel:
        """The ridge regression."""
        return self.trained_.model

    @property
    def choices_(self) -> tuple[Any, ...]:
        """Choices by rolling origins."""
        return self.model_.choices

    @property
    def rolling_(self) -> dict[str, float | None]:
        """Mean absolute errors by rolling origins."""
        return dict(self.model_.judged)

    @property
    def baseline_(self) -> float | None:
        """Mean absolute error of the seasonal naive forecast by rolling origins."""
        return self.model_.judged["naive_mae"]

    def fit(
        self, X: Any, y: Any = None, times: Any = None, past_covariates: Any = None, future_covariates: Any = None
    ) -> "LrcRidgeForecaster":
        """Choose and fit the ridge regression.

        **Arguments:**

        - `X`: the series.
        - `y`: not used, present for API consistency.
        - `times`: time of each step, for irregular series: `(n_timepoints,)`, or a list of them for several series,
            increasing. The units use the time between steps; the lags count steps.
        - `past_covariates`: further channels `(n_timepoints, n_covariates)` that are not forecast, known up to the last step.
        - `future_covariates`: channels that are also known at the steps to be forecast, such as holidays or plans.
        """
        refuse_target(X, y)
        with all_or_nothing(self):
            for name in ("n_units",):
                value = getattr(self, name)
                if not isinstance(value, int | np.integer) or value < 0:
                    raise InvalidValue(
                        f"{type(self).__name__} got {name}={value!r}; give a whole number of at least 0."
                    )
            if self.scale not in ("auto", "linear", "log"):
                given = f"{type(self).__name__} got scale={self.scale!r}"
                raise InvalidValue(f'{given}; give "auto", "linear" or "log".')
            if self.max_time is not None and not self.max_time >= 1:
                raise InvalidValue(
                    f"{type(self).__name__} got max_time={self.max_time!r}; give a number of steps, at least 1, or None."
                )
            check_missing(self)
            self.single_ = not several(X)
            series, stamps = self._given(X, times, past_covariates, future_covariates, reset=True)
            self._choose_season(series)
            self.window_ = window_of(self, min(len(one) for one in series), self.season_)
            self.horizon_ = int(self.horizon)
            model = fit_ridge(
                self, series, stamps, scale=self.scale, units=int(self.n_units), max_time=self.max_time,
                seed=seed_of(self.random_state),
            )  # fmt: skip
            self.trained_ = Trained(model, missing=self.missing, unit=self.unit_)
            self.naive_error_ = naive_error([one[:, : self.n_channels_] for one in series], self.season_)
            self._keep(series, stamps)
        return self

    def _ahead(self, windows: Windows) -> np.ndarray:
        return self.model_(self._cases(windows), self._future(windows))

    def _ends(self, windows: Windows, coverage: float) -> tuple[np.ndarray, np.ndarray]:
        return self.model_.interval(self._cases(windows), coverage, self._future(windows))

    def _facts(self) -> dict[str, Any]:
        return super()._facts() | self._kept_facts()

    def _arrays(self) -> dict[str, np.ndarray]:
        return self._kept_arrays()

    def _remember(self, facts: dict[str, Any], arrays: Mapping[str, np.ndarray]) -> None:
        super()._remember(facts, arrays)
        self._remember_arrays(arrays)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = self.missing != "error"
        return tags


def refuse_target(X: Any, y: Any) -> None:
    """Raise an error for a `y` given with a series of one axis, as in a call of a scikit-learn regressor."""
    if y is not None and np.ndim(X) == 1 and not several(X):
        raise InvalidValue(
            "fit got an X of one axis and a y: a forecaster takes one series; leave y out, or reshape your data "
            "to (n_timepoints, n_channels)."
        )
