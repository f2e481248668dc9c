"""Logistic regression on the features, which starts from the ridge solution: for some hundred cases and more.

The squared error of ridge regression is quick to minimise and hard to overfit; with more cases the log-loss is the better criterion. The
compressed features Z are projected on the principal directions of a part of the cases, R = Z V, and

    Σ −log softmax(R W + b)[class] + λ/2 |W|²

is minimised by L-BFGS for one λ after the other, from the ridge solution towards weaker penalties, while the log-loss of held-out
cases falls. If none of them is better than ridge, by the same cases and by the leave-one-out predictions of ridge, ridge it is.
"""

from collections.abc import Callable

import numpy as np
from scipy.optimize import minimize
from scipy.special import log_softmax

from .readout import PART, ROWS, HeldOut, Readout, compressed

PENALTIES = 10.0 ** -np.arange(-1.0, 5.0)
"""Values of λ, for rows of R with a mean square of 1."""
RANK = 1024
_SHARE, _MOST = 0.2, 4096  # held out
_ITERATIONS = 30


def fit_logistic(
    features: np.ndarray | Callable[[np.ndarray], np.ndarray],
    classes: np.ndarray,
    ridge: Readout,
    factor: float,
    left_out: HeldOut,
    *,
    rng: np.random.Generator,
) -> tuple[Readout, float]:
    """Improve a read-out by logistic regression.

    **Arguments:**

    - `features`: `(cases, features)`; or a function from positions to their rows.
    - `classes`: the number of each case's class.
    - `ridge`: the read-out to start from.
    - `factor`: of its decision values, for their softmax.
    - `left_out`: its predictions of cases by fits without them.
    - `rng`: chooses directions and held-out cases.

    **Returns:**

    The read-out with the least log-loss on held-out cases, and the factor of its decision values: the arguments, or a new one
    and 1.
    """
    rows = features if callable(features) else features.__getitem__
    count, outputs = len(classes), len(ridge.intercept)
    some = np.sort(rng.permutation(count)[:PART])
    directions = _directions(compressed(rows(some), ridge.mean, ridge.scale))
    reduced = np.concatenate([
        compressed(rows(part), ridge.mean, ridge.scale) @ directions for part in np.array_split(np.arange(count), -(-count // ROWS))
    ])  # fmt: skip
    unit = np.sqrt(np.mean(np.sum(reduced.astype(np.float64) ** 2, 1)))
    reduced /= unit
    held = _hold_out(classes, rng)
    kept = np.setdiff1d(np.arange(count), held)
    best = start = _ridge(reduced[kept], classes[kept], outputs, ridge.penalty / unit**2, factor)
    least = min(
        _log_loss(_outputs(start, reduced[held]), classes[held]),
        _log_loss(factor * left_out.predictions, classes[left_out.cases]),
    )
    penalty, before = None, np.inf
    for weaker in PENALTIES:
        best = _minimise(best, reduced[kept], classes[kept], weaker)
        loss = _log_loss(_outputs(best, reduced[held]), classes[held])
        if loss < least:
            least, penalty = loss, weaker
        elif loss > before:
            break
        before = loss
    if penalty is None:
        return ridge, factor
    found = _minimise(start, reduced, classes, penalty, iterations=2 * _ITERATIONS)
    weights = directions.astype(np.float64) @ found[:-1] / unit
    return ridge._replace(weights=weights, intercept=found[-1], penalty=float(penalty)), 1.0


def _directions(z: np.ndarray) -> np.ndarray:
    """Principal directions of some cases, `(features, directions)`, float32; centred, so that constants do not count."""
    centred = z - z.mean(0)
    values, vectors = np.linalg.eigh((centred @ centred.T).astype(np.float64))
    top = np.flatnonzero(values > 1e-6 * values[-1])[::-1][:RANK]
    return centred.T @ (vectors[:, top] / np.sqrt(values[top])).astype(np.float32)


def _hold_out(classes: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Some cases of each class, in order; of a class with one case none."""
    share = min(_SHARE, _MOST / len(classes))
    held = []
    for one in np.unique(classes):
        mine = rng.permutation(np.flatnonzero(classes == one))
        held.append(mine[: min(len(mine) - 1, round(share * len(mine)))])
    return np.sort(np.concatenate(held))


def _ridge(x: np.ndarray, classes: np.ndarray, outputs: int, penalty: float, factor: float) -> np.ndarray:
    """Ridge regression to +1 and −1 times a factor: weights, and the intercepts in the last row."""
    x = x.astype(np.float64)
    targets = np.where(classes[:, None] == np.arange(outputs), factor, -factor)
    centre, mean = x.mean(0), targets.mean(0)
    gram = (x - centre).T @ (x - centre) + max(penalty, 1e-8) * np.eye(x.shape[1])
    weights = np.linalg.solve(gram, (x - centre).T @ (targets - mean))
    return np.concatenate([weights, (mean - centre @ weights)[None]])


def _outputs(weights: np.ndarray, x: np.ndarray) -> np.ndarray:
    return x @ weights[:-1] + weights[-1]


def _log_loss(logits: np.ndarray, classes: np.ndarray) -> float:
    return -float(log_softmax(logits, 1)[np.arange(len(logits)), classes].mean()) if len(logits) else np.inf


def _minimise(
    start: np.ndarray, x: np.ndarray, classes: np.ndarray, penalty: float, iterations: int = _ITERATIONS
) -> np.ndarray:
    """Weights and intercepts with the least penalised log-loss, after some iterations of L-BFGS."""
    targets = np.zeros((len(x), start.shape[1]), np.float32)
    targets[np.arange(len(x)), classes] = 1

    def loss(flat: np.ndarray) -> tuple[float, np.ndarray]:
        weights = flat.reshape(start.shape)
        logs = log_softmax(x @ weights[:-1].astype(np.float32) + weights[-1].astype(np.float32), 1)
        error = np.exp(logs) - targets
        slopes = np.concatenate([x.T @ error + penalty * weights[:-1], error.sum(0)[None]])
        value = -float(np.sum(targets * logs, dtype=np.float64)) + 0.5 * penalty * float(np.sum(weights[:-1] ** 2))
        return value, slopes.astype(np.float64).ravel()

    options = {"maxiter": iterations, "maxcor": 20}
    return minimize(loss, start.ravel(), jac=True, method="L-BFGS-B", options=options).x.reshape(start.shape)
