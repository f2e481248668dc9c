"""Random liquid features as a scikit-learn transformer, and the base class of the ridge estimators."""

import dataclasses
from collections.abc import Sequence
from typing import Any, ClassVar, Literal, no_type_check

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_consistent_length, check_is_fitted

from ..compilation import keeping_compilations
from ..data import Cases
from ..errors import InvalidValue
from ..features import FeatureMap, LiquidModel
from ..features.map import BATCH
from ..features.model import N_FEATURES
from ..training import Trained
from .arrays import as_series, as_times, channel_names, check_missing, seed_of
from .saving import Saved


@no_type_check  # parameters are checked in `fit`, not even their types before
@dataclasses.dataclass(kw_only=True, eq=False, repr=False)
class FeatureParameters:
    """Parameters of random liquid features: see `LrcFeatures`."""

    missing: Literal["error", "mask", "fill"] = "error"
    n_features: int = N_FEATURES
    views: Sequence[str] | None = None
    max_time: float | None = None
    batch: int = BATCH
    random_state: int | np.random.RandomState | None = None


class FeatureEstimator(Saved, BaseEstimator, FeatureParameters):
    """An estimator around a `LiquidModel`; parameters as for `LrcFeatures`."""

    trained_: Trained
    table_: bool
    n_features_in_: int
    n_channels_: int
    _needed: ClassVar[tuple[str, ...]] = ("table_",)

    @property
    def map_(self) -> FeatureMap:
        """The map from series to features."""
        return self.model_.map

    @property
    def model_(self) -> LiquidModel:
        """The features and their read-out."""
        return self.trained_.model

    def _drawing(self) -> dict[str, Any]:
        """Arguments of `FeatureMap.of`, checked."""
        name = type(self).__name__
        for field in ("n_features", "batch"):
            value = getattr(self, field)
            if not isinstance(value, int | np.integer) or value < 1:
                raise InvalidValue(f"{name} got {field}={value!r}; give a positive whole number.")
        if self.max_time is not None and not self.max_time >= 1:
            raise InvalidValue(f"{name} got max_time={self.max_time!r}; give a number of steps, at least 1, or None.")
        return {
            "n_features": int(self.n_features), "views": self.views, "max_time": self.max_time,
            "batch": int(self.batch), "seed": seed_of(self.random_state),
        }  # fmt: skip

    def _cases(self, X: Any, times: Any, targets: Any = None, *, reset: bool = False) -> Cases:
        series = as_series(self, X, reset=reset, nan=check_missing(self))
        if targets is not None:
            check_consistent_length(series, targets)
        unit = None if reset else self.trained_.unit
        stamps = as_times(times, series, fitted=None if reset else unit is not None)
        return Cases.of(series, targets, times=stamps, unit=unit, missing=self.missing)

    def _outputs(self, X: Any, times: Any) -> np.ndarray:
        check_is_fitted(self, "trained_")
        with keeping_compilations():
            return self.trained_.outputs(self._cases(X, times))

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.three_d_array = True
        tags.input_tags.allow_nan = self.missing != "error"
        return tags


class LrcFeatures(TransformerMixin, FeatureEstimator):
    """Transformer of time series to features: statistics of the states of random liquid units, without training.

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

    - `missing`: policy for NaN: `"error"` raises an error, `"mask"` skips a step where a channel is missing, `"fill"` carries the
        last value forward.
    - `n_features`: approximate number of features: 64 groups of equally many units, with 16 statistics per unit.
    - `views`: signals of the units, some of `lrcssm.features.VIEWS`; by default all that are not redundant.
    - `max_time`: the longest time constant of a unit, in steps; by default half of the median length.
    - `batch`: number of series that each thread computes at once; there are as many threads as cores. It does not change the features.
    - `random_state`: seed; a whole number makes results reproducible.

    **Attributes:**

    - `map_`: the `lrcssm.features.FeatureMap`.
    - `trained_`, `model_`: the `lrcssm.training.Trained` and its `lrcssm.features.LiquidModel`.
    - `n_channels_`: of the training data; `n_features_in_` is the second axis of `X`.
    """

    def fit(self, X: Any, y: Any = None, times: Any = None) -> "LrcFeatures":
        """Draw the units and calibrate them on these series.

        **Arguments:**

        - `X`: `(n_cases, n_channels, n_timepoints)`, `(n_cases, n_timepoints)`, or a list of `(n_channels, T_i)` or `(T_i,)`.
        - `y`: not used.
        - `times`: time of each step, for irregular series: `(n_timepoints,)`, `(n_cases, n_timepoints)` or a
            list of `(T_i,)`, increasing.
        """
        del y
        drawing = self._drawing()
        cases = self._cases(X, times, reset=True)
        with keeping_compilations():
            model = LiquidModel("features", FeatureMap.of(cases, **drawing))
        self.trained_ = Trained(model, channels=channel_names(self), missing=self.missing, unit=cases.unit)
        return self

    def transform(self, X: Any, times: Any = None) -> np.ndarray:
        """The features of each series, `(n_cases, features)`, float32."""
        return self._outputs(X, times)

    def fit_transform(self, X: Any, y: Any = None, times: Any = None) -> np.ndarray:  # pyright: ignore[reportIncompatibleMethodOverride]
        """`fit` and `transform` of the same series."""
        return self.fit(X, y, times).transform(X, times)

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Names of the features, such as `mean_3_7`: the statistic, the group and the unit."""
        del input_features
        check_is_fitted(self, "trained_")
        return np.array(self.map_.names(), object)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float32"]
        return tags
