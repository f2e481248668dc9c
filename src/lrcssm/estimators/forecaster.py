"""A forecaster of time series."""

from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from sklearn.utils.validation import check_is_fitted

from ..data import Cases
from ..engine import Auto
from .arrays import FLOATS, check_array, validate_data
from .base import Learner
from .parameters import ForecasterParameters, training_config
from .windows import as_cases, cut, levels, naive_error, positions, seasonal_naive


class LrcSSMForecaster(Learner, ForecasterParameters):
    """Forecasts a time series, of one channel or many, or several series with one model.

    ```python
    import lrcssm, numpy as np

    t = np.arange(300)
    y = np.sin(2 * np.pi * t / 12) + 0.01 * t
    model = lrcssm.LrcSSMForecaster(horizon=6, window=24, width=8, state=8, depth=1, steps=100, random_state=0)
    print(model.fit(y).predict(horizon=12))  # the 12 values after the last one
    ```

    Time is the first axis here, as scikit-learn has it: `(n_timepoints,)`, `(n_timepoints, n_channels)`, or a list of such
    arrays for several series.

    **Arguments:**

    - `horizon`: how many values the model is trained to give at once. `predict` goes further by taking its own forecasts
        for observations.
    - `window`: how many values it sees; `None` chooses from the horizon, the season and the length.
    - `season`: of the seasonal naive forecast that scores compare with; 1 for none.
    - `level`: what is subtracted from a window before the model sees it: its `"last"` value, its `"mean"`, or `"none"`.
    - `validation_fraction`: the share at the end of each series that the weights are chosen by; nothing of it is trained
        on. 0 trains on everything.
    - `patch`: of how many values a step is made; `window` and `horizon` are multiples of it.
    - the rest: as for `lrcssm.LrcSSMClassifier`.

    **Attributes:**

    - `model_`: the `SequenceModel`.
    - `window_`, `horizon_`: how many values it sees, and gives at once.
    - `tails_`: the last values of each series, from which `predict` starts.
    - `history_`, `n_iter_`: one `Epoch` for each look, and how many steps were made.
    - `n_channels_`, `n_features_in_`: channels.
    """

    window_: int
    horizon_: int
    tails_: list[np.ndarray]
    naive_error_: np.ndarray
    flat_: bool
    single_: bool

    def fit(self, X: Any, y: Any = None) -> "LrcSSMForecaster":
        """Trains a new model, or with `warm_start` goes on with the one that is there.

        **Arguments:**

        - `X`: the series.
        - `y`: not used; it is here because scikit-learn gives it.
        """
        if y is not None and np.ndim(X) == 1 and not _several(X):
            raise ValueError(
                "fit got an X of one axis and a y: a forecaster takes one series; leave y out, or reshape your data "
                "to (n_timepoints, n_channels)."
            )
        self.single_ = not _several(X)
        series = self._series(X, reset=True)
        self.window_, self.horizon_ = self._window(min(len(one) for one in series)), int(self.horizon)
        seed = self._seed()
        config = self._configured(
            self.window_, input_dim=self.n_channels_, output_dim=self.horizon_ * self.n_channels_, task="forecast",
            pool="last",
        )  # fmt: skip
        how = training_config(self, seed=seed)
        dtype = np.dtype(jnp.result_type(float))
        learned, held = [], []
        for one in series:
            # A short series is for training: at least one window of it, with what follows.
            end = max(len(one) - self._held_out(len(one)), self.window_ + self.horizon_)
            # More windows than the steps will ever see would only take memory.
            begins = positions(end, self.window_, self.horizon_, most=how.steps * how.batch)
            learned.append(cut(one, begins, self.window_, self.horizon_))
            later = positions(len(one), self.window_, self.horizon_, start=end, most=1024)
            held.append(cut(one, later, self.window_, self.horizon_))
        train, validation = self._together(learned, dtype), self._together(held, dtype)
        start = self._start(config, train, seed)
        self._learn(start, train, validation if len(validation) else None, how)
        self.naive_error_ = naive_error(series, self.season)
        self.tails_ = [one[-self.window_ :].copy() for one in series]
        return self

    def predict(self, X: Any = None, horizon: int | None = None) -> Any:
        """What comes next.

        **Arguments:**

        - `X`: the series, or list of series, whose next values are wanted, of at least `window_` steps; `None` for those
            of the training and all updates since.
        - `horizon`: how many; `None` for the one of training. More of them are made from the model's own forecasts, with
            the state of its cells carried on.

        **Returns:**

        `(horizon,)` for a series of one axis, `(horizon, n_channels)` for one of two, or a list of them.
        """
        check_is_fitted(self, "model_")
        horizon = self.horizon_ if horizon is None else horizon
        if not isinstance(horizon, int | np.integer) or horizon < 1:
            raise ValueError(f"predict got horizon={horizon!r}; give a whole number of at least 1.")
        series = self.tails_ if X is None else self._series(X, reset=False)
        single, flat = (self.single_, self.flat_) if X is None else (not _several(X), _flat(X))
        found = self._roll(np.stack([self._tail(one) for one in series]), int(horizon))
        found = [one[:, 0] if flat else one for one in found]
        return found[0] if single else found

    def update(self, X: Any) -> "LrcSSMForecaster":
        """Takes note of new observations, without learning from them: forecasts start after them.

        **Arguments:**

        - `X`: what followed the series of the training, or for several series a list with the next values of each.
        """
        check_is_fitted(self, "model_")
        new = self._series(X, reset=False)
        if len(new) != len(self.tails_):
            raise ValueError(
                f"update got {len(new)} series, but fit had {len(self.tails_)}; give the next values of each."
            )
        self.tails_ = [np.concatenate(both)[-self.window_ :] for both in zip(self.tails_, new, strict=True)]
        return self

    def score(self, X: Any, y: Any = None) -> float:
        """The skill 1 − MAE / MAE of the seasonal naive forecast: 1 is perfect, 0 no better than that.

        **Arguments:**

        - `X`: as for `scores`.
        - `y`: not used.
        """
        del y
        found = self.scores(X)
        return 1 - found["mae"] / found["naive_mae"] if found["naive_mae"] > 0 else float(found["mae"] == 0)

    def scores(self, X: Any) -> dict[str, float]:
        """Errors of the forecasts of `horizon` values from every place in a series that has a whole window before it.

        **Arguments:**

        - `X`: a series, or a list of them, of at least `window_ + horizon` steps. The first window is only looked at.

        **Returns:**

        `mse`, `mae` and `mase`, and `naive_mse`, `naive_mae` and `naive_mase` of the seasonal naive forecast.
        """
        check_is_fitted(self, "model_")
        series = self._series(X, reset=False)
        parts = [
            cut(one, positions(len(one), self.window_, self.horizon_), self.window_, self.horizon_) for one in series
        ]
        pieces, after = (np.concatenate(both) for both in zip(*parts, strict=True))
        if not len(pieces):
            raise ValueError(
                f"scores got a series of {len(series[0])} steps; it needs at least {self.window_ + self.horizon_}, a window of "
                f"{self.window_} and a horizon of {self.horizon_}."
            )
        dtype = self.model_.target_mean.dtype
        outputs = self._outputs(as_cases(pieces, None, self.level, dtype)).reshape(after.shape)
        forecast = outputs + levels(pieces, self.level)
        naive = seasonal_naive(pieces, self.horizon_, self.season)
        return self._errors(forecast - after, "") | self._errors(naive - after, "naive_")

    def _errors(self, error: np.ndarray, prefix: str) -> dict[str, float]:
        return {
            f"{prefix}mse": float(np.mean(error**2)),
            f"{prefix}mae": float(np.mean(np.abs(error))),
            f"{prefix}mase": float(np.mean(np.abs(error) / self.naive_error_)),
        }

    def _roll(self, pieces: np.ndarray, horizon: int) -> np.ndarray:
        """Forecasts after windows `(series, window, channels)`, piece by piece with the model's own outputs as inputs."""
        level = levels(pieces, self.level)
        inputs = np.moveaxis(pieces - level, 0, 1).astype(self.model_.target_mean.dtype)
        found, state = [], None
        while sum(len(one) for one in found) < horizon:
            outputs, state = _piece(self.model_, jnp.asarray(inputs), state, self.solver or Auto())
            inputs = np.moveaxis(np.asarray(outputs).reshape(len(pieces), self.horizon_, -1), 0, 1)
            found.append(inputs)
        return np.moveaxis(np.concatenate(found)[:horizon].astype(np.float64), 0, 1) + level

    def _together(self, parts: list[tuple[np.ndarray, np.ndarray]], dtype: np.dtype) -> Cases:
        pieces, after = (np.concatenate(both) for both in zip(*parts, strict=True))
        return as_cases(pieces, after, self.level, dtype)

    def _series(self, X: Any, *, reset: bool) -> list[np.ndarray]:
        """One array `(time, channels)` for each series."""
        if not _several(X):
            return [self._one(X, reset=reset)]
        found = [self._one(one, reset=reset and i == 0) for i, one in enumerate(X)]
        if len({_flat(one) for one in X}) > 1:
            raise ValueError("Some of the series have one axis and some two; give all of them the same.")
        return found

    def _one(self, X: Any, *, reset: bool) -> np.ndarray:
        if _flat(X):
            array = check_array(X, ensure_2d=False, dtype=FLOATS, estimator=self)[:, None]
            if reset:
                self.n_features_in_ = 1
                vars(self).pop("feature_names_in_", None)
            elif self.n_channels_ != 1:
                raise ValueError(
                    f"X has one axis, but {type(self).__name__} was fitted to {self.n_channels_} channels. Reshape your "
                    "data to (n_timepoints, n_channels)."
                )
        else:
            array = validate_data(self, X, reset=reset, dtype=FLOATS)
        if reset:
            self.n_channels_, self.flat_ = array.shape[1], _flat(X)
        return np.asarray(array, np.float64)

    def _window(self, length: int) -> int:
        """The window, after a look at everything that has to fit together."""
        for name in ("horizon", "season", "patch", *(() if self.window is None else ("window",))):
            value = getattr(self, name)
            if not isinstance(value, int | np.integer) or value < 1:
                raise ValueError(f"{type(self).__name__} got {name}={value!r}; give a whole number of at least 1.")
        if self.level not in ("last", "mean", "none"):
            raise ValueError(f'{type(self).__name__} got level={self.level!r}; give "last", "mean" or "none".')
        window = self.window
        if window is None:
            window = max(self.season, min(max(64, 2 * self.season, 4 * self.horizon), length // 3), 1)
            window = -(-window // self.patch) * self.patch
        if window < self.season:
            raise ValueError(f"{type(self).__name__} got window={window}, less than one season of {self.season} steps.")
        if window % self.patch or self.horizon % self.patch:
            raise ValueError(
                f"{type(self).__name__} got window={window}, horizon={self.horizon} and patch={self.patch}; give multiples "
                "of the patch."
            )
        if length < window + self.horizon:
            raise ValueError(
                f"{type(self).__name__} got a series of {length} steps (n_samples={length}); it needs at least "
                f"{window + self.horizon}, a window of {window} and a horizon of {self.horizon}."
            )
        return int(window)

    def _tail(self, series: np.ndarray) -> np.ndarray:
        if len(series) < self.window_:
            raise ValueError(f"predict got a series of {len(series)} steps; it needs at least window_={self.window_}.")
        return series[-self.window_ :]

    def _facts(self) -> dict[str, Any]:
        arrays = {"tails_": [one.tolist() for one in self.tails_], "naive_error_": self.naive_error_.tolist()}
        plain = {name: getattr(self, name) for name in ("window_", "horizon_", "flat_", "single_")}
        return super()._facts() | plain | arrays

    def _remember(self, facts: dict[str, Any]) -> None:
        tails = [np.array(one, np.float64) for one in facts["tails_"]]
        super()._remember(facts | {"tails_": tails, "naive_error_": np.array(facts["naive_error_"], np.float64)})


@eqx.filter_jit
def _piece(model, inputs, state, solver):
    return model(inputs, state=state, solver=solver)


def _several(X: Any) -> bool:
    """Whether this is a list of series."""
    return isinstance(X, list | tuple) and len(X) > 0 and all(isinstance(one, np.ndarray) and one.ndim for one in X)


def _flat(X: Any) -> bool:
    """Whether a series, or the first of several, has one axis."""
    return np.ndim(X[0] if _several(X) else X) == 1
