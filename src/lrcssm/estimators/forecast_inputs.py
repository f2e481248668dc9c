"""Series, covariates and times of forecasters as windows, checked."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from ..data import Cases
from ..errors import InvalidValue
from ..features.season import guess_season
from .arrays import FLOATS, as_list, as_times, check_array, check_missing, refuse_nan, validate_data
from .windows import Windows, as_cases, believable, usable

_FACTS = ("window_", "horizon_", "season_", "season_guessed_", "flat_", "single_", "unit_", "n_past_", "n_future_")


class ForecastInputs:
    """Conversion of the inputs of a forecaster; stores the ends of the series, from which forecasts start."""

    missing: Any
    season: Any
    horizon: Any
    window: Any
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
    _needed: ClassVar[tuple[str, ...]] = _FACTS

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
        """Covariates that are known for the steps to be forecast."""
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
            raise InvalidValue(
                f"{name} are of {len(parts)} series, but there are {len(lengths)}; give one array for each."
            )
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
        """Times of the steps of each series, checked."""
        stamps = as_times(times, series, fitted=None if reset else self.unit_ is not None)
        unit = None
        if stamps is not None:
            unit = Cases.of([np.zeros((len(one), 1)) for one in series], times=stamps).unit
        if reset:
            self.unit_ = unit
        return stamps

    def _keep(self, series: list[np.ndarray], stamps: list[np.ndarray] | None) -> None:
        """Keep the values from which forecasts start: a window, and the missing steps after it."""
        counts = [self.window_ + self._gap(one) for one in series]
        self.tails_ = [one[-count:].copy() for one, count in zip(series, counts, strict=True)]
        self.stamps_ = None
        if stamps is not None:
            self.stamps_ = [one[-count:].copy() for one, count in zip(stamps, counts, strict=True)]

    def _gap(self, series: np.ndarray) -> int:
        """Number of missing steps at the end of a series; future covariates may be known there."""
        known = np.flatnonzero(believable(series[:, : self.n_channels_ + self.n_past_], self.missing))
        return len(series) - 1 - int(known[-1]) if len(known) else len(series)

    def _tail(self, series: np.ndarray, end: int) -> np.ndarray:
        if end < self.window_:
            raise InvalidValue(
                f"predict got a series of {end} steps up to its last known one; it needs at least window_={self.window_}."
            )
        return series[end - self.window_ : end]

    def _series(self, X: Any, *, reset: bool) -> list[np.ndarray]:
        """One array `(time, channels)` for each series."""
        may_miss = check_missing(self)
        if X is None:
            raise InvalidValue("X is None; give (n_timepoints,), (n_timepoints, n_channels), or a list of such arrays.")
        if isinstance(X, list | tuple) and len({len(one) for one in X if isinstance(one, list | tuple)}) > 1:
            raise InvalidValue(
                f"X is a list of {len(X)} lists of unequal lengths; give several series as a list of arrays, such as "
                "[np.asarray(one) for one in X]."
            )
        found = [self._one(one, reset=reset and i == 0) for i, one in enumerate(X if several(X) else [X])]
        if not may_miss:
            refuse_nan(found)
        if several(X) and len({is_flat(one) for one in X}) > 1:
            raise InvalidValue("Some of the series have one axis and some two; give all of them the same.")
        return found

    def _one(self, X: Any, *, reset: bool) -> np.ndarray:
        checks = {"dtype": FLOATS, "ensure_all_finite": "allow-nan"}
        if is_flat(X):
            array = check_array(X, ensure_2d=False, **checks, estimator=self)[:, None]
            if reset:
                self.n_features_in_ = 1
                vars(self).pop("feature_names_in_", None)
            elif self.n_channels_ != 1:
                raise InvalidValue(
                    f"X has one axis, but {type(self).__name__} was fitted to {self.n_channels_} channels. Reshape your "
                    "data to (n_timepoints, n_channels)."
                )
        else:
            array = validate_data(self, X, reset=reset, **checks)
        with np.errstate(over="ignore"):
            if np.isinf(array.astype(np.float32)).any():
                raise InvalidValue(
                    f"X holds {np.nanmax(np.abs(array)):.3g}, which is beyond single precision; give finite numbers below 3e38."
                )
        if reset:
            self.n_channels_, self.flat_ = array.shape[1], is_flat(X)
        return np.asarray(array, np.float64)

    def _kept_facts(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in _FACTS}

    def _kept_arrays(self) -> dict[str, np.ndarray]:
        arrays = {f"tail {i}": one for i, one in enumerate(self.tails_)} | {"naive error": self.naive_error_}
        return arrays | {f"stamps {i}": one for i, one in enumerate(self.stamps_ or ())}

    def _remember_arrays(self, arrays: Mapping[str, np.ndarray]) -> None:
        listed = lambda word: [arrays[f"{word} {i}"] for i in range(len(arrays)) if f"{word} {i}" in arrays]
        self.tails_, self.stamps_, self.naive_error_ = listed("tail"), listed("stamps") or None, arrays["naive error"]
        config: Any = self.trained_.model.config  # pyright: ignore[reportAttributeAccessIssue]
        sizes = {name: getattr(config, name) for name in ("window", "horizon", "season") if hasattr(config, name)}
        wanted = {name: getattr(self, f"{name}_") for name in sizes}
        if sizes != wanted or config.output_dim != self.horizon_ * self.n_channels_:
            raise InvalidValue("its window, horizon or season is not that of its model")
        fits = [one.ndim == 2 and one.shape[1] == config.input_dim and len(one) >= self.window_ for one in self.tails_]
        times = [one.shape for one in self.stamps_ or ()]
        if not fits or not all(fits) or (times and times != [one.shape[:1] for one in self.tails_]):
            raise InvalidValue("the ends of its series are not those of its model")
        if self.naive_error_.shape != (self.n_channels_,) or (self.unit_ is None) != (self.stamps_ is None):
            raise InvalidValue("its times or errors are not those of its series")


def several(X: Any) -> bool:
    """True for a list of series."""
    X = as_list(X)
    return isinstance(X, list | tuple) and len(X) > 0 and all(isinstance(one, np.ndarray) and one.ndim for one in X)


def is_flat(X: Any) -> bool:
    """True if a series, or the first of several, has one axis."""
    return np.ndim(X[0] if several(X) else X) == 1
