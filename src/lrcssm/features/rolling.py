"""Ridge regression with rolling-origin evaluation: fits on the past, errors on later windows.

The windows of each series are in the order of time. The second half of them is cut into folds; the windows of a fold are forecast
by a fit on all windows whose values ended before the first of them was made, so that nothing of the future is used.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

FOLDS = 4
_LEAST = 3  # windows of the first fit


class Fold(NamedTuple):
    """Positions of the windows to fit, and of those to forecast."""

    train: np.ndarray
    test: np.ndarray


def rolling_folds(series: np.ndarray, begins: np.ndarray, horizon: int, count: int = FOLDS) -> list[Fold]:
    """Folds of windows.

    **Arguments:**

    - `series`: the number of the series that each window is of.
    - `begins`: the step at which each window begins.
    - `horizon`: steps that are forecast.
    - `count`: folds, at most.

    **Returns:**

    Folds in the order of time; none if the series are too short.
    """
    bounds = {}
    for one in np.unique(series):
        own = begins[series == one]
        first, last = int(own.min()), int(own.max())
        start = max((first + last + 1) // 2, first + horizon + _LEAST - 1)
        bounds[one] = np.linspace(min(start, last + 1), last + 1, count + 1).astype(int)
    limits = np.array([bounds[one] for one in series]) if len(series) else np.zeros((0, count + 1), int)
    found = []
    for k in range(count):
        train = np.flatnonzero(begins <= limits[:, k] - horizon)
        test = np.flatnonzero((limits[:, k] <= begins) & (begins < limits[:, k + 1]))
        if len(train) >= _LEAST and len(test):
            found.append(Fold(train, test))
    return found


class Ridge(NamedTuple):
    """A ridge problem with its eigenvalues, solved for any penalty.

    **Attributes:**

    - `mean`, `centre`: of the rows, and of the targets.
    - `values`, `vectors`: of the Gram matrix of the columns; those of no eigenvalue are left out.
    - `projected`: the targets along the vectors.
    """

    mean: np.ndarray
    centre: np.ndarray
    values: np.ndarray
    vectors: np.ndarray
    projected: np.ndarray

    @classmethod
    def of(cls, rows: np.ndarray, targets: np.ndarray) -> "Ridge":
        """Decompose the Gram matrix of the rows or of the columns, whichever is smaller.

        **Arguments:**

        - `rows`: `(cases, columns)`.
        - `targets`: `(cases, outputs)`.
        """
        mean, centre = rows.mean(0), targets.mean(0)
        z, y = rows - mean, targets - centre
        wide = len(z) <= z.shape[1]
        values, vectors = np.linalg.eigh(z @ z.T if wide else z.T @ z)
        kept = values > 1e-10 * max(values[-1], 1e-300)
        values, vectors = values[kept], vectors[:, kept]
        if wide:
            vectors = z.T @ vectors / np.sqrt(values)
        return cls(mean, centre, values, vectors, vectors.T @ (z.T @ y))

    def weights(self, penalty: float) -> tuple[np.ndarray, np.ndarray]:
        """Weights `(columns, outputs)` and intercept for a penalty."""
        weights = self.vectors @ (self.projected / (self.values + penalty)[:, None])
        return weights, self.centre - self.mean @ weights

    def path(self, rows: np.ndarray, penalties: np.ndarray) -> Iterator[np.ndarray]:
        """Predictions of new rows, one array `(cases, outputs)` for each penalty."""
        along = (rows - self.mean) @ self.vectors
        for penalty in penalties:
            yield along @ (self.projected / (self.values + penalty)[:, None]) + self.centre


def conformal_margin(errors: np.ndarray, coverage: float) -> np.ndarray | None:
    """The smallest margin with conformal coverage: the ⌈(n + 1) coverage⌉-th of n absolute errors (Vovk, Gammerman and Shafer,
    "Algorithmic learning in a random world", 2005).

    **Arguments:**

    - `errors`: `(cases, ...)`.
    - `coverage`: between 0 and 1.

    **Returns:**

    `(...)`, or `None` if there are too few errors for the coverage.
    """
    place = int(np.ceil(round((len(errors) + 1) * coverage, 9)))
    return None if place > len(errors) else np.sort(np.abs(errors), 0)[place - 1]
