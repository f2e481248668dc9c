"""Random liquid features as a transformer of scikit-learn, and the base of the estimators that read them out."""

import os
from collections.abc import Sequence
from typing import Any, Literal, no_type_check

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from ..data import Cases
from ..features import FeatureMap
from .arrays import as_series, as_times
from .ridge_files import read_estimator, write_estimator

N_FEATURES = 14_336


class FeatureEstimator(BaseEstimator):
    """An estimator with a `FeatureMap` in it; parameters as for `LrcFeatures`."""

    map_: FeatureMap
    unit_: float | None
    table_: bool
    n_features_in_: int
    n_channels_: int

    @no_type_check  # parameters are checked in `fit`, not even their types before
    def __init__(
        self,
        *,
        n_features: int = N_FEATURES,
        views: Sequence[str] | None = None,
        max_time: float | None = None,
        missing: Literal["error", "mask", "fill"] = "error",
        batch: int = 16,
        random_state: int | np.random.RandomState | None = None,
    ):
        self.n_features = n_features
        self.views = views
        self.max_time = max_time
        self.missing = missing
        self.batch = batch
        self.random_state = random_state

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the fitted estimator to one file, without pickle.

        **Arguments:**

        - `path`: the file; an existing one is replaced.
        """
        check_is_fitted(self, "map_")
        write_estimator(path, self)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Any:
        """Reads an estimator that `save` wrote; its predictions are the same to the last bit.

        **Arguments:**

        - `path`: the file.
        """
        return read_estimator(path, cls)

    def _training_cases(self, X: Any, times: Any) -> Cases:
        """The cases for `fit`, checked; forgets a previous fit."""
        self._check_parameters()
        return self._cases(X, times, reset=True)

    def _draw(self, cases: Cases) -> np.random.Generator:
        """Draws the features; the generator is for what else is random in a fit."""
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        self.map_ = FeatureMap.of(
            cases, n_features=self.n_features, views=self.views, max_time=self.max_time, seed=seed, batch=self.batch
        )
        return np.random.default_rng(seed)

    def _features(self, X: Any, times: Any) -> np.ndarray:
        check_is_fitted(self, "map_")
        return self.map_(self._cases(X, times, reset=False))

    def _cases(self, X: Any, times: Any, *, reset: bool) -> Cases:
        series = as_series(self, X, reset=reset, nan=self.missing != "error")
        stamps = as_times(times, series, fitted=None if reset else self.unit_ is not None)
        unit = None if reset else self.unit_
        cases = Cases.of(series, times=stamps, unit=unit, missing=self.missing, dtype=np.float64)
        if reset:
            self.unit_ = cases.unit
        return cases

    def _check_parameters(self) -> None:
        name = type(self).__name__
        if self.missing not in ("error", "mask", "fill"):
            raise ValueError(f'{name} got missing={self.missing!r}; give "error", "mask" or "fill".')
        for field in ("n_features", "batch"):
            value = getattr(self, field)
            if not isinstance(value, int | np.integer) or value < 1:
                raise ValueError(f"{name} got {field}={value!r}; give a positive whole number.")
        if self.max_time is not None and not self.max_time >= 1:
            raise ValueError(f"{name} got max_time={self.max_time!r}; give a number of steps, at least 1, or None.")

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.three_d_array = True
        tags.input_tags.allow_nan = self.missing != "error"
        return tags


class LrcFeatures(TransformerMixin, FeatureEstimator):
    """Turns time series into features: statistics of the states of random liquid units, without training.

    ```python
    import lrcssm, numpy as np
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    rng = np.random.default_rng(0)
    y = np.repeat(["slow", "fast"], 20)
    X = np.sin(np.where(y == "slow", 0.2, 0.6)[:, None] * np.arange(50) + rng.uniform(0, 6, (40, 1)))
    model = make_pipeline(lrcssm.LrcFeatures(n_features=2000, random_state=0), StandardScaler(), LogisticRegression())
    print(model.fit(X, y).score(X, y))
    ```

    **Arguments:**

    - `n_features`: how many, about: 64 groups of equally many units have 14 statistics a unit.
    - `views`: what the units see, some of `lrcssm.features.VIEWS`; by default all that tell something new.
    - `max_time`: the longest time constant of a unit, in steps; by default half of the median length.
    - `missing`: what to do with NaN: `"error"`; `"mask"`, skip a step where a channel is missing; or `"fill"`, carry the
        last value forward.
    - `batch`: how many series are computed side by side. It changes the time, not the features.
    - `random_state`: an integer for the same features each time.

    **Attributes:**

    - `map_`: the `lrcssm.features.FeatureMap`.
    - `n_channels_`: of the training data; `n_features_in_` is the second axis of `X`.
    """

    def fit(self, X: Any, y: Any = None, times: Any = None) -> "LrcFeatures":
        """Draws the units and calibrates them on these series.

        **Arguments:**

        - `X`: `(n_cases, n_channels, n_timepoints)`, `(n_cases, n_timepoints)`, or a list of `(n_channels, T_i)` or `(T_i,)`.
        - `y`: not used.
        - `times`: when each step was measured, for irregular series: `(n_timepoints,)`, `(n_cases, n_timepoints)` or a
            list of `(T_i,)`, increasing.
        """
        del y
        self._draw(self._training_cases(X, times))
        return self

    def transform(self, X: Any, times: Any = None) -> np.ndarray:
        """The features of each series, `(n_cases, features)`, float32."""
        return self._features(X, times)

    def fit_transform(self, X: Any, y: Any = None, times: Any = None) -> np.ndarray:  # pyright: ignore[reportIncompatibleMethodOverride]
        """`fit` and `transform` of the same series."""
        return self.fit(X, y, times).transform(X, times)

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Names of the features, such as `mean_3_7`: the statistic, the group and the unit."""
        del input_features
        check_is_fitted(self, "map_")
        return np.array(self.map_.names(), object)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float32"]
        return tags
