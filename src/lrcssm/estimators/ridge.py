"""Classifier and regressor: random liquid features with a linear read-out by ridge regression."""

from typing import Any

import numpy as np
from scipy.special import softmax
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.metrics import accuracy_score, r2_score
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_consistent_length, column_or_1d

from .arrays import check_array
from .calibration import softmax_factor
from .readout import HeldOut, Readout, fit_readout
from .transformer import FeatureEstimator

IN_MEMORY = 10_000  # cases whose features are kept; those of more are computed twice, a part at a time


class RidgeEstimator(FeatureEstimator):
    """Features with a read-out."""

    readout_: Readout

    @property
    def penalty_(self) -> float:
        """The ridge penalty that leave-one-out chose."""
        return self.readout_.penalty

    def _fit(self, X: Any, y: Any, targets: np.ndarray, times: Any, counted: np.ndarray | None = None) -> HeldOut:
        cases = self._training_cases(X, times)
        check_consistent_length(cases.series, y)
        rng = self._draw(cases)
        few = len(cases) <= IN_MEMORY
        features = self.map_(cases) if few else lambda which: self.map_(cases.take(which))
        self.readout_, held_out = fit_readout(features, targets, counted=counted, rng=rng)
        return held_out

    def _outputs(self, X: Any, times: Any) -> np.ndarray:
        features = self._features(X, times)
        return self.readout_(features)

    def _checked_targets(self, y: Any, dtype: Any) -> np.ndarray:
        if y is None:
            raise ValueError(f"{type(self).__name__} requires y to be passed, but the target y is None.")
        return check_array(y, ensure_2d=False, dtype=dtype, input_name="y", estimator=self)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        return tags


class LrcRidgeClassifier(ClassifierMixin, RidgeEstimator):
    """Classifies time series in seconds: random liquid features and ridge regression, without gradient steps.

    ```python
    import lrcssm, numpy as np

    rng = np.random.default_rng(0)
    y = np.repeat(["slow", "fast"], 20)
    X = np.sin(np.where(y == "slow", 0.2, 0.6)[:, None] * np.arange(50) + rng.uniform(0, 6, (40, 1)))
    model = lrcssm.LrcRidgeClassifier(n_features=2000, random_state=0).fit(X, y)
    print(model.predict(X[:2]), model.score(X, y))
    ```

    The read-out is fitted to +1 for the class of a case and −1 for the others; its penalty has the least squared error of
    leave-one-out. The probabilities are a softmax of the decision values times a factor that minimises the log-loss of the
    leave-one-out decisions.

    **Arguments:**

    As for `lrcssm.LrcFeatures`.

    **Attributes:**

    - `classes_`: the labels, in the order of the columns of `predict_proba`.
    - `map_`: the `lrcssm.features.FeatureMap`.
    - `readout_`, `penalty_`: the linear read-out of the features, and its penalty.
    - `factor_`: of the decision values in `predict_proba`.
    - `n_channels_`: of the training data; `n_features_in_` is the second axis of `X`.
    """

    classes_: np.ndarray
    factor_: float

    def fit(self, X: Any, y: Any, times: Any = None) -> "LrcRidgeClassifier":
        """Draws the features and fits their read-out.

        **Arguments:**

        - `X`: `(n_cases, n_channels, n_timepoints)`, `(n_cases, n_timepoints)`, or a list of `(n_channels, T_i)` or `(T_i,)`.
        - `y`: the class of each case, numbers or text.
        - `times`: when each step was measured, for irregular series: `(n_timepoints,)`, `(n_cases, n_timepoints)` or a
            list of `(T_i,)`, increasing.
        """
        y = column_or_1d(self._checked_targets(y, None), warn=True)
        check_classification_targets(y)
        self.classes_, numbers = np.unique(y, return_inverse=True)
        targets = np.where(numbers[:, None] == np.arange(len(self.classes_)), 1.0, -1.0)
        # The fit without the only case of a class does not know the class.
        counted = np.bincount(numbers)[numbers] > 1
        held_out = self._fit(X, y, targets, times, counted)
        self.factor_ = softmax_factor(held_out.predictions, numbers[held_out.cases])
        return self

    def decision_function(self, X: Any, times: Any = None) -> np.ndarray:
        """The decision values, `(n_cases, n_classes)`; of two classes that of the second, `(n_cases,)`."""
        values = self._outputs(X, times)
        return values[:, 1] if len(self.classes_) == 2 else values

    def predict_proba(self, X: Any, times: Any = None) -> np.ndarray:
        """The probability of each class, `(n_cases, n_classes)`."""
        values = self._outputs(X, times)
        return softmax(self.factor_ * values, axis=1)

    def predict(self, X: Any, times: Any = None) -> np.ndarray:
        """The most probable class of each case."""
        best = self._outputs(X, times).argmax(1)
        return self.classes_[best]

    def score(self, X: Any, y: Any, sample_weight: Any = None, times: Any = None) -> float:
        """The accuracy."""
        return float(accuracy_score(y, self.predict(X, times), sample_weight=sample_weight))


class LrcRidgeRegressor(RegressorMixin, RidgeEstimator):
    """Predicts numbers from time series in seconds: random liquid features and ridge regression, without gradient steps.

    ```python
    import lrcssm, numpy as np

    rng = np.random.default_rng(0)
    y = rng.uniform(0.2, 0.6, 40)
    X = np.sin(y[:, None] * np.arange(50) + rng.uniform(0, 6, (40, 1)))
    model = lrcssm.LrcRidgeRegressor(n_features=2000, random_state=0).fit(X, y)
    print(model.predict(X[:2]), model.score(X, y))
    ```

    **Arguments:**

    As for `lrcssm.LrcFeatures`.

    **Attributes:**

    - `n_outputs_`: how many numbers are predicted for a case.
    - `map_`: the `lrcssm.features.FeatureMap`.
    - `readout_`, `penalty_`: the linear read-out of the features, and its penalty.
    - `n_channels_`: of the training data; `n_features_in_` is the second axis of `X`.
    """

    n_outputs_: int
    flat_: bool

    def fit(self, X: Any, y: Any, times: Any = None) -> "LrcRidgeRegressor":
        """Draws the features and fits their read-out.

        **Arguments:**

        - `X`, `times`: as for `lrcssm.LrcRidgeClassifier`.
        - `y`: numbers, `(n_cases,)` or `(n_cases, n_outputs)`.
        """
        y = self._checked_targets(y, np.float64)
        self.flat_, self.n_outputs_ = y.ndim == 1, 1 if y.ndim == 1 else y.shape[1]
        targets = y.reshape(len(y), -1)
        scale = targets.std(0)
        scale = np.where(scale > 0, scale, 1.0)
        self._fit(X, y, targets / scale, times)
        weights, intercept = self.readout_.weights * scale, self.readout_.intercept * scale
        self.readout_ = self.readout_._replace(weights=weights, intercept=intercept)
        return self

    def predict(self, X: Any, times: Any = None) -> np.ndarray:
        """Numbers in the shape that `y` had: `(n_cases,)` or `(n_cases, n_outputs)`."""
        found = self._outputs(X, times)
        return found[:, 0] if self.flat_ else found

    def score(self, X: Any, y: Any, sample_weight: Any = None, times: Any = None) -> float:
        """R²; of several outputs, the mean of theirs."""
        return float(r2_score(y, self.predict(X, times), sample_weight=sample_weight))

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags
