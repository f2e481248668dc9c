"""The classifier trained by gradients."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from ..data import Cases
from ..errors import InvalidValue
from .base import SeriesLearner, all_or_nothing
from .kinds import Classifying
from .parameters import ClassifierParameters, documented
from .steps import Steps, for_each_step, positions, step_labels


@documented
class LrcSSMClassifier(Classifying, SeriesLearner, ClassifierParameters):
    """Classifier of time series, of equal length or not, with one channel or many.

    Without any parameters it uses ridge regression on random liquid features, like `lrcssm.LrcRidgeClassifier`; with parameters of
    the model or the training it trains an LrcSSM by gradients.

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

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None, times: Any = None) -> "LrcSSMClassifier":
        """Train a new model, or with `warm_start` continue training the current one.

        **Arguments:**

        - `X`: `(n_cases, n_channels, n_timepoints)`, `(n_cases, n_timepoints)`, or a list of `(n_channels, T_i)` or `(T_i,)`; a list
            of DataFrames (time × columns), a DataArray, or a `lrcssm.data.Dataset`.
        - `y`: the class of each case, numbers or text; with `task="per-step"` of each step, `(n_cases, n_timepoints)` or a list of
            `(T_i,)`, where None and NaN are missing labels. `None` takes the targets of a `Dataset`.
        - `sample_weight`: weight of each case in the loss, `(n_cases,)`.
        - `times`: time of each step, for irregular series: `(n_timepoints,)`, `(n_cases, n_timepoints)` or a list of `(T_i,)`,
            increasing.
        """
        self._fit(X, y, sample_weight, times)
        return self

    def partial_fit(
        self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None, times: Any = None
    ) -> "LrcSSMClassifier":
        """Make one pass over these cases, continuing from the last call, at a constant learning rate after the warm-up. A pass
        counts as one evaluation for `callbacks`, `verbose` and `history_`.

        **Arguments:**

        - `X`, `y`, `sample_weight`, `times`: as for `fit`.
        - `classes`: all labels; required in the first call only.
        """
        with all_or_nothing(self):
            self._expect(classes)
            self._classes_given = True
            try:
                self._pass(X, y, sample_weight, times)
            finally:
                self._classes_given = False
        return self

    def _targets(self, y: Any, *, reset: bool) -> np.ndarray | Steps:
        if stepwise := for_each_step(self):
            labels, occurring = step_labels(y, type(self).__name__)
        else:
            labels = occurring = self._labels(y)
        if reset and not self._classes_given:
            found = self._classes_of(occurring)
            if self._goes_on() and not np.array_equal(found, self.classes_):
                raise InvalidValue(
                    f"fit got classes {found.tolist()}, but continues a model of {self.classes_.tolist()}; set "
                    "warm_start=False to start from scratch."
                )
            self.classes_ = found
        return positions(labels, self.classes_) if stepwise else self._positions(labels)  # pyright: ignore[reportArgumentType]

    def _weights(self, targets: np.ndarray | Steps, sample_weight: Any) -> Any:
        given = self.class_weights
        if given is not None and isinstance(targets, tuple):
            raise InvalidValue(
                f'{type(self).__name__} got class_weights and task="per-step", where steps have no weights; leave one of them out.'
            )
        if not isinstance(given, Mapping):
            return sample_weight
        known = self.classes_.tolist()
        for label, weight in given.items():
            if label not in known:
                raise InvalidValue(
                    f"{type(self).__name__} got class_weights for {label!r}, which is none of the classes {known}; leave it out."
                )
            if not (np.isreal(weight) and 0 <= float(weight) < np.inf):
                raise InvalidValue(
                    f"{type(self).__name__} got class_weights with {label!r}: {weight!r}; give a finite number of at least 0."
                )
        each = np.array([float(given.get(label, 1.0)) for label in known])[targets]
        return each if sample_weight is None else each * np.asarray(sample_weight, np.float64)

    def _task(self) -> tuple[str, int]:
        return "per-step" if for_each_step(self) else "classify", len(self.classes_)

    def _labels_of(self, cases: Cases) -> np.ndarray | None:
        return None if isinstance(cases.targets, tuple) else np.asarray(cases.targets)

    def _described(self) -> dict[str, Any]:
        return super()._described() | {"classes": self.classes_}
