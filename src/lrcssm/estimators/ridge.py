"""Classifier and regressor: random liquid features with a linear read-out by ridge regression."""

from typing import Any

import numpy as np
from sklearn.utils.validation import check_consistent_length

from ..features import LiquidModel
from ..training import Trained
from .kinds import Classifying, Regressing
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
        if hasattr(X, "__len__"):
            check_consistent_length(X, targets)
        cases = self._cases(X, times, targets, reset=True)
        model = LiquidModel.fit(cases, task, outputs, **drawing)
        self.trained_ = Trained(model, classes, missing=self.missing, unit=cases.unit)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        return tags


class LrcRidgeClassifier(Classifying, RidgeEstimator):
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

    def fit(self, X: Any, y: Any, times: Any = None) -> "LrcRidgeClassifier":
        """Draw the features and fit their read-out.

        **Arguments:**

        - `X`: `(n_cases, n_channels, n_timepoints)`, `(n_cases, n_timepoints)`, or a list of `(n_channels, T_i)` or `(T_i,)`.
        - `y`: the class of each case, numbers or text.
        - `times`: time of each step, for irregular series: `(n_timepoints,)`, `(n_cases, n_timepoints)` or a list of `(T_i,)`,
            increasing.
        """
        labels = self._labels(y)
        classes = self._classes_of(labels)
        numbers = np.searchsorted(classes, labels).astype(np.int32)
        self._fit(X, numbers, times, "classify", len(classes), classes)
        self.classes_ = classes
        return self


class LrcRidgeRegressor(Regressing, RidgeEstimator):
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

    def fit(self, X: Any, y: Any, times: Any = None) -> "LrcRidgeRegressor":
        """Draw the features and fit their read-out.

        **Arguments:**

        - `X`, `times`: as for `lrcssm.LrcRidgeClassifier`.
        - `y`: numbers, `(n_cases,)` or `(n_cases, n_outputs)`.
        """
        numbers, outputs = self._numbers(y)
        self._fit(X, numbers, times, "regress", outputs)
        self.flat_, self.n_outputs_ = numbers.ndim == 1, outputs
        return self
