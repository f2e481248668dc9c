"""The regressor trained by gradients."""

from typing import Any

import jax.numpy as jnp
import numpy as np

from .base import SeriesLearner
from .kinds import Regressing
from .parameters import documented
from .steps import Steps, for_each_step, step_numbers


@documented
class LrcSSMRegressor(Regressing, SeriesLearner):
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
    - `n_outputs_`: number of outputs per case.
    - `history_`, `n_iter_`: one `Evaluation` for each evaluation, and the number of steps made.
    - `n_channels_`: of the training data; `n_features_in_` is the second axis of `X`.
    """

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None, times: Any = None) -> "LrcSSMRegressor":
        """Train a new model, or with `warm_start` continue training the current one.

        **Arguments:**

        - `X`, `sample_weight`, `times`: as for `lrcssm.LrcSSMClassifier.fit`.
        - `y`: numbers, `(n_cases,)` or `(n_cases, n_outputs)`; with `task="per-step"` of each step, `(n_cases, n_timepoints)`,
            `(n_cases, n_timepoints, n_outputs)` or a list with an array for each case, where NaN is a missing target. `None` takes
            the targets of a `Dataset`.
        """
        self._fit(X, y, sample_weight, times)
        return self

    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None, times: Any = None) -> "LrcSSMRegressor":
        """Make one pass over these cases, continuing from the last call, at a constant learning rate after the warm-up. A pass
        counts as one evaluation for `callbacks`, `verbose` and `history_`.

        **Arguments:**

        - `X`, `y`, `sample_weight`, `times`: as for `fit`. The cases of the first call determine the scale of inputs and
            targets.
        """
        self._pass(X, y, sample_weight, times)
        return self

    def _targets(self, y: Any, *, reset: bool) -> np.ndarray | Steps:
        dtype = np.dtype(jnp.result_type(float))
        if for_each_step(self):
            steps = step_numbers(y, type(self).__name__, dtype)
            self.flat_, self.n_outputs_ = steps[0].ndim == 1, 1 if steps[0].ndim == 1 else steps[0].shape[1]
            return steps
        numbers, outputs = self._numbers(y)
        if not reset:
            self._expect(outputs)
        self.flat_, self.n_outputs_ = numbers.ndim == 1, outputs
        return numbers.astype(dtype)

    def _task(self) -> tuple[str, int]:
        return "per-step" if for_each_step(self) else "regress", self.n_outputs_
