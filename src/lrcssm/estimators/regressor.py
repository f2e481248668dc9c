"""The regressor that is trained by gradients."""

from typing import Any

import jax.numpy as jnp
import numpy as np
from sklearn.base import RegressorMixin
from sklearn.metrics import r2_score

from ..errors import InvalidValue
from .arrays import check_array
from .base import SeriesLearner
from .parameters import documented


@documented
class LrcSSMRegressor(RegressorMixin, SeriesLearner):
    """Regressor from a time series to one number, or several (time series extrinsic regression).

    ```python
    import lrcssm, numpy as np

    rng = np.random.default_rng(0)
    y = rng.uniform(0.2, 0.6, 40)
    X = np.sin(y[:, None] * np.arange(50) + rng.uniform(0, 6, (40, 1)))
    model = lrcssm.LrcSSMRegressor(hidden_dim=8, state_dim=8, num_blocks=1, steps=100, random_state=0).fit(X, y)
    print(model.predict(X[:2]), model.score(X, y))
    ```

    {arguments}

    **Attributes:**

    - `trained_`, `model_`: the `lrcssm.training.Trained`, and its `SequenceModel` (or, with ridge, its `lrcssm.features.LiquidModel`).
    - `n_outputs_`: numbers that are predicted for a case.
    - `history_`, `n_iter_`: one `Evaluation` for each evaluation, and the number of steps made.
    - `n_channels_`: of the training data; `n_features_in_` is the second axis of `X`.
    """

    n_outputs_: int
    flat_: bool

    def fit(self, X: Any, y: Any, sample_weight: Any = None, times: Any = None) -> "LrcSSMRegressor":
        """Train a new model, or with `warm_start` continue with the present one.

        **Arguments:**

        - `X`, `sample_weight`, `times`: as for `lrcssm.LrcSSMClassifier.fit`.
        - `y`: numbers, `(n_cases,)` or `(n_cases, n_outputs)`.
        """
        self._fit(X, y, sample_weight, times)
        return self

    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None, times: Any = None) -> "LrcSSMRegressor":
        """Make one pass over these cases, from where the last call ended, at a constant learning rate after the warm-up. It is
        one evaluation for `callbacks`, `verbose` and `history_`.

        **Arguments:**

        - `X`, `y`, `sample_weight`, `times`: as for `fit`. The cases of the first call decide how inputs and targets are scaled.
        """
        self._pass(X, y, sample_weight, times)
        return self

    def predict(self, X: Any, times: Any = None) -> np.ndarray:
        """Numbers in the shape that `y` had: `(n_cases,)` or `(n_cases, n_outputs)`."""
        found = self._predicted(X, times)
        return found[:, 0] if self.flat_ else found

    def score(self, X: Any, y: Any, sample_weight: Any = None, times: Any = None) -> float:
        """R²; of several outputs, the mean of theirs."""
        return float(r2_score(y, self.predict(X, times), sample_weight=sample_weight))

    def _targets(self, y: Any, *, reset: bool) -> np.ndarray:
        y = check_array(y, ensure_2d=False, dtype=np.float64, input_name="y", estimator=self)
        outputs = 1 if y.ndim == 1 else y.shape[1]
        if not reset and outputs != self.n_outputs_:
            raise InvalidValue(
                f"partial_fit got {outputs} numbers for each case, but {type(self).__name__} was fitted to {self.n_outputs_}; "
                "give as many."
            )
        self.flat_, self.n_outputs_ = y.ndim == 1, outputs
        return y.astype(np.dtype(jnp.result_type(float)))

    def _task(self) -> tuple[str, int]:
        return "regress", self.n_outputs_

    def _facts(self) -> dict[str, Any]:
        return super()._facts() | {"flat_": self.flat_, "n_outputs_": self.n_outputs_}

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags
