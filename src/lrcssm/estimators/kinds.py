"""The two kinds of estimators: what they take for targets, and what they make of a model's outputs."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.metrics import accuracy_score, r2_score
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d

from ..errors import InvalidValue
from ..training import Trained
from ..training.trained import as_probabilities
from .arrays import check_array


class _Kind:
    trained_: Trained

    if TYPE_CHECKING:

        def _outputs(self, X: Any, times: Any) -> np.ndarray: ...

    def _given_targets(self, y: Any, dtype: Any) -> np.ndarray:
        if y is None:
            raise InvalidValue(f"{type(self).__name__} requires y to be passed, but the target y is None.")
        return check_array(y, ensure_2d=False, dtype=dtype, input_name="y", estimator=self)


class Classifying(_Kind, ClassifierMixin):
    """Classes from logits."""

    classes_: np.ndarray

    def _labels(self, y: Any) -> np.ndarray:
        """The label of each case, checked."""
        labels = column_or_1d(self._given_targets(y, None), warn=True)
        check_classification_targets(labels)
        return labels

    def _classes_of(self, labels: np.ndarray) -> np.ndarray:
        """The classes among labels, of which there must be two."""
        found = np.unique(labels)
        if len(found) < 2:
            raise InvalidValue(
                f"{type(self).__name__} got y with 1 class, {found[0]!r}; give cases of at least 2 classes."
            )
        return found

    def decision_function(self, X: Any, times: Any = None) -> np.ndarray:
        """The logits of the classes, `(n_cases, n_classes)`; of two classes their difference, `(n_cases,)`."""
        logits = self._outputs(X, times)
        return logits[:, 1] - logits[:, 0] if len(self.classes_) == 2 else logits

    def predict_proba(self, X: Any, times: Any = None) -> np.ndarray:
        """The probability of each class, `(n_cases, n_classes)`."""
        return as_probabilities(self._outputs(X, times))

    def predict(self, X: Any, times: Any = None) -> np.ndarray:
        """The most probable class of each case."""
        best = self._outputs(X, times).argmax(-1)
        return self.classes_[best]

    def score(self, X: Any, y: Any, sample_weight: Any = None, times: Any = None) -> float:
        """The accuracy."""
        return float(accuracy_score(y, self.predict(X, times), sample_weight=sample_weight))

    def _remember(self, facts: dict[str, Any], arrays: Mapping[str, np.ndarray]) -> None:
        assert self.trained_.classes is not None
        self.classes_ = self.trained_.classes
        super()._remember(facts, arrays)  # pyright: ignore[reportAttributeAccessIssue]


class Regressing(_Kind, RegressorMixin):
    """Numbers, in the shape that `y` had."""

    n_outputs_: int
    flat_: bool

    def _numbers(self, y: Any) -> tuple[np.ndarray, int]:
        """The numbers of each case, checked, and how many there are."""
        numbers = self._given_targets(y, np.float64)
        return numbers, 1 if numbers.ndim == 1 else numbers.shape[1]

    def predict(self, X: Any, times: Any = None) -> np.ndarray:
        """Numbers in the shape that `y` had: `(n_cases,)` or `(n_cases, n_outputs)`."""
        found = self._outputs(X, times)
        return found[:, 0] if self.flat_ else found

    def score(self, X: Any, y: Any, sample_weight: Any = None, times: Any = None) -> float:
        """R²; of several outputs, the mean of theirs."""
        return float(r2_score(y, self.predict(X, times), sample_weight=sample_weight))

    def _facts(self) -> dict[str, Any]:
        return super()._facts() | {"flat_": self.flat_, "n_outputs_": self.n_outputs_}  # pyright: ignore[reportAttributeAccessIssue]

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags
