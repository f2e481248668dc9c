"""The constant prediction as a baseline: the most frequent class of the training cases, or their mean target."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..data import Cases
from .config import TrainingConfig
from .metrics import observed, scores


def constant_of(cases: Cases, *, classify: bool) -> np.ndarray:
    """The best constant output for some cases: 1 for the most frequent class and 0 for the others, or the mean target.

    ```python
    import numpy as np
    from lrcssm.data import Cases
    from lrcssm.training.baseline import constant_of

    cases = Cases.of(np.zeros((3, 10, 1)), targets=np.array([0, 1, 1]))
    print(constant_of(cases, classify=True))  # [0. 1.]
    ```

    **Arguments:**

    - `cases`: with targets; those of skipped steps are ignored.
    - `classify`: true if the targets are numbers of classes.

    **Returns:**

    The output, `(outputs,)`; for classes it is as long as the largest number of a class needs.
    """
    targets = _targets(cases)
    if classify:
        counts = np.bincount(targets.astype(int).ravel())
        return (np.arange(len(counts)) == counts.argmax()).astype(np.float64)
    return targets.reshape(len(targets), -1).astype(np.float64).mean(0)


def known_constant(kept: Any, outputs: int) -> np.ndarray | None:
    """The constant output stored in a file; `None` if it is missing or invalid.

    **Arguments:**

    - `kept`: the stored value.
    - `outputs`: of the model; a constant for classes may leave out the last ones.
    """
    fits = isinstance(kept, list) and 0 < len(kept) <= outputs
    if not fits or not all(isinstance(one, int | float) and np.isfinite(one) for one in kept):
        return None
    return np.array(kept, np.float64)


def constant_scores(constant: np.ndarray, targets: np.ndarray, classes: Sequence[str] | None) -> dict[str, Any]:
    """Scores of a constant output, and its `prediction`.

    **Arguments:**

    - `constant`: the result of `constant_of`.
    - `targets`: to compare with.
    - `classes`: names of the classes, or `None` for numbers.
    """
    if classes is None:
        found = scores(np.broadcast_to(constant, (len(targets), len(constant))), targets, classify=False)
        return {"prediction": constant.tolist() if len(constant) > 1 else float(constant[0])} | found
    best = int(constant.argmax())
    return {"prediction": classes[best], "accuracy": float(np.mean(targets.astype(int) == best))}


def doubt(fitted: Any, train: Cases, validation: Cases | None, training: TrainingConfig) -> str | None:
    """A warning if the trained model is no better on the validation cases than a constant prediction.

    **Arguments:**

    - `fitted`: a `Fitted`.
    - `train`, `validation`: the cases that it was trained and chosen on.
    - `training`: its settings.

    **Returns:**

    A message; `None` if the model is better, or without validation cases.
    """
    kept = next((one.scores for one in fitted.history if one.step == fitted.step), {})
    if validation is None or not ("accuracy" in kept or "mse" in kept):
        return None
    classify = "accuracy" in kept
    constant, targets = constant_of(train, classify=classify), _targets(validation)
    if classify:
        share = float(np.mean(targets.astype(int) == constant.argmax()))
        if kept["accuracy"] > share:
            return None
        numbers = (
            f"an accuracy of {kept['accuracy']:.1%}, and always predicting the most frequent class has {share:.1%}"
        )
    else:
        error = scores(np.broadcast_to(constant, (len(targets), len(constant))), targets, classify=False)["mse"]
        if kept["mse"] < error:
            return None
        numbers = f"a mean squared error of {kept['mse']:.4g}, and always predicting the mean has {error:.4g}"
    usual = TrainingConfig.learning_rate
    remedy = "train for more steps, or check data and targets"
    if training.learning_rate > 3 * usual:
        remedy = f"lower the learning rate from {training.learning_rate:g} to about {usual:g}, or {remedy}"
    return f"The model is no better than a constant on the validation cases: it has {numbers}; {remedy}."


def _targets(cases: Cases) -> np.ndarray:
    if not isinstance(cases.targets, tuple):
        return np.asarray(cases.targets)
    return observed([np.zeros((len(one), 1)) for one in cases.series], cases)[1]
