"""Linear read-out by ridge regression, its penalty chosen by leave-one-out.

Features are standardised, then compressed by z ← sign(z) √|z|, so that the few cases with extreme values of a feature do not
decide its weight (Perronnin et al., 2010, do so for Fisher vectors). With these features Z (n cases, d features), centred
targets Y and penalty α, everything follows from the Gram matrix K = Z Zᵀ = Q diag(κ) Qᵀ of centred columns, which is small
where there are more features than cases:

    C = (K + α)⁻¹ Y                        weights Zᵀ C
    e = C / (diag (K + α)⁻¹ − 1/(n α))     error of each case in the fit without it, exactly; 1/(n α) is the intercept's

Above `EXACT` cases the penalty is chosen on a random part of them, and the weights come from one Cholesky factorisation: of
K + α (n × n) where the features fit into memory and n < d, and else of Zᵀ Z + α (d × d), which one pass over the cases adds
up in constant memory.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from .sums import Sums, penalise

PENALTIES = np.logspace(-3, 8, 34)
EXACT = 4096
"""Largest number of cases for exact leave-one-out."""
PART = 2048
"""Number of cases in the random subset that is used above that."""
ROWS = 1024
"""Number of cases whose features are standardised at a time."""


class Readout(NamedTuple):
    """A fitted linear map of features.

    **Attributes:**

    - `mean`, `scale`: of the features in training; the scale of a constant feature is infinite.
    - `weights`, `intercept`: of the compressed features, `(features, outputs)` and `(outputs,)`.
    - `penalty`: the chosen one.
    """

    mean: np.ndarray
    scale: np.ndarray
    weights: np.ndarray
    intercept: np.ndarray
    penalty: float

    def __call__(self, features: np.ndarray) -> np.ndarray:
        """The outputs, `(cases, outputs)`, float64. Each case is computed alone, so that none depends on the others."""
        out = np.empty((len(features), len(self.intercept)))
        for i, row in enumerate(features):
            out[i] = compressed(row, self.mean, self.scale) @ self.weights
        return out + self.intercept


class HeldOut(NamedTuple):
    """Predictions of cases by fits without them: `(cases, outputs)`, and which cases they are."""

    predictions: np.ndarray
    cases: np.ndarray


def fit_readout(
    features: np.ndarray | Callable[[np.ndarray], np.ndarray],
    targets: np.ndarray,
    *,
    penalties: np.ndarray = PENALTIES,
    counted: np.ndarray | None = None,
    rng: np.random.Generator,
) -> tuple[Readout, HeldOut]:
    """Fit a read-out.

    **Arguments:**

    - `features`: `(cases, features)`; or, where they do not fit into memory, a function from positions to their rows.
    - `targets`: `(cases, outputs)`.
    - `penalties`: to choose from, by the mean squared error of leave-one-out.
    - `counted`: `(cases,)`, true for those whose error counts in that choice; all of them if not given. If none counts, the
        penalty is the one nearest to 1.
    - `rng`: chooses the part of many cases.

    **Returns:**

    The read-out, and the leave-one-out predictions.
    """
    cases = np.arange(len(targets))
    if len(cases) > EXACT or callable(features):
        cases = np.sort(rng.permutation(cases)[:PART])
    rows = features if callable(features) else features.__getitem__
    some = rows(cases)
    mean, scale = moments(some)
    z = compressed(some, mean, scale)
    counted = np.ones(len(cases), bool) if counted is None else counted[cases]
    dual, penalty, predictions = leave_one_out(z, targets[cases], penalties, counted)
    if len(cases) == len(targets):
        shift, weights = z.mean(0, dtype=np.float64), z.T.astype(np.float64) @ dual
    else:
        prepared = lambda which: compressed(rows(which), mean, scale)
        if not callable(features) and len(targets) <= len(mean):
            whole = np.concatenate([prepared(part) for part in _parts(len(targets))])
            shift, weights = solve_by_cases(whole, targets, penalty)
        else:
            shift, weights = _solve_by_features(prepared, targets, penalty)
    return Readout(mean, scale, weights, targets.mean(0) - shift @ weights, penalty), HeldOut(
        predictions[counted], cases[counted]
    )


def leave_one_out(
    z: np.ndarray, targets: np.ndarray, penalties: np.ndarray, counted: np.ndarray
) -> tuple[np.ndarray, float, np.ndarray]:
    """The dual coefficients C at the penalty with the least leave-one-out error, that penalty, and the predictions. If no
    case is counted, the penalty is the one nearest to 1."""
    if not counted.any():
        penalties = penalties[[np.abs(np.log(penalties)).argmin()]]
    count = len(z)
    centre = targets.mean(0)
    gram = centred_gram(z)
    values, vectors = np.linalg.eigh(gram)
    values = np.maximum(values, 0.0)
    projected = vectors.T @ (targets - centre)
    inverses = 1 / (values[:, None] + penalties)
    diagonals = (vectors**2) @ inverses - 1 / (count * penalties)
    best = (np.inf, np.zeros_like(projected), float(penalties[-1]), targets * 0 + centre)
    for penalty, inverse, diagonal in zip(penalties, inverses.T, diagonals.T, strict=True):
        dual = vectors @ (inverse[:, None] * projected)
        errors = dual / np.maximum(diagonal, 1e-12 / penalty)[:, None]
        loss = float(np.sum(errors[counted] ** 2))
        if loss < best[0]:
            best = (loss, dual, float(penalty), targets - errors)
    return best[1:]


def centred_gram(z: np.ndarray) -> np.ndarray:
    """Z Zᵀ in float64, of columns with mean 0."""
    gram = (z @ z.T).astype(np.float64)
    rows = gram.mean(0)
    return gram - rows - rows[:, None] + rows.mean()


def moments(features: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and scale of each column; the scale of a constant one is infinite, so that it counts for nothing."""
    mean = features.mean(0, dtype=np.float64)
    square = np.zeros_like(mean)
    for start in range(0, len(features), ROWS):
        square += ((features[start : start + ROWS] - mean) ** 2).sum(0)
    scale = np.sqrt(square / len(features))
    scale = np.where(scale > 1e-6 * (1 + np.abs(mean)), scale, np.inf)
    return mean.astype(np.float32), scale.astype(np.float32)


def compressed(features: np.ndarray, mean: np.ndarray, scale: np.ndarray) -> np.ndarray:
    """Standardised features z as sign(z) √|z|, in float32."""
    z = (features - mean) / scale
    return np.copysign(np.sqrt(np.abs(z)), z).astype(np.float32, copy=False)


def solve_by_cases(z: np.ndarray, targets: np.ndarray, penalty: float) -> tuple[np.ndarray, np.ndarray]:
    """Means of the columns, and the weights for one penalty, by a system of as many equations as cases; in float32."""
    shift = z.mean(0, dtype=np.float64)
    z -= shift.astype(np.float32)
    gram = z @ z.T
    penalise(gram, penalty)
    dual = cho_solve(cho_factor(gram, lower=True, overwrite_a=True), (targets - targets.mean(0)).astype(np.float32))
    return shift, (z.T @ dual).astype(np.float64)


def _solve_by_features(rows: Callable, targets: np.ndarray, penalty: float) -> tuple[np.ndarray, np.ndarray]:
    """The same by a system of as many equations as features, after one pass over the cases."""
    y, sums = targets - targets.mean(0), None
    for part in _parts(len(targets)):
        z = rows(part)
        sums = Sums(z.shape[1], y.shape[1]) if sums is None else sums
        sums.add(z, y[part])
    assert sums is not None
    return sums.solve(penalty)


def _parts(count: int) -> list[np.ndarray]:
    return [np.arange(start, min(start + ROWS, count)) for start in range(0, count, ROWS)]
