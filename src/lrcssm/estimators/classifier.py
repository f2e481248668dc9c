"""A classifier of time series."""

from typing import Any

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.metrics import accuracy_score
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d

from ..errors import InvalidValue
from ..training.metrics import log_softmax
from .arrays import check_array
from .base import all_or_nothing
from .parameters import ClassifierParameters
from .passes import PassLearner


class LrcSSMClassifier(ClassifierMixin, PassLearner, ClassifierParameters):
    """Classifies time series, of equal length or not, with one channel or many.

    ```python
    import lrcssm, numpy as np

    rng = np.random.default_rng(0)
    y = np.repeat(["slow", "fast"], 20)
    X = np.sin(np.where(y == "slow", 0.2, 0.6)[:, None] * np.arange(50) + rng.uniform(0, 6, (40, 1)))
    model = lrcssm.LrcSSMClassifier(hidden_dim=8, state_dim=8, num_blocks=1, steps=100, random_state=0).fit(X, y)
    print(model.predict(X[:2]), model.score(X, y))
    ```

    **Arguments:**

    - `architecture`: a name of `lrcssm.models.ARCHITECTURES`, such as `"s5"` or `"mamba"`: its cell and its block, unless
        they are given by hand below. What is `None` there is as the architecture says; where that says nothing it is
        `num_blocks=2`, `encoder="mlp"`, `layout="plain"`, `norm="layer"`, `mixer="glu"`, `dropout=0.1`, `bidirectional=True`,
        `pool="mean-max-std"` and `patch="auto"`.
    - `width`, `state`, `depth`, `cell`, `cell_options`, `encoder`, `signature`, `differences`, `standardise`, `layout`, `norm`,
        `final_norm`, `mixer`, `activation`, `dropout`, `time`, `bidirectional`, `pool`, `matmul`: as for `lrcssm.ModelConfig`.
        Without `cell_options` the time constants of the cell are spread over the length of the longest series.
    - `patch`: how many steps become one before the encoder; `"auto"` takes the root of the length, and 1 with a `signature`.
    - `missing`: what to do with NaN: `"error"`; `"mask"`, skip a step where a channel is missing; or `"fill"`, carry the
        last value forward.
    - `steps`, `batch`, `learning_rate`, `schedule`, `warmup`, `weight_decay`, `clip`, `ema`, `label_smoothing`,
        `class_weights`, `monitor`, `check_every`, `patience`, `chunk`, `memory`,
        `truncate`: as for `lrcssm.training.TrainingConfig`.
    - `validation_fraction`: the share of each class that is held out, to keep the weights that are best on it; 0 trains
        on everything and keeps the last weights.
    - `solver`: of the recurrences: `"auto"`, `"sequential"`, `"deer"` or `"elk"`, or one with options, such as
        `lrcssm.DEER(quasi=True)`; `None` is `"auto"`.
    - `callbacks`: a function or a list of them, called with an `Epoch` at each look at the validation data; training ends
        if one returns true.
    - `random_state`: a whole number for the same model each time.
    - `verbose`: 1 prints a line at each look.
    - `warm_start`: `fit` goes on with the weights that are there.

    **Attributes:**

    - `model_`: the `SequenceModel`.
    - `classes_`: the labels, in the order of the columns of `predict_proba`.
    - `history_`, `n_iter_`: one `Epoch` for each look, and how many steps were made.
    - `n_channels_`: of the training data; `n_features_in_` is the second axis of `X`.
    """

    classes_: np.ndarray

    def fit(self, X: Any, y: Any, times: Any = None) -> "LrcSSMClassifier":
        """Trains a new model, or with `warm_start` goes on with the one that is there.

        **Arguments:**

        - `X`: `(n_cases, n_channels, n_timepoints)`, `(n_cases, n_timepoints)`, or a list of `(n_channels, T_i)` or `(T_i,)`.
        - `y`: the class of each case, numbers or text.
        - `times`: when each step was measured, for irregular series: `(n_timepoints,)`, `(n_cases, n_timepoints)` or a
            list of `(T_i,)`, increasing.
        """
        self._fit(X, y, times)
        return self

    def partial_fit(self, X: Any, y: Any, classes: Any = None, times: Any = None) -> "LrcSSMClassifier":
        """One pass over these cases, from where the last call ended, at a constant learning rate after the warm-up. It is one
        look for `callbacks`, `verbose` and `history_`.

        **Arguments:**

        - `X`, `y`, `times`: as for `fit`.
        - `classes`: all labels there will ever be; needed in the first call only.
        """
        with all_or_nothing(self):
            self._expect(classes)
            self._pass(self._known(X, y, times))
        return self

    def decision_function(self, X: Any, times: Any = None) -> np.ndarray:
        """The logits of the classes, `(n_cases, n_classes)`; of two classes their difference, `(n_cases,)`."""
        logits = self._answers(X, times)
        return logits[:, 1] - logits[:, 0] if len(self.classes_) == 2 else logits

    def predict_proba(self, X: Any, times: Any = None) -> np.ndarray:
        """The probability of each class, `(n_cases, n_classes)`."""
        return np.exp(log_softmax(self._answers(X, times)))

    def predict(self, X: Any, times: Any = None) -> np.ndarray:
        """The most probable class of each case."""
        best = self._answers(X, times).argmax(-1)
        return self.classes_[best]

    def score(self, X: Any, y: Any, sample_weight: Any = None, times: Any = None) -> float:
        """The accuracy."""
        return float(accuracy_score(y, self.predict(X, times), sample_weight=sample_weight))

    def _expect(self, classes: Any) -> None:
        """Takes note of all classes in the first call of `partial_fit`, and compares them in those after it."""
        if not hasattr(self, "model_"):
            if classes is None:
                raise InvalidValue("The first call of partial_fit got no classes; give all labels that there will be.")
            self.classes_ = np.unique(classes)
        elif classes is not None and not np.array_equal(np.unique(classes), self.classes_):
            raise InvalidValue("partial_fit got other classes than in its first call; give the same, or none.")

    def _labels(self, y: Any) -> np.ndarray:
        y = check_array(y, ensure_2d=False, dtype=None, input_name="y", estimator=self)
        y = column_or_1d(y, warn=True)
        check_classification_targets(y)
        return y

    def _numbers(self, labels: np.ndarray) -> np.ndarray:
        """Positions of the labels in `classes_`."""
        if unknown := set(labels.tolist()) - set(self.classes_.tolist()):
            raise InvalidValue(
                f"y holds {next(iter(unknown))!r}, which is none of the classes {self.classes_.tolist()}."
            )
        return np.searchsorted(self.classes_, labels).astype(np.int32)

    def _targets(self, y: Any) -> np.ndarray:
        labels = self._labels(y)
        found = np.unique(labels)
        if self._goes_on() and not np.array_equal(found, self.classes_):
            raise InvalidValue(
                f"fit got classes {found.tolist()}, but goes on from a model of {self.classes_.tolist()}; set "
                "warm_start=False to start anew."
            )
        self.classes_ = found
        return self._numbers(labels)

    def _task(self) -> dict[str, Any]:
        return {"task": "classify", "output_dim": len(self.classes_)}

    def _validation(self, targets: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """The same share of each class."""
        order = rng.permutation(len(targets))
        groups = [order[targets[order] == label] for label in np.unique(targets)]
        return np.sort(np.concatenate([group[: self._held_out(len(group))] for group in groups]))

    def _more_targets(self, y: Any) -> np.ndarray:
        return self._numbers(self._labels(y))

    def _facts(self) -> dict[str, Any]:
        labels = {"dtype": self.classes_.dtype.str, "values": self.classes_.tolist()}
        return super()._facts() | {"classes_": labels}

    def _remember(self, facts: dict[str, Any]) -> None:
        facts = dict(facts)
        labels = facts.pop("classes_")
        super()._remember(facts)
        self.classes_ = np.array(labels["values"], np.dtype(labels["dtype"]))
