"""The two kinds of estimators, classifiers and regressors: targets, and predictions from model outputs."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.metrics import accuracy_score, r2_score
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, column_or_1d

from ..errors import InvalidValue
from ..training import Trained
from ..training.trained import as_probabilities
from .arrays import check_array
from .steps import check_steps, for_each_step, refuse_steps, shaped, step_labels, step_numbers
from .tables import own_targets


class _Kind:
    trained_: Trained

    if TYPE_CHECKING:

        def _outputs(self, X: Any, times: Any) -> Any: ...

    def _each(self, X: Any, times: Any, convert: Callable[[np.ndarray], np.ndarray]) -> Any:
        """Convert the outputs of all cases, or of the steps of each case."""
        found = self._outputs(X, times)
        return shaped([convert(one) for one in found], X) if isinstance(found, list) else convert(found)

    def _given_targets(self, y: Any, dtype: Any) -> np.ndarray:
        if y is None:
            raise InvalidValue(f"{type(self).__name__} requires y to be passed, but the target y is None.")
        return check_array(y, ensure_2d=False, dtype=dtype, input_name="y", estimator=self)


class Classifying(_Kind, ClassifierMixin):
    """Classes from logits."""

    classes_: np.ndarray

    def _labels(self, y: Any) -> np.ndarray:
        """The label of each case, checked."""
        refuse_steps(self, y, several=False)
        labels = column_or_1d(self._given_targets(y, None), warn=True)
        check_classification_targets(labels)
        return labels

    def _classes_of(self, labels: np.ndarray) -> np.ndarray:
        """The classes among labels, at least two."""
        found = np.unique(labels)
        if len(found) < 2:
            raise InvalidValue(
                f"{type(self).__name__} got y with 1 class, {found[0]!r}; give cases of at least 2 classes."
            )
        return found

    def _expect(self, classes: Any) -> None:
        """Keep all classes in the first call of `partial_fit`, and compare them in later ones."""
        if not hasattr(self, "classes_"):
            if classes is None:
                raise InvalidValue("The first call of partial_fit got no classes; give all labels that will occur.")
            self.classes_ = np.unique(classes)
        elif classes is not None and not np.array_equal(np.unique(classes), self.classes_):
            raise InvalidValue("partial_fit got other classes than in its first call; give the same, or none.")

    def _positions(self, labels: np.ndarray) -> np.ndarray:
        """Positions of the labels in `classes_`."""
        if unknown := set(labels.tolist()) - set(self.classes_.tolist()):
            raise InvalidValue(
                f"y holds {next(iter(unknown))!r}, which is none of the classes {self.classes_.tolist()}."
            )
        return np.searchsorted(self.classes_, labels).astype(np.int32)

    def decision_function(self, X: Any, times: Any = None) -> Any:
        """The logits of the classes, `(n_cases, n_classes)`; of two classes their difference, `(n_cases,)`. With
        `task="per-step"` a time axis follows that of the cases, or a list has an array for each case if `X` is a list."""
        check_is_fitted(self, "classes_")
        two = len(self.classes_) == 2
        return self._each(X, times, lambda logits: logits[..., 1] - logits[..., 0] if two else logits)

    def predict_proba(self, X: Any, times: Any = None) -> Any:
        """The probability of each class, `(n_cases, n_classes)`; with `task="per-step"` as for `decision_function`."""
        return self._each(X, times, as_probabilities)

    def predict(self, X: Any, times: Any = None) -> Any:
        """The most probable class of each case; with `task="per-step"` of each step, `(n_cases, n_timepoints)`, or a list of
        `(T_i,)` if `X` is a list."""
        return self._each(X, times, lambda logits: self.classes_[logits.argmax(-1)])

    def score(self, X: Any, y: Any = None, sample_weight: Any = None, times: Any = None) -> float:
        """The accuracy; with `task="per-step"` over all steps that have a label."""
        y = own_targets(X) if y is None else y
        found = self.predict(X, times)
        if not for_each_step(self):
            return float(accuracy_score(y, found, sample_weight=sample_weight))
        labels, _ = step_labels(y, type(self).__name__)
        check_steps(labels, found)
        hits = [
            np.array([b is not None and a == b for a, b in zip(*pair, strict=True)])
            for pair in zip(found, labels, strict=True)
        ]
        known = [np.array([label is not None for label in own]) for own in labels]
        weights = np.ones(len(hits)) if sample_weight is None else np.asarray(sample_weight, float)
        right, all_of_them = (sum(w * one.sum() for w, one in zip(weights, own, strict=True)) for own in (hits, known))
        return float(right / all_of_them)

    def _remember(self, facts: dict[str, Any], arrays: Mapping[str, np.ndarray]) -> None:
        if self.trained_.classes is None:
            raise InvalidValue("its classes are missing")
        self.classes_ = self.trained_.classes
        super()._remember(facts, arrays)  # pyright: ignore[reportAttributeAccessIssue]


class Regressing(_Kind, RegressorMixin):
    """Numbers, in the shape that `y` had."""

    n_outputs_: int
    flat_: bool
    _needed: ClassVar[tuple[str, ...]] = ("flat_", "n_outputs_")

    def _numbers(self, y: Any) -> tuple[np.ndarray, int]:
        """The numbers of each case, checked, and how many there are."""
        refuse_steps(self, y, several=True)
        numbers = self._given_targets(y, np.float64)
        return numbers, 1 if numbers.ndim == 1 else numbers.shape[1]

    def _expect(self, outputs: int) -> None:
        """Compare the numbers of each case with those of the first call of `partial_fit`."""
        if outputs != self.n_outputs_:
            raise InvalidValue(
                f"partial_fit got {outputs} numbers for each case, but {type(self).__name__} was fitted to {self.n_outputs_}; "
                "give as many."
            )

    def predict(self, X: Any, times: Any = None) -> Any:
        """Numbers in the shape that `y` had: `(n_cases,)` or `(n_cases, n_outputs)`; with `task="per-step"` a time axis follows
        that of the cases, or a list has an array for each case if `X` is a list."""
        return self._each(X, times, lambda found: found[..., 0] if self.flat_ else found)

    def score(self, X: Any, y: Any = None, sample_weight: Any = None, times: Any = None) -> float:
        """R²; of several outputs, the mean of theirs; with `task="per-step"` over all steps that have a target."""
        y = own_targets(X) if y is None else y
        found = self.predict(X, times)
        if not for_each_step(self):
            return float(r2_score(y, found, sample_weight=sample_weight))
        numbers = step_numbers(y, type(self).__name__, np.float64)
        check_steps(numbers, found)
        weights = np.ones(len(numbers)) if sample_weight is None else np.asarray(sample_weight, float)
        each = np.repeat(weights, [len(one) for one in numbers])
        wanted, given = (np.concatenate(list(one)).reshape(len(each), -1) for one in (numbers, found))
        known = ~np.isnan(wanted).any(-1)
        return float(r2_score(wanted[known], given[known], sample_weight=each[known]))

    def _facts(self) -> dict[str, Any]:
        return super()._facts() | {"flat_": self.flat_, "n_outputs_": self.n_outputs_}  # pyright: ignore[reportAttributeAccessIssue]

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags
