"""Classifier and regressor: random liquid features with a linear read-out by ridge regression."""

# pyright: reportIncompatibleVariableOverride=false
# (`trained_` is a property here)
import dataclasses
import warnings
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ..compilation import keeping_compilations
from ..errors import InvalidValue
from ..features import Explanation, FeatureMap, LiquidModel, Parts, explain
from ..training import Trained
from .arrays import channel_names
from .base import all_or_nothing
from .kinds import Classifying, Regressing
from .tables import own_targets
from .transformer import FeatureEstimator


class RidgeEstimator(FeatureEstimator):
    """Features with a read-out."""

    _trained: Trained
    _parts: Parts
    _waiting = False  # true if parts have been added since the last solution

    @property
    def trained_(self) -> Trained:
        """The model; after `partial_fit` it is solved at its first use."""
        if self._waiting:
            self._trained = dataclasses.replace(self._trained, model=self._parts.model())
            self._waiting = False
        return self._trained

    @trained_.setter
    def trained_(self, trained: Trained) -> None:
        self._trained = trained

    @property
    def penalty_(self) -> float:
        """The ridge penalty, chosen by leave-one-out."""
        assert self.model_.readout is not None
        return self.model_.readout.penalty

    def _fit(self, X: Any, targets: np.ndarray, times: Any, task: str, outputs: int, classes: Any = None) -> None:
        drawing = self._drawing()
        cases = self._cases(X, times, targets, reset=True)
        with keeping_compilations():
            model = LiquidModel.fit(cases, task, outputs, **drawing)
        self.trained_ = Trained(model, classes, channel_names(self), missing=self.missing, unit=cases.unit)
        self._waiting = False
        vars(self).pop("_parts", None)

    def _add(self, X: Any, targets: np.ndarray, times: Any, task: str, outputs: int, classes: Any = None) -> None:
        """Add cases for `partial_fit`; the first call determines the features."""
        first = not hasattr(self, "_parts")
        if first and hasattr(self, "_trained"):
            # Not an error: scikit-learn's contract is that partial_fit can be called after fit.
            warnings.warn(
                f"partial_fit starts from scratch: a {type(self).__name__} that was fitted or loaded keeps no sums over its cases.",
                stacklevel=4,
            )
        drawing = self._drawing()
        self._waiting = False  # new cases need the unit of time, not the solution
        cases = self._cases(X, times, targets, reset=first)
        if first:
            self._parts = Parts(FeatureMap.of(cases, **drawing), task, outputs, seed=drawing["seed"])
            model = LiquidModel(task, self._parts.map)
            self._trained = Trained(model, classes, channel_names(self), missing=self.missing, unit=cases.unit)
        self._parts.add(cases)
        self._waiting = True

    def explain(self, X: Any, times: Any = None) -> Explanation:
        """Divide the predictions among channels, time scales and statistics.

        ```python
        import lrcssm, numpy as np

        rng = np.random.default_rng(0)
        X, y = rng.standard_normal((40, 3, 50)), np.repeat(["calm", "waves"], 20)
        X[20:, 1] += 2 * np.sin(np.arange(50))  # channel 1 separates the classes
        found = lrcssm.LrcRidgeClassifier(n_features=2000, random_state=0).fit(X, y).explain(X)
        print(found.contributions.shape, found.channels[found.by_channel()[1].argmax()])  # (40, 3, 5, 11) channel 1
        ```

        **Arguments:**

        - `X`, `times`: as for `predict`; averages by class need several cases.

        **Returns:**

        A `lrcssm.features.Explanation`: `contributions` to the prediction of each case, and `by_class` on average. The formulas
        are in `lrcssm.features.explain`.
        """
        check_is_fitted(self, "trained_")
        return explain(
            self.model_, self._cases(X, times), classes=self.trained_.classes, channels=self.trained_.channels
        )

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        return tags


class LrcRidgeClassifier(Classifying, RidgeEstimator):
    """Classifier of time series by ridge regression on random liquid features: fits in seconds, without gradient steps.

    ```python
    import lrcssm, numpy as np

    rng = np.random.default_rng(0)
    y = np.repeat(["slow", "fast"], 20)
    X = np.sin(np.where(y == "slow", 0.2, 0.6)[:, None] * np.arange(50) + rng.uniform(0, 6, (40, 1)))
    model = lrcssm.LrcRidgeClassifier(n_features=2000, random_state=0).fit(X, y)
    print(model.predict(X[:2]), model.score(X, y))
    ```

    The read-out is fitted to +1 for the class of a case and −1 for the others; its penalty minimises the squared leave-one-out
    error. The probabilities are a softmax of the decision values times a factor that minimises the log-loss of the
    leave-one-out decisions.

    **Arguments:**

    As for `lrcssm.LrcFeatures`.

    **Attributes:**

    - `classes_`: the labels, in the order of the columns of `predict_proba`.
    - `map_`: the `lrcssm.features.FeatureMap`.
    - `trained_`, `model_`: the `lrcssm.training.Trained` and its `lrcssm.features.LiquidModel`.
    - `penalty_`: the ridge penalty, chosen by leave-one-out.
    - `n_channels_`: of the training data; `n_features_in_` is the second axis of `X`.
    """

    def fit(self, X: Any, y: Any = None, times: Any = None) -> "LrcRidgeClassifier":
        """Draw the features and fit their read-out.

        **Arguments:**

        - `X`: `(n_cases, n_channels, n_timepoints)`, `(n_cases, n_timepoints)`, or a list of `(n_channels, T_i)` or `(T_i,)`.
        - `y`: the class of each case, numbers or text.
        - `times`: time of each step, for irregular series: `(n_timepoints,)`, `(n_cases, n_timepoints)` or a list of `(T_i,)`,
            increasing.
        """
        labels = self._labels(own_targets(X) if y is None else y)
        classes = self._classes_of(labels)
        numbers = np.searchsorted(classes, labels).astype(np.int32)
        self._fit(X, numbers, times, "classify", len(classes), classes)
        self.classes_ = classes
        return self

    def partial_fit(self, X: Any, y: Any, classes: Any = None, times: Any = None) -> "LrcRidgeClassifier":
        """Add cases to those of earlier calls. The solution is that of all cases together.

        The first call determines the features and their standardisation; give it some hundred cases. The solution is computed
        at its first use. Memory is at most about that of two Gram matrices, 8 · `n_features`² bytes (1.2 GB for the default,
        130 MB for 4,000 features), and less while there are fewer cases than half of the features. After `fit`, which keeps no
        sums, it starts from scratch; a saved file holds the solution alone, and cannot be continued.

        **Arguments:**

        - `X`, `y`, `times`: as for `fit`.
        - `classes`: all labels that will occur; needed in the first call only.
        """
        with all_or_nothing(self):
            self._expect(classes)
            if len(self.classes_) < 2:
                raise InvalidValue(f"partial_fit got classes={self.classes_.tolist()}; give at least 2.")
            numbers = self._positions(self._labels(y))
            self._add(X, numbers, times, "classify", len(self.classes_), self.classes_)
        return self


class LrcRidgeRegressor(Regressing, RidgeEstimator):
    """Regressor of time series by ridge regression on random liquid features: fits in seconds, without gradient steps.

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

    - `n_outputs_`: number of outputs per case.
    - `map_`: the `lrcssm.features.FeatureMap`.
    - `trained_`, `model_`: the `lrcssm.training.Trained` and its `lrcssm.features.LiquidModel`.
    - `penalty_`: the ridge penalty, chosen by leave-one-out.
    - `n_channels_`: of the training data; `n_features_in_` is the second axis of `X`.
    """

    def fit(self, X: Any, y: Any = None, times: Any = None) -> "LrcRidgeRegressor":
        """Draw the features and fit their read-out.

        **Arguments:**

        - `X`, `times`: as for `lrcssm.LrcRidgeClassifier`.
        - `y`: numbers, `(n_cases,)` or `(n_cases, n_outputs)`.
        """
        numbers, outputs = self._numbers(own_targets(X) if y is None else y)
        self._fit(X, numbers, times, "regress", outputs)
        self.flat_, self.n_outputs_ = numbers.ndim == 1, outputs
        return self

    def partial_fit(self, X: Any, y: Any, times: Any = None) -> "LrcRidgeRegressor":
        """Add cases to those of earlier calls; the solution is that of all of them together: see
        `lrcssm.LrcRidgeClassifier.partial_fit`.

        **Arguments:**

        - `X`, `y`, `times`: as for `fit`.
        """
        with all_or_nothing(self):
            numbers, outputs = self._numbers(y)
            if hasattr(self, "n_outputs_"):
                self._expect(outputs)
            self._add(X, numbers, times, "regress", outputs)
            self.flat_, self.n_outputs_ = numbers.ndim == 1, outputs
        return self
