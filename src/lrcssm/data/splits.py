"""Parts of a data set: positions of the cases for training, validation and test."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Int

VALIDATION = 0.15
"""Share of the cases that is held out for validation, and for test, by default."""


class Split(NamedTuple):
    """Positions of the cases of each part."""

    train: Int[np.ndarray, " train"]
    validation: Int[np.ndarray, " validation"]
    test: Int[np.ndarray, " test"]

    @classmethod
    def of(cls, order: Int[np.ndarray, " cases"]) -> "Split":
        """Cut an order of cases into 70, 15 and 15 %."""
        return cls(*np.split(order, [int(0.7 * len(order)), int(0.85 * len(order))]))


def hold_out(
    which: Int[np.ndarray, " cases"], share: float, rng: np.random.Generator, labels: np.ndarray | None = None
) -> tuple[Int[np.ndarray, " kept"], Int[np.ndarray, " held"]]:
    """Draw a share of some cases at random, from each class in proportion.

    ```python
    import numpy as np
    from lrcssm.data.splits import hold_out

    kept, held = hold_out(np.arange(10), 0.2, np.random.default_rng(0))
    print(len(kept), len(held))  # 8 2
    ```

    **Arguments:**

    - `which`: positions of the cases.
    - `share`: of them, from 0 to below 1. At least one case is held out unless it is 0.
    - `rng`: source of randomness.
    - `labels`: class of each of these cases, or `None` to draw without regard to classes.

    **Returns:**

    Positions that are kept and positions that are held out, both sorted.
    """
    order = rng.permutation(len(which))
    count = 0 if share == 0 else max(1, round(share * len(which)))
    if labels is not None:
        # The k-th case of n of a class stands at (k + 1/2)/n: an order in which each beginning has the same shares.
        place, drawn = np.zeros(len(order)), np.asarray(labels)[order]
        for label in np.unique(drawn):
            own = drawn == label
            place[own] = (np.arange(own.sum()) + rng.uniform(0.25, 0.75)) / own.sum()
        order = order[np.argsort(place, kind="stable")]
    return np.sort(which[order[count:]]), np.sort(which[order[:count]])
