"""A regressor for time series."""

from typing import Any

import jax.numpy as jnp
import numpy as np
from sklearn.base import RegressorMixin
from sklearn.metrics import r2_score

from ..errors import InvalidValue
from .arrays import check_array
from .base import all_or_nothing
from .passes import PassLearner


class LrcSSMRegressor(RegressorMixin, PassLearner):
    """Predicts one number, or several, from a time series (time series extrinsic regression).

    ```python
    import lrcssm, numpy as np

    rng = np.random.default_rng(0)
    y = rng.uniform(0.2, 0.6, 40)
    X = np.sin(y[:, None] * np.arange(50) + rng.uniform(0, 6, (40, 1)))
    model = lrcssm.LrcSSMRegressor(hidden_dim=8, state_dim=8, num_blocks=1, steps=100, random_state=0).fit(X, y)
    print(model.predict(X[:2]), model.score(X, y))
    ```

    **Arguments:**

    As for `lrcssm.LrcSSMClassifier`, without `label_smoothing` and `class_weights`.

    **Attributes:**

    - `model_`: the `SequenceModel`.
    - `n_outputs_`: how many numbers are predicted for a case.
    - `history_`, `n_iter_`: one `Epoch` for each look, and how many steps were made.
    - `n_channels_`: of the training data; `n_features_in_` is the second axis of `X`.
    """

    n_outputs_: int
    flat_: bool

    def fit(self, X: Any, y: Any, times: Any = None) -> "LrcSSMRegressor":
        """Trains a new model, or with `warm_start` goes on with the one that is there.

        **Arguments:**

        - `X`: `(n_cases, n_channels, n_timepoints)`, `(n_cases, n_timepoints)`, or a list of `(n_channels, T_i)` or `(T_i,)`.
        - `y`: numbers, `(n_cases,)` or `(n_cases, n_outputs)`.
        - `times`: when each step was measured, for irregular series: `(n_timepoints,)`, `(n_cases, n_timepoints)` or a
            list of `(T_i,)`, increasing.
        """
        self._fit(X, y, times)
        return self

    def partial_fit(self, X: Any, y: Any, times: Any = None) -> "LrcSSMRegressor":
        """One pass over these cases, from where the last call ended, at a constant learning rate after the warm-up. It is one
        look for `callbacks`, `verbose` and `history_`.

        **Arguments:**

        - `X`, `y`, `times`: as for `fit`. The cases of the first call decide how inputs and targets are scaled.
        """
        with all_or_nothing(self):
            self._pass(self._known(X, y, times))
        return self

    def predict(self, X: Any, times: Any = None) -> np.ndarray:
        """Numbers in the shape that `y` had: `(n_cases,)` or `(n_cases, n_outputs)`."""
        found = self._answers(X, times)
        return found[:, 0] if self.flat_ else found

    def score(self, X: Any, y: Any, sample_weight: Any = None, times: Any = None) -> float:
        """R²; of several outputs, the mean of theirs."""
        return float(r2_score(y, self.predict(X, times), sample_weight=sample_weight))

    def _targets(self, y: Any) -> np.ndarray:
        y = check_array(y, ensure_2d=False, dtype=np.float64, input_name="y", estimator=self)
        self.flat_, self.n_outputs_ = y.ndim == 1, 1 if y.ndim == 1 else y.shape[1]
        return y.astype(np.dtype(jnp.result_type(float)))

    def _more_targets(self, y: Any) -> np.ndarray:
        before = getattr(self, "n_outputs_", None)
        targets = self._targets(y)
        if before not in (None, self.n_outputs_):
            raise InvalidValue(
                f"partial_fit got {self.n_outputs_} numbers for each case, but {type(self).__name__} was fitted to {before}; "
                "give as many."
            )
        return targets

    def _task(self) -> dict[str, Any]:
        return {"task": "regress", "output_dim": self.n_outputs_}

    def _facts(self) -> dict[str, Any]:
        return super()._facts() | {"flat_": self.flat_, "n_outputs_": self.n_outputs_}

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags
