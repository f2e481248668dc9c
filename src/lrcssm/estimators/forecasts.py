"""Forecasters: from series and covariates to windows, forecasts, intervals and scores."""

import abc
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ..errors import InvalidValue, PredictionError
from .forecast_inputs import ForecastInputs, is_flat, several
from .windows import Windows, positions, seasonal_naive, usable


class Forecasts(ForecastInputs):
    """Methods of a forecaster that do not depend on its model."""

    @abc.abstractmethod
    def _ahead(self, windows: Windows) -> np.ndarray:
        """Forecasts of `horizon_` steps after windows, `(cases, horizon, channels)`."""

    @abc.abstractmethod
    def _ends(self, windows: Windows, coverage: float) -> tuple[np.ndarray, np.ndarray]:
        """Ends of their intervals."""

    def predict(
        self, X: Any = None, horizon: int | None = None, times: Any = None, past_covariates: Any = None,
        future_covariates: Any = None,
    ) -> Any:  # fmt: skip
        """Forecast the next values.

        **Arguments:**

        - `X`: the series, or list of series, whose next values are wanted, of at least `window_` steps; `None` for those
            of the training and all updates since. Missing steps at its end are forecast too.
        - `horizon`: number of steps; `None` for the horizon of training. Further steps continue from the model's own forecasts.
        - `times`: of `X`, if `fit` had times.
        - `past_covariates`: of `X`, if `fit` had them.
        - `future_covariates`: if `fit` had them, those of `X` and of the steps to be forecast, one after the other; without `X`
            those of the steps to be forecast. At least `horizon_` steps.

        **Returns:**

        `(horizon,)` for a series of one axis, `(horizon, n_channels)` for one of two, or a list of them.
        """
        horizon = self._asked(horizon)
        windows, known, gaps, single, flat = self._last_windows(X, horizon, times, past_covariates, future_covariates)
        with np.errstate(over="ignore", invalid="ignore"):
            found = _finite(self._roll(windows, known, horizon + max(gaps)), windows)
        return _shaped([one[gap : gap + horizon] for one, gap in zip(found, gaps, strict=True)], single, flat)

    def predict_interval(
        self, X: Any = None, horizon: int | None = None, times: Any = None, past_covariates: Any = None,
        future_covariates: Any = None, *, coverage: float = 0.9,
    ) -> tuple[Any, Any]:  # fmt: skip
        """Intervals of the next values: conformal, from the errors of forecasts of the training series whose values were not used
        for them, separately for each step ahead.

        **Arguments:**

        - `X`, `times`, `past_covariates`, `future_covariates`: as for `predict`.
        - `horizon`: number of steps; at most the horizon of training, which is the default.
        - `coverage`: nominal share of the values within the interval.

        **Returns:**

        The lower and the upper ends, each in the shape of `predict`.
        """
        horizon = self._asked(horizon)
        if not 0 < coverage < 1:
            raise InvalidValue(f"predict_interval got coverage={coverage!r}; give a number between 0 and 1.")
        windows, _, gaps, single, flat = self._last_windows(X, horizon, times, past_covariates, future_covariates)
        if horizon + max(gaps) > self.horizon_:
            raise InvalidValue(
                f"predict_interval got horizon={horizon}; the errors of training cover {self.horizon_ - max(gaps)} steps "
                "after the end; fit with a larger horizon."
            )
        with np.errstate(over="ignore", invalid="ignore"):
            low, high = (_finite(end, windows) for end in self._ends(windows, coverage))
        cut = lambda part: [one[gap : gap + horizon] for one, gap in zip(part, gaps, strict=True)]
        return _shaped(cut(low), single, flat), _shaped(cut(high), single, flat)

    def update(
        self, X: Any, times: Any = None, past_covariates: Any = None, future_covariates: Any = None
    ) -> Any:  # fmt: skip
        """Append new observations, without learning from them: forecasts start after them.

        **Arguments:**

        - `X`: the values after the training series; for several series, a list with the next values of each.
        - `times`, `past_covariates`, `future_covariates`: of `X`, if `fit` had them.
        """
        check_is_fitted(self, "trained_")
        new, stamps = self._given(X, times, past_covariates, future_covariates, reset=False)
        if len(new) != len(self.tails_):
            raise InvalidValue(
                f"update got {len(new)} series, but fit had {len(self.tails_)}; give the next values of each."
            )
        series = [np.concatenate(both) for both in zip(self.tails_, new, strict=True)]
        if stamps is not None and self.stamps_ is not None:
            stamps = [np.concatenate(both) for both in zip(self.stamps_, stamps, strict=True)]
        self._keep(series, self._stamps(stamps, series, reset=False))
        return self

    def score(
        self, X: Any, y: Any = None, times: Any = None, past_covariates: Any = None, future_covariates: Any = None
    ) -> float:
        """The skill 1 − MAE / MAE of the seasonal naive forecast: 1 is perfect, 0 no better than the naive forecast.

        **Arguments:**

        - `X`, `times`, `past_covariates`, `future_covariates`: as for `scores`.
        - `y`: not used.
        """
        del y
        found = self.scores(X, times, past_covariates, future_covariates)
        return 1 - found["mae"] / found["naive_mae"] if found["naive_mae"] > 0 else float(found["mae"] == 0)

    def scores(
        self, X: Any, times: Any = None, past_covariates: Any = None, future_covariates: Any = None
    ) -> dict[str, float]:
        """Errors of the forecasts of `horizon_` values from every place in a series that has a whole window before it; missing
        values are left out.

        **Arguments:**

        - `X`: a series, or a list of them, of at least `window_ + horizon_` steps. The first window is not scored.
        - `times`, `past_covariates`, `future_covariates`: of `X`, if `fit` had them.

        **Returns:**

        `mse`, `mae` and `mase`, and `naive_mse`, `naive_mae` and `naive_mase` of the seasonal naive forecast.
        """
        check_is_fitted(self, "trained_")
        series, stamps = self._given(X, times, past_covariates, future_covariates, reset=False)
        for i, one in enumerate(series):
            if len(one) < self.window_ + self.horizon_:
                name = f"series {i}" if several(X) else "a series"
                raise InvalidValue(
                    f"scores got {name} of {len(one)} steps; it needs at least {self.window_ + self.horizon_}, a window of "
                    f"{self.window_} and a horizon of {self.horizon_}."
                )
        begins = [positions(len(one), self.window_, self.horizon_) for one in series]
        windows = self._windows(series, stamps, begins)
        after = windows.after[..., : self.n_channels_]
        kept = ~np.isnan(after).all((1, 2))
        windows, after = windows.take(kept), after[kept]
        if not len(after):
            raise InvalidValue(
                f"scores found no window of {self.window_} steps with a known value after it; fill some in."
            )
        naive = seasonal_naive(windows.pieces[..., : self.n_channels_], self.horizon_, self.season_)
        return self._errors(self._ahead(windows) - after, "") | self._errors(naive - after, "naive_")

    def _asked(self, horizon: Any) -> int:
        check_is_fitted(self, "trained_")
        horizon = self.horizon_ if horizon is None else horizon
        if not isinstance(horizon, int | np.integer) or horizon < 1:
            raise InvalidValue(f"predict got horizon={horizon!r}; give a whole number of at least 1.")
        return int(horizon)

    def _last_windows(
        self, X: Any, horizon: int, times: Any, past: Any, future: Any
    ) -> tuple[Windows, list[np.ndarray] | None, list[int], bool, bool]:
        """The last window of each series, the known values after it, the number of missing steps in between, and the form of `X`."""
        ahead = max(horizon, self.horizon_)
        if X is None:
            series, stamps, single, flat = self.tails_, self.stamps_, self.single_, self.flat_
            if past is not None:
                raise InvalidValue("predict got past_covariates without X; give both, or call update with both.")
            beyond = self._columns(future, "future_covariates", self.n_future_, [ahead] * len(series), at_least=True)
        else:
            single, flat = not several(X), is_flat(X)
            lengths = [len(one) for one in (X if several(X) else [X])] if self.n_future_ else []
            wanted = [length + ahead for length in lengths]
            whole = self._columns(future, "future_covariates", self.n_future_, wanted, at_least=True)
            here = None if whole is None else [one[:n] for one, n in zip(whole, lengths, strict=True)]
            beyond = None if whole is None else [one[n:] for one, n in zip(whole, lengths, strict=True)]
            if here is not None and not several(X):
                here = here[0]
            series, stamps = self._given(X, times, past, here, reset=False)
        gaps = [self._gap(one) for one in series]
        ends = [len(one) - gap for one, gap in zip(series, gaps, strict=True)]
        pieces = np.stack([self._tail(one, end) for one, end in zip(series, ends, strict=True)])
        if not usable(pieces, self.missing).all():
            odd = int(np.flatnonzero(~usable(pieces, self.missing))[0])
            raise InvalidValue(
                f"Series {odd} has a channel with no value in a window of {self.window_} steps; fill it in."
            )
        when = None
        if stamps is not None:
            when = np.stack([one[end - self.window_ : end] for one, end in zip(stamps, ends, strict=True)])
        known = None
        if beyond is not None:
            known = [
                np.concatenate([one[end:, -self.n_future_ :], more])
                for one, end, more in zip(series, ends, beyond, strict=True)
            ]
        after = self._after(known, 0, len(pieces))
        return Windows(pieces, after, when), known, gaps, single, flat

    def _after(self, known: list[np.ndarray] | None, start: int, count: int) -> np.ndarray:
        """The values after a window, for `Windows`: NaN, except for known covariates."""
        after = np.full((count, self.horizon_, self.n_channels_ + self.n_past_ + self.n_future_), np.nan)
        if known is not None:
            after[..., -self.n_future_ :] = [one[start : start + self.horizon_] for one in known]
        return after

    def _roll(self, windows: Windows, known: list[np.ndarray] | None, horizon: int) -> np.ndarray:
        """Forecasts of any number of steps: each window ends with the forecasts before it."""
        if horizon > self.horizon_ and self.n_past_:
            raise InvalidValue(
                f"predict got {horizon} steps, but the past covariates are known up to the end of X; give at most "
                f"horizon_={self.horizon_}."
            )
        if known is not None and min(len(one) for one in known) < -(-horizon // self.horizon_) * self.horizon_:
            raise InvalidValue(
                f"predict got {horizon} steps and future_covariates of {min(len(one) for one in known)}; the model forecasts "
                f"{self.horizon_} steps at once, so give a multiple of that."
            )
        found = []
        while True:
            found.append(self._ahead(windows))
            if len(found) * self.horizon_ >= horizon:
                return np.concatenate(found, 1)[:, :horizon]
            windows = self._slid(windows, found[-1], known, len(found))

    def _slid(
        self, windows: Windows, forecast: np.ndarray, known: list[np.ndarray] | None, number: int
    ) -> Windows:  # fmt: skip
        """Windows that end with a forecast, after `number` of them in all."""
        more = windows.after.copy()
        more[..., : self.n_channels_] = forecast
        pieces, stamps = np.concatenate([windows.pieces, more], 1)[:, -self.window_ :], windows.stamps
        if stamps is not None and self.unit_ is not None:
            later = stamps[:, -1:] + self.unit_ * np.arange(1, self.horizon_ + 1)
            stamps = np.concatenate([stamps, later], 1)[:, -self.window_ :]
        return Windows(pieces, self._after(known, number * self.horizon_, len(pieces)), stamps)

    def _errors(self, error: np.ndarray, prefix: str) -> dict[str, float]:
        known = ~np.isnan(error)
        relative = (error / self.naive_error_)[known]
        error = error[known]
        return {
            f"{prefix}mse": float(np.mean(error**2)),
            f"{prefix}mae": float(np.mean(np.abs(error))),
            f"{prefix}mase": float(np.mean(np.abs(relative))),
        }


def _finite(forecasts: np.ndarray, windows: Windows) -> np.ndarray:
    """The forecasts after some windows, or `PredictionError` if one is not finite."""
    for i, one in enumerate(forecasts):
        if not np.isfinite(one).all():
            raise PredictionError(
                f"The forecast of series {i} is not finite; its values, up to {np.nanmax(np.abs(windows.pieces[i])):.3g} in size, "
                "are too large for the model: scale or clean them."
            )
    return forecasts


def _shaped(found: list[np.ndarray], single: bool, flat: bool) -> Any:
    """Arrays `(horizon, channels)` in the form of `X`."""
    found = [one[:, 0] if flat else one for one in found]
    return found[0] if single else found
