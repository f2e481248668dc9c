"""Calibrated probabilities from decision values.

The probabilities are softmax(s · decisions). The factor s minimises the log-loss of decisions of cases that were held out,
with targets that are smoothed as Platt (1999) advises, so that it stays finite where all held-out cases are right: the
class of a case counts (n + 1)/(n + 2), and the others share the rest.
"""

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax

_DEFAULT = 2.0  # where no case was held out: 0.98 for decisions of 1 against -1


def softmax_factor(decisions: np.ndarray, classes: np.ndarray) -> float:
    """The factor s for held-out decisions.

    **Arguments:**

    - `decisions`: `(cases, classes)`.
    - `classes`: the number of each case's class.
    """
    count, width = decisions.shape
    if not count:
        return _DEFAULT
    rest = 1 / (count + 2)
    targets = np.full((count, width), rest / max(width - 1, 1))
    targets[np.arange(count), classes] = 1 - rest
    loss = lambda log_factor: -float(np.mean(np.sum(targets * log_softmax(np.exp(log_factor) * decisions, 1), 1)))
    return float(np.exp(minimize_scalar(loss, bounds=(-5.0, 7.0), method="bounded").x))  # pyright: ignore[reportAttributeAccessIssue]
