"""The classifier that is trained by gradients."""

from typing import Any

import numpy as np

from ..data import Cases
from ..errors import InvalidValue
from .base import SeriesLearner, all_or_nothing
from .kinds import Classifying
from .parameters import ClassifierParameters, documented


@documented
class LrcSSMClassifier(Classifying, SeriesLearner, ClassifierParameters):
    """Classifier of time series, of equal length or not, with one channel or many.

    Without any parameter it is ridge regression on random liquid features, as `lrcssm.LrcRidgeClassifier`; parameters of model
    and training ask for an LrcSSM that is trained by gradients.

    ```python
    import lrcssm, numpy as np

    rng = np.random.default_rng(0)
    y = np.repeat(["slow", "fast"], 20)
    X = np.sin(np.where(y == "slow", 0.2, 0.6)[:, None] * np.arange(50) + rng.uniform(0, 6, (40, 1)))
    model = lrcssm.LrcSSMClassifier(hidden_dim=8, state_dim=8, num_blocks=1, steps=100, random_state=0).fit(X, y)
    print(model.predict(X[:2]), model.score(X, y))
    ```

    {arguments}

    **Attributes:**

    - `trained_`, `model_`: the `lrcssm.training.Trained`, and its `SequenceModel` (or, with ridge, its `lrcssm.features.LiquidModel`).
    - `classes_`: the labels, in the order of the columns of `predict_proba`.
    - `history_`, `n_iter_`: one `Evaluation` for each evaluation, and the number of steps made.
    - `n_channels_`: of the training data; `n_features_in_` is the second axis of `X`.
    """

    _classes_given = False  # true while `partial_fit` has been told all classes

    def fit(self, X: Any, y: Any, sample_weight: Any = None, times: Any = None) -> "LrcSSMClassifier":
        """Train a new model, or with `warm_start` go on with the one that is there.

        **Arguments:**

        - `X`: `(n_cases, n_channels, n_timepoints)`, `(n_cases, n_timepoints)`, or a list of `(n_channels, T_i)` or `(T_i,)`.
        - `y`: the class of each case, numbers or text.
        - `sample_weight`: weight of each case in the loss, `(n_cases,)`.
        - `times`: time of each step, for irregular series: `(n_timepoints,)`, `(n_cases, n_timepoints)` or a list of `(T_i,)`,
            increasing.
        """
        self._fit(X, y, sample_weight, times)
        return self

    def partial_fit(
        self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None, times: Any = None
    ) -> "LrcSSMClassifier":
        """Make one pass over these cases, from where the last call ended, at a constant learning rate after the warm-up. It is
        one evaluation for `callbacks`, `verbose` and `history_`.

        **Arguments:**

        - `X`, `y`, `sample_weight`, `times`: as for `fit`.
        - `classes`: all labels there will ever be; needed in the first call only.
        """
        with all_or_nothing(self):
            self._expect(classes)
            self._classes_given = True
            try:
                self._pass(X, y, sample_weight, times)
            finally:
                self._classes_given = False
        return self

    def _expect(self, classes: Any) -> None:
        """Keep all classes in the first call of `partial_fit`, and compare them in later ones."""
        if not hasattr(self, "trained_"):
            if classes is None:
                raise InvalidValue("The first call of partial_fit got no classes; give all labels that there will be.")
            self.classes_ = np.unique(classes)
        elif classes is not None and not np.array_equal(np.unique(classes), self.classes_):
            raise InvalidValue("partial_fit got other classes than in its first call; give the same, or none.")

    def _numbers(self, labels: np.ndarray) -> np.ndarray:
        """Positions of the labels in `classes_`."""
        if unknown := set(labels.tolist()) - set(self.classes_.tolist()):
            raise InvalidValue(
                f"y holds {next(iter(unknown))!r}, which is none of the classes {self.classes_.tolist()}."
            )
        return np.searchsorted(self.classes_, labels).astype(np.int32)

    def _targets(self, y: Any, *, reset: bool) -> np.ndarray:
        labels = self._labels(y)
        if reset and not self._classes_given:
            found = self._classes_of(labels)
            if self._goes_on() and not np.array_equal(found, self.classes_):
                raise InvalidValue(
                    f"fit got classes {found.tolist()}, but goes on from a model of {self.classes_.tolist()}; set "
                    "warm_start=False to start anew."
                )
            self.classes_ = found
        return self._numbers(labels)

    def _task(self) -> tuple[str, int]:
        return "classify", len(self.classes_)

    def _labels_of(self, cases: Cases) -> np.ndarray | None:
        return np.asarray(cases.targets)

    def _described(self) -> dict[str, Any]:
        return {"classes": self.classes_}
