"""The forecaster that is trained by gradients."""

from collections.abc import Mapping
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from sklearn.utils.validation import check_is_fitted

from ..data import Cases
from ..errors import InvalidValue
from ..training import Facts
from .arrays import FLOATS, as_list, as_times, check_array, check_missing, refuse_nan, seed_of, validate_data
from .base import Learner, all_or_nothing
from .parameters import ForecasterParameters, documented, solver_of, training_config
from .windows import Windows, as_cases, believable, levels, naive_error, positions, seasonal_naive, usable, window_of


@documented
class LrcSSMForecaster(Learner, ForecasterParameters):
    """Forecaster of a time series, of one channel or many, or of several series with one model.

    ```python
    import lrcssm, numpy as np

    t = np.arange(300)
    y = np.sin(2 * np.pi * t / 12) + 0.01 * t
    model = lrcssm.LrcSSMForecaster(horizon=6, window=24, hidden_dim=8, state_dim=8, num_blocks=1, steps=100, random_state=0)
    print(model.fit(y).predict(horizon=12))  # the 12 values after the last one
    ```

    Time is the first axis here, as scikit-learn has it: `(n_timepoints,)`, `(n_timepoints, n_channels)`, or a list of such
    arrays for several series.

    {arguments}

    **Attributes:**

    - `trained_`, `model_`: the `lrcssm.training.Trained` and its `SequenceModel`.
    - `window_`, `horizon_`: values that the model sees, and gives at once.
    - `tails_`, `stamps_`: the last values of each series, from which `predict` starts, and their times if `fit` had any.
    - `history_`, `n_iter_`: one `Evaluation` for each evaluation, and the number of steps made.
    - `n_channels_`, `n_features_in_`: channels.
    """

    window_: int
    horizon_: int
    tails_: list[np.ndarray]
    stamps_: list[np.ndarray] | None
    unit_: float | None
    naive_error_: np.ndarray
    flat_: bool
    single_: bool

    def fit(self, X: Any, y: Any = None, times: Any = None) -> "LrcSSMForecaster":
        """Trains a new model, or with `warm_start` goes on with the one that is there.

        **Arguments:**

        - `X`: the series.
        - `y`: not used; it is here because scikit-learn gives it.
        - `times`: when each step was measured, for irregular series: `(n_timepoints,)`, or a list of them for several
            series, increasing. Forecasts are of the next values to be measured, a mean interval apart.
        """
        if y is not None and np.ndim(X) == 1 and not _several(X):
            raise InvalidValue(
                "fit got an X of one axis and a y: a forecaster takes one series; leave y out, or reshape your data "
                "to (n_timepoints, n_channels)."
            )
        with all_or_nothing(self):
            self._train(X, times)
        return self

    def predict(self, X: Any = None, horizon: int | None = None, times: Any = None) -> Any:
        """Forecast the next values.

        **Arguments:**

        - `X`: the series, or list of series, whose next values are wanted, of at least `window_` steps; `None` for those
            of the training and all updates since. After missing steps at its end it is forecast through them.
        - `horizon`: how many; `None` for the one of training. More of them are made from the model's own forecasts, with
            the state of its cells carried on; a model without one, such as a transformer, sees the last `window_` values again.
        - `times`: of `X`, if `fit` had times.

        **Returns:**

        `(horizon,)` for a series of one axis, `(horizon, n_channels)` for one of two, or a list of them.
        """
        check_is_fitted(self, "trained_")
        horizon = self.horizon_ if horizon is None else horizon
        if not isinstance(horizon, int | np.integer) or horizon < 1:
            raise InvalidValue(f"predict got horizon={horizon!r}; give a whole number of at least 1.")
        if X is None:
            series, stamps, single, flat = self.tails_, self.stamps_, self.single_, self.flat_
        else:
            series, single, flat = self._series(X, reset=False), not _several(X), _flat(X)
            stamps = self._stamps(times, series, reset=False)
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
        found = self._roll(pieces, when, int(horizon) + max(gaps))
        found = [one[gap : gap + horizon] for one, gap in zip(found, gaps, strict=True)]
        found = [one[:, 0] if flat else one for one in found]
        return found[0] if single else found

    def update(self, X: Any, times: Any = None) -> "LrcSSMForecaster":
        """Takes note of new observations, without learning from them: forecasts start after them.

        **Arguments:**

        - `X`: what followed the series of the training, or for several series a list with the next values of each.
        - `times`: of `X`, if `fit` had times.
        """
        check_is_fitted(self, "trained_")
        new = self._series(X, reset=False)
        if len(new) != len(self.tails_):
            raise InvalidValue(
                f"update got {len(new)} series, but fit had {len(self.tails_)}; give the next values of each."
            )
        stamps = self._stamps(times, new, reset=False)
        series = [np.concatenate(both) for both in zip(self.tails_, new, strict=True)]
        if stamps is not None and self.stamps_ is not None:
            stamps = [np.concatenate(both) for both in zip(self.stamps_, stamps, strict=True)]
        self._keep(series, self._stamps(stamps, series, reset=False))
        return self

    def score(self, X: Any, y: Any = None, times: Any = None) -> float:
        """The skill 1 − MAE / MAE of the seasonal naive forecast: 1 is perfect, 0 no better than that.

        **Arguments:**

        - `X`, `times`: as for `scores`.
        - `y`: not used.
        """
        del y
        found = self.scores(X, times)
        return 1 - found["mae"] / found["naive_mae"] if found["naive_mae"] > 0 else float(found["mae"] == 0)

    def scores(self, X: Any, times: Any = None) -> dict[str, float]:
        """Errors of the forecasts of `horizon` values from every place in a series that has a whole window before it; missing
        values are left out.

        **Arguments:**

        - `X`: a series, or a list of them, of at least `window_ + horizon` steps. The first window is only looked at.
        - `times`: of `X`, if `fit` had times.

        **Returns:**

        `mse`, `mae` and `mase`, and `naive_mse`, `naive_mae` and `naive_mase` of the seasonal naive forecast.
        """
        check_is_fitted(self, "trained_")
        series = self._series(X, reset=False)
        for i, one in enumerate(series):
            if len(one) < self.window_ + self.horizon_:
                name = f"series {i}" if _several(X) else "a series"
                raise InvalidValue(
                    f"scores got {name} of {len(one)} steps; it needs at least {self.window_ + self.horizon_}, a window of "
                    f"{self.window_} and a horizon of {self.horizon_}."
                )
        begins = [positions(len(one), self.window_, self.horizon_) for one in series]
        windows = self._windows(series, self._stamps(times, series, reset=False), begins)
        windows = windows.take(~np.isnan(windows.after).all((1, 2)))
        if not len(windows.pieces):
            raise InvalidValue(
                f"scores found no window of {self.window_} steps with a known value after it; fill some in."
            )
        outputs = self._outputs_of(self._relative(windows.pieces, None, windows.stamps, self.model_.target_mean.dtype))
        forecast = outputs.reshape(windows.after.shape) + levels(windows.pieces, self.level)
        naive = seasonal_naive(windows.pieces, self.horizon_, self.season)
        return self._errors(forecast - windows.after, "") | self._errors(naive - windows.after, "naive_")

    def _train(self, X: Any, times: Any) -> None:
        self._callbacks()
        self.single_ = not _several(X)
        series = self._series(X, reset=True)
        self.window_, self.horizon_ = window_of(self, min(len(one) for one in series)), int(self.horizon)
        stamps = self._stamps(times, series, reset=True)
        seed = seed_of(self.random_state)
        how = training_config(self, seed=seed)
        # A short series is for training: at least one window of it, with what follows.
        held_out = [round(self._share(len(one)) * len(one)) for one in series]
        least = self.window_ + self.horizon_
        ends = [max(len(one) - count, least) for one, count in zip(series, held_out, strict=True)]
        # More windows than the steps will ever see would only take memory.
        learned = [positions(end, self.window_, self.horizon_, most=how.steps * how.batch) for end in ends]
        held = [
            positions(len(one), self.window_, self.horizon_, start=end, most=1024)
            for one, end in zip(series, ends, strict=True)
        ]
        train, validation = (self._complete(self._windows(series, stamps, begins)) for begins in (learned, held))
        if not len(train):
            raise InvalidValue(
                f"{type(self).__name__} found no window of {self.window_} steps with {self.horizon_} known values after it; "
                "make the horizon smaller, or fill missing values in."
            )
        facts = Facts(
            self.n_channels_, self.window_, train.dt is not None, "forecast", self.horizon_ * self.n_channels_
        )
        config, how = self._configured(facts, seed)
        self._learn(config, how, train, validation if len(validation) else None, unit=self.unit_)
        self.naive_error_ = naive_error(series, self.season)
        self._keep(series, stamps)

    def _windows(self, series: list[np.ndarray], stamps: list[np.ndarray] | None, begins: list[np.ndarray]) -> Windows:
        """Windows that can be used."""
        windows = Windows.of(series, stamps, begins, self.window_, self.horizon_)
        return windows.take(usable(windows.pieces, self.missing))

    def _complete(self, windows: Windows) -> Cases:
        """Cases to learn from: windows with all that follows them."""
        known = windows.take(~np.isnan(windows.after).any((1, 2)))
        return self._relative(known.pieces, known.after, known.stamps, np.dtype(jnp.result_type(float)))

    def _relative(self, pieces: np.ndarray, after: Any, stamps: np.ndarray | None, dtype: Any) -> Cases:
        """Cases relative to their levels."""
        return as_cases(pieces, after, self.level, dtype, stamps=stamps, unit=self.unit_, missing=self.missing)

    def _stamps(self, times: Any, series: list[np.ndarray], *, reset: bool) -> list[np.ndarray] | None:
        """When the steps of each series were measured, checked."""
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
        """Number of missing steps at the end of a series."""
        known = np.flatnonzero(believable(series, self.missing))
        return len(series) - 1 - int(known[-1]) if len(known) else len(series)

    def _errors(self, error: np.ndarray, prefix: str) -> dict[str, float]:
        known = ~np.isnan(error)
        relative = (error / self.naive_error_)[known]
        error = error[known]
        return {
            f"{prefix}mse": float(np.mean(error**2)),
            f"{prefix}mae": float(np.mean(np.abs(error))),
            f"{prefix}mase": float(np.mean(np.abs(relative))),
        }

    def _roll(self, pieces: np.ndarray, stamps: np.ndarray | None, horizon: int) -> np.ndarray:
        """Forecasts after windows `(series, window, channels)`, piece by piece with the model's own outputs as inputs."""
        if self.model_.whole() is not None:
            return self._slide(pieces, stamps, horizon)
        cases = self._relative(pieces, None, stamps, self.model_.target_mean.dtype)
        inputs, mask, dt = (
            None if part is None else np.stack(part, 1) for part in (cases.series, cases.valid, cases.dt)
        )
        found, state = [], None
        while sum(len(one) for one in found) < horizon:
            outputs, state = _piece(self.model_, inputs, mask, dt, state, solver_of(self))
            inputs = np.moveaxis(np.asarray(outputs).reshape(len(pieces), self.horizon_, -1), 0, 1)
            mask = dt = None
            found.append(inputs)
        level = levels(pieces, self.level)
        return np.moveaxis(np.concatenate(found)[:horizon].astype(np.float64), 0, 1) + level

    def _slide(self, pieces: np.ndarray, stamps: np.ndarray | None, horizon: int) -> np.ndarray:
        """The same for a model that has no state to carry on: each window ends with the forecasts before it."""
        found = []
        while sum(one.shape[1] for one in found) < horizon:
            outputs = self._outputs_of(self._relative(pieces, None, stamps, self.model_.target_mean.dtype))
            found.append(outputs.reshape(len(pieces), self.horizon_, -1) + levels(pieces, self.level))
            pieces = np.concatenate([pieces, found[-1]], 1)[:, -self.window_ :]
            if stamps is not None and self.unit_ is not None:
                ahead = stamps[:, -1:] + self.unit_ * np.arange(1, self.horizon_ + 1)
                stamps = np.concatenate([stamps, ahead], 1)[:, -self.window_ :]
        return np.concatenate(found, 1)[:, :horizon]

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
        found = [self._one(one, reset=reset and i == 0) for i, one in enumerate(X if _several(X) else [X])]
        if not may_miss:
            refuse_nan(found)
        if _several(X) and len({_flat(one) for one in X}) > 1:
            raise InvalidValue("Some of the series have one axis and some two; give all of them the same.")
        return found

    def _one(self, X: Any, *, reset: bool) -> np.ndarray:
        checks = {"dtype": FLOATS, "ensure_all_finite": "allow-nan"}
        if _flat(X):
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
        if reset:
            self.n_channels_, self.flat_ = array.shape[1], _flat(X)
        return np.asarray(array, np.float64)

    def _tail(self, series: np.ndarray, end: int) -> np.ndarray:
        if end < self.window_:
            raise InvalidValue(
                f"predict got a series of {end} steps up to its last known one; it needs at least window_={self.window_}."
            )
        return series[end - self.window_ : end]

    def _facts(self) -> dict[str, Any]:
        names = ("window_", "horizon_", "flat_", "single_", "unit_")
        return super()._facts() | {name: getattr(self, name) for name in names}

    def _arrays(self) -> dict[str, np.ndarray]:
        arrays = {f"tail {i}": one for i, one in enumerate(self.tails_)} | {"naive error": self.naive_error_}
        return arrays | {f"stamps {i}": one for i, one in enumerate(self.stamps_ or ())}

    def _remember(self, facts: dict[str, Any], arrays: Mapping[str, np.ndarray]) -> None:
        super()._remember(facts, arrays)
        listed = lambda word: [arrays[f"{word} {i}"] for i in range(len(arrays)) if f"{word} {i}" in arrays]
        self.tails_, self.stamps_, self.naive_error_ = listed("tail"), listed("stamps") or None, arrays["naive error"]

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = self.missing != "error"
        return tags


@eqx.filter_jit
def _piece(model, inputs, mask, dt, state, solver):
    return model(inputs, mask=mask, dt=dt, state=state, solver=solver)


def _several(X: Any) -> bool:
    """True for a list of series."""
    X = as_list(X)
    return isinstance(X, list | tuple) and len(X) > 0 and all(isinstance(one, np.ndarray) and one.ndim for one in X)


def _flat(X: Any) -> bool:
    """True if a series, or the first of several, has one axis."""
    return np.ndim(X[0] if _several(X) else X) == 1
