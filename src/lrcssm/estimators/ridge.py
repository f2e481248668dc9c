"""Classifier and regressor: random liquid features with a linear read-out by ridge regression."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.metrics import accuracy_score, r2_score
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_consistent_length, column_or_1d

from ..errors import InvalidValue
from ..features import LiquidModel
from ..training import Trained
from ..training.trained import as_probabilities
from .arrays import check_array
from .transformer import FeatureEstimator


class RidgeEstimator(FeatureEstimator):
    """Features with a read-out."""

    @property
    def penalty_(self) -> float:
        """The ridge penalty that leave-one-out chose."""
        assert self.model_.readout is not None
        return self.model_.readout.penalty

    def _fit(self, X: Any, targets: np.ndarray, times: Any, task: str, outputs: int, classes: Any = None) -> None:
        drawing = self._drawing()
        cases = self._cases(X, times, targets, reset=True)
        model = LiquidModel.fit(cases, task, outputs, **drawing)
        self.trained_ = Trained(model, classes, missing=self.missing, unit=cases.unit)

    def _checked_targets(self, X: Any, y: Any, dtype: Any) -> np.ndarray:
        if y is None:
            raise InvalidValue(f"{type(self).__name__} requires y to be passed, but the target y is None.")
        found = check_array(y, ensure_2d=False, dtype=dtype, input_name="y", estimator=self)
        if hasattr(X, "__len__"):
            check_consistent_length(X, found)
        return found

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        return tags


class LrcRidgeClassifier(ClassifierMixin, RidgeEstimator):
    """Classifier of time series in seconds: random liquid features and ridge regression, without gradient steps.

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
    - `trained_`, `model_`: the `lrcssm.training.Trained` and its `lrcssm.features.LiquidModel`.
    - `penalty_`: the ridge penalty that leave-one-out chose.
    - `n_channels_`: of the training data; `n_features_in_` is the second axis of `X`.
    """

    classes_: np.ndarray

    def fit(self, X: Any, y: Any, times: Any = None) -> "LrcRidgeClassifier":
        """Draw the features and fit their read-out.

        **Arguments:**

        - `X`: `(n_cases, n_channels, n_timepoints)`, `(n_cases, n_timepoints)`, or a list of `(n_channels, T_i)` or `(T_i,)`.
        - `y`: the class of each case, numbers or text.
        - `times`: time of each step, for irregular series: `(n_timepoints,)`, `(n_cases, n_timepoints)` or a list of `(T_i,)`,
            increasing.
        """
        y = column_or_1d(self._checked_targets(X, y, None), warn=True)
        check_classification_targets(y)
        classes, numbers = np.unique(y, return_inverse=True)
        if len(classes) < 2:
            raise InvalidValue(
                f"{type(self).__name__} got y with 1 class, {classes[0]!r}; give cases of at least 2 classes."
            )
        self._fit(X, numbers.astype(np.int32), times, "classify", len(classes), classes)
        self.classes_ = classes
        return self

    def decision_function(self, X: Any, times: Any = None) -> np.ndarray:
        """The logits of the classes, `(n_cases, n_classes)`; of two classes their difference, `(n_cases,)`."""
        logits = self._outputs(X, times)
        return logits[:, 1] - logits[:, 0] if len(self.classes_) == 2 else logits

    def predict_proba(self, X: Any, times: Any = None) -> np.ndarray:
        """The probability of each class, `(n_cases, n_classes)`."""
        return as_probabilities(self._outputs(X, times))

    def predict(self, X: Any, times: Any = None) -> np.ndarray:
        """The most probable class of each case."""
        best = self._outputs(X, times).argmax(1)
        return self.classes_[best]

    def score(self, X: Any, y: Any, sample_weight: Any = None, times: Any = None) -> float:
        """The accuracy."""
        return float(accuracy_score(y, self.predict(X, times), sample_weight=sample_weight))

    def _remember(self, facts: dict[str, Any], arrays: Mapping[str, np.ndarray]) -> None:
        assert self.trained_.classes is not None
        self.classes_ = self.trained_.classes
        super()._remember(facts, arrays)


class LrcRidgeRegressor(RegressorMixin, RidgeEstimator):
    """Regressor from time series to numbers in seconds: random liquid features and ridge regression, without gradient steps.

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

    - `n_outputs_`: numbers that are predicted for a case.
    - `map_`: the `lrcssm.features.FeatureMap`.
    - `trained_`, `model_`: the `lrcssm.training.Trained` and its `lrcssm.features.LiquidModel`.
    - `penalty_`: the ridge penalty that leave-one-out chose.
    - `n_channels_`: of the training data; `n_features_in_` is the second axis of `X`.
    """

    n_outputs_: int
    flat_: bool

    def fit(self, X: Any, y: Any, times: Any = None) -> "LrcRidgeRegressor":
        """Draw the features and fit their read-out.

        **Arguments:**

        - `X`, `times`: as for `lrcssm.LrcRidgeClassifier`.
        - `y`: numbers, `(n_cases,)` or `(n_cases, n_outputs)`.
        """
        y = self._checked_targets(X, y, np.float64)
        outputs = 1 if y.ndim == 1 else y.shape[1]
        self._fit(X, y, times, "regress", outputs)
        self.flat_, self.n_outputs_ = y.ndim == 1, outputs
        return self

    def predict(self, X: Any, times: Any = None) -> np.ndarray:
        """Numbers in the shape that `y` had: `(n_cases,)` or `(n_cases, n_outputs)`."""
        found = self._outputs(X, times)
        return found[:, 0] if self.flat_ else found

    def score(self, X: Any, y: Any, sample_weight: Any = None, times: Any = None) -> float:
        """R²; of several outputs, the mean of theirs."""
        return float(r2_score(y, self.predict(X, times), sample_weight=sample_weight))

    def _facts(self) -> dict[str, Any]:
        return super()._facts() | {"flat_": self.flat_, "n_outputs_": self.n_outputs_}

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags
