"""Sums over cases from which ridge regression follows for any penalty."""

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from scipy.linalg.blas import ssyrk  # pyright: ignore[reportAttributeAccessIssue]

_BLOCK = 1024  # columns of the Gram matrix that are centred at a time


class Sums:
    """Gram matrix Zᵀ Z in float32, Zᵀ Y, and the sums of Z and Y, added up over cases with features Z and targets Y.

    The Gram matrix takes d² numbers for d features, and as many again for the solution: 2 × 600 MB for 12,288 features, 2 × 64
    MB for 4,000.
    """

    def __init__(self, features: int, outputs: int):
        self.count = 0
        self.gram = np.zeros((features, features), np.float32, order="F")  # its lower triangle
        self.right = np.zeros((features, outputs))
        self.total = np.zeros(features)
        self.targets = np.zeros(outputs)

    def add(self, z: np.ndarray, y: np.ndarray) -> None:
        """Add cases: `(cases, features)`, float32, and `(cases, outputs)`."""
        self.gram = ssyrk(1.0, z.T, beta=1.0, c=self.gram, lower=1, overwrite_c=1)  # in place
        self.right += z.T.astype(np.float64) @ y
        self.total += z.sum(0, dtype=np.float64)
        self.targets += y.sum(0)
        self.count += len(z)

    def solve(self, penalty: float) -> tuple[np.ndarray, np.ndarray]:
        """Means of the features, and the weights for one penalty."""
        shift = self.total / self.count
        gram = self.gram.copy(order="F")
        for start in range(0, len(gram), _BLOCK):
            columns = slice(start, start + _BLOCK)
            gram[start:, columns] -= (self.count * shift[start:, None] * shift[columns]).astype(np.float32)
        penalise(gram, penalty)
        right = self.right - np.outer(shift, self.targets)
        return shift, cho_solve(cho_factor(gram, lower=True, overwrite_a=True, check_finite=False), right)


def penalise(gram: np.ndarray, penalty: float) -> None:
    """Add the penalty to the diagonal, and at least as much as keeps the matrix positive in float32."""
    diagonal = gram.diagonal()
    np.fill_diagonal(gram, diagonal + max(penalty, 1e-5 * float(diagonal.max())))
