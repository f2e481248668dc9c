"""Calibration of probabilities: a reliability diagram as numbers, and the expected calibration error."""

import dataclasses

import numpy as np


@dataclasses.dataclass(frozen=True)
class Reliability:
    """Cases grouped by the probability of their predicted class; groups without a case are left out.

    **Attributes:**

    - `confidence`: mean probability of the predicted class in each group.
    - `accuracy`: share of right predictions in each group.
    - `count`: cases of each group.
    - `error`: expected calibration error: the mean of |accuracy − confidence| over all cases.
    """

    confidence: np.ndarray
    accuracy: np.ndarray
    count: np.ndarray
    error: float


def reliability(probabilities: np.ndarray, targets: np.ndarray, bins: int = 10) -> Reliability:
    """Compare probabilities with the share of right predictions (Guo et al., 2017).

    ```python
    import numpy as np
    from lrcssm.training.reliability import reliability

    found = reliability(np.array([[0.8, 0.2], [0.7, 0.3], [0.1, 0.9], [0.2, 0.8]]), np.array([0, 1, 1, 1]), bins=5)
    print(found.count, round(found.error, 2))  # [1 3] 0.3
    ```

    **Arguments:**

    - `probabilities`: `(cases, classes)`.
    - `targets`: the number of each case's class.
    - `bins`: groups of equal width between 0 and 1.

    **Returns:**

    A `Reliability`.
    """
    top, right = probabilities.max(-1), probabilities.argmax(-1) == targets.astype(int)
    # A probability at an edge belongs to the lower group.
    group = np.clip(np.ceil(top * bins - 1e-9).astype(int) - 1, 0, bins - 1)
    count = np.bincount(group, minlength=bins)
    kept = np.flatnonzero(count)
    confidence = np.bincount(group, top, bins)[kept] / count[kept]
    accuracy = np.bincount(group, right, bins)[kept] / count[kept]
    error = float(np.sum(count[kept] * np.abs(accuracy - confidence)) / len(targets))
    return Reliability(confidence, accuracy, count[kept], error)
