"""Forecasters: from series and covariates to windows, forecasts, intervals and scores."""

import abc
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ..data import Cases
from ..errors import InvalidValue
from ..features.season import guess_season
from .arrays import FLOATS, as_list, as_times, check_array, check_missing, refuse_nan, validate_data
from .windows import Windows, as_cases, believable, naive_error, positions, seasonal_naive, usable

_FACTS = ("window_", "horizon_", "season_", "season_guessed_", "flat_", "single_", "unit_", "n_past_", "n_future_")


class Forecasts:
    """Everything about a forecaster that does not depend on its model."""

    missing: str
    season: int | None
    window_: int
    horizon_: int
    season_: int
    season_guessed_: bool
    tails_: list[np.ndarray]
    stamps_: list[np.ndarray] | None
    unit_: float | None
    naive_error_: np.ndarray
    flat_: bool
    single_: bool
    n_features_in_: int
    n_channels_: int
    n_past_: int
    n_future_: int

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
            of the training and all updates since. After missing steps at its end it is forecast through them.
        - `horizon`: how many; `None` for the one of training. More of them are made from the model's own forecasts.
        - `times`: of `X`, if `fit` had times.
        - `past_covariates`: of `X`, if `fit` had them.
        - `future_covariates`: if `fit` had them, those of `X` and of the steps to be forecast, one after the other; without `X`
            those of the steps to be forecast. At least `horizon_` steps.

        **Returns:**

        `(horizon,)` for a series of one axis, `(horizon, n_channels)` for one of two, or a list of them.
        """
        horizon = self._asked(horizon)
        windows, known, gaps, single, flat = self._last_windows(X, horizon, times, past_covariates, future_covariates)
        found = self._roll(windows, known, horizon + max(gaps))
        return _shaped([one[gap : gap + horizon] for one, gap in zip(found, gaps, strict=True)], single, flat)

    def predict_interval(
        self, X: Any = None, horizon: int | None = None, times: Any = None, past_covariates: Any = None,
        future_covariates: Any = None, *, coverage: float = 0.9,
    ) -> tuple[Any, Any]:  # fmt: skip
        """Intervals of the next values: conformal, from the errors of forecasts of the training series whose values were not used
        for them, separately for each step ahead.

        **Arguments:**

        - `X`, `times`, `past_covariates`, `future_covariates`: as for `predict`.
        - `horizon`: how many; at most that of training, which is the default.
        - `coverage`: share of the values that are to lie within.

        **Returns:**

        The lower and the upper ends, each in the shape of `predict`.
        """
        horizon = self._asked(horizon)
        if not 0 < coverage < 1:
            raise InvalidValue(f"predict_interval got coverage={coverage!r}; give a number between 0 and 1.")
        windows, _, gaps, single, flat = self._last_windows(X, horizon, times, past_covariates, future_covariates)
        if horizon + max(gaps) > self.horizon_:
            raise InvalidValue(
                f"predict_interval got horizon={horizon}; the errors of training tell about {self.horizon_ - max(gaps)} steps "
                "after the end; fit with a larger horizon."
            )
        low, high = self._ends(windows, coverage)
        cut = lambda part: [one[gap : gap + horizon] for one, gap in zip(part, gaps, strict=True)]
        return _shaped(cut(low), single, flat), _shaped(cut(high), single, flat)

    def update(
        self, X: Any, times: Any = None, past_covariates: Any = None, future_covariates: Any = None
    ) -> Any:  # fmt: skip
        """Append new observations, without learning from them: forecasts start after them.

        **Arguments:**

        - `X`: what followed the series of the training, or for several series a list with the next values of each.
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
        """The skill 1 − MAE / MAE of the seasonal naive forecast: 1 is perfect, 0 no better than that.

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

        - `X`: a series, or a list of them, of at least `window_ + horizon_` steps. The first window is only looked at.
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
        """The last window of each series, what is known of the steps after it, the missing steps between, and the form of `X`."""
        ahead = max(horizon, self.horizon_)
        if X is None:
            series, stamps, single, flat = self.tails_, self.stamps_, self.single_, self.flat_
            if past is not None:
                raise InvalidValue("predict got past_covariates without X; give both, or call update with both.")
            beyond = self._columns(future, "future_covariates", self.n_future_, [ahead] * len(series), at_least=True)
        else:
            single, flat = not several(X), _flat(X)
            lengths = [len(one) for one in (X if several(X) else [X])] if X is not None else []
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
        """The steps after a window as `Windows` has them: NaN, but for covariates that are known."""
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
        found, (pieces, stamps) = [], (windows.pieces, windows.stamps)
        while True:
            found.append(self._ahead(Windows(pieces, self._after(known, len(found) * self.horizon_, len(pieces)), stamps)))
            if len(found) * self.horizon_ >= horizon:
                return np.concatenate(found, 1)[:, :horizon]
            more = self._after(known, (len(found) - 1) * self.horizon_, len(pieces))
            more[..., : self.n_channels_] = found[-1]
            pieces = np.concatenate([pieces, more], 1)[:, -self.window_ :]
            if stamps is not None and self.unit_ is not None:
                later = stamps[:, -1:] + self.unit_ * np.arange(1, self.horizon_ + 1)
                stamps = np.concatenate([stamps, later], 1)[:, -self.window_ :]

    def _choose_season(self, series: Sequence[np.ndarray]) -> None:
        """Set `season_`, guessed from the channels to forecast if it is not given."""
        self.season_guessed_ = self.season is None
        if self.season is not None and (not isinstance(self.season, int | np.integer) or self.season < 1):
            raise InvalidValue(
                f"{type(self).__name__} got season={self.season!r}; give a whole number of at least 1, or None to guess it."
            )
        own = [one[:, : self.n_channels_] for one in series]
        self.season_ = guess_season(own) if self.season is None else int(self.season)

    def _windows(self, series: list[np.ndarray], stamps: list[np.ndarray] | None, begins: list[np.ndarray]) -> Windows:
        """Windows that can be used."""
        windows = Windows.of(series, stamps, begins, self.window_, self.horizon_)
        ahead = windows.after[..., windows.after.shape[2] - self.n_future_ :]
        return windows.take(usable(windows.pieces, self.missing) & ~np.isnan(ahead).any((1, 2)))

    def _cases(self, windows: Windows) -> Cases:
        """Windows as cases in double precision, without missing values."""
        return as_cases(
            windows.pieces, None, "none", np.dtype(np.float64), stamps=windows.stamps, unit=self.unit_,
            missing=self.missing,
        )  # fmt: skip

    def _future(self, windows: Windows) -> np.ndarray | None:
        """Covariates that are known at the steps to be forecast."""
        return windows.after[..., -self.n_future_ :] if self.n_future_ else None

    def _given(
        self, X: Any, times: Any, past: Any, future: Any, *, reset: bool
    ) -> tuple[list[np.ndarray], list[np.ndarray] | None]:
        """One array `(time, channels and covariates)` for each series, and its times."""
        series = self._series(X, reset=reset)
        lengths = [len(one) for one in series]
        past_columns = self._columns(past, "past_covariates", None if reset else self.n_past_, lengths)
        future_columns = self._columns(future, "future_covariates", None if reset else self.n_future_, lengths)
        if reset:
            self.n_past_, self.n_future_ = (
                0 if part is None else part[0].shape[1] for part in (past_columns, future_columns)
            )
        parts = [part for part in (series, past_columns, future_columns) if part is not None]
        stamps = self._stamps(times, series, reset=reset)
        return [np.concatenate(own, 1) for own in zip(*parts, strict=True)], stamps

    def _columns(
        self, given: Any, name: str, count: int | None, lengths: Sequence[int], *, at_least: bool = False
    ) -> list[np.ndarray] | None:
        """Covariates `(time, covariates)` of each series, checked."""
        if given is None or count == 0:
            if (given is None) != (not count):
                said = "got no" if given is None else "got"
                had = f"had {count}" if count else "had none"
                raise InvalidValue(f"{type(self).__name__} {said} {name}, but fit {had}; give the same kind to both.")
            return None
        parts = [np.asarray(one, np.float64) for one in (as_list(given) if several(given) else [given])]
        parts = [one[:, None] if one.ndim == 1 else one for one in parts]
        if len(parts) != len(lengths):
            raise InvalidValue(f"{name} are of {len(parts)} series, but there are {len(lengths)}; give one array for each.")
        for one, length in zip(parts, lengths, strict=True):
            if one.ndim != 2 or len(one) < length or (len(one) > length and not at_least):
                wanted = f"({'at least ' if at_least else ''}{length}, covariates)"
                raise InvalidValue(f"{name} have shape {one.shape}; expected {wanted}.")
            if one.shape[1] != (parts[0].shape[1] if count is None else count):
                raise InvalidValue(f"{name} have {one.shape[1]} columns; expected {count or parts[0].shape[1]}.")
            if np.isinf(one).any():
                raise InvalidValue(f"{name} hold infinity; every value must be a finite number.")
        if not check_missing(self):
            refuse_nan(parts)
        return parts

    def _stamps(self, times: Any, series: list[np.ndarray], *, reset: bool) -> list[np.ndarray] | None:
        """When the steps of each series were measured, checked."""
        stamps = as_times(times, series, fitted=None if reset else self.unit_ is not None)
        unit = None
        if stamps is not None:
            unit = Cases.of([np.zeros((len(one), 1)) for one in series], times=stamps).unit
        if reset:
            self.unit_ = unit
        return stamps
