"""How sure a score is."""

import math
from collections.abc import Callable

import numpy as np


def wilson(hits: int, cases: int, z: float = 1.959964) -> tuple[float, float]:
    """A 95 % interval for a share of cases (Wilson 1927): good also near 0 and 1 and for few cases."""
    share, size = hits / cases, 1 + z**2 / cases
    middle = (share + z**2 / (2 * cases)) / size
    half = z / size * math.sqrt(share * (1 - share) / cases + z**2 / (4 * cases**2))
    # At both ends the sum is exact but for its rounding.
    return 0.0 if hits == 0 else middle - half, 1.0 if hits == cases else middle + half


def bootstrap(score: Callable[[np.ndarray], float], cases: int, draws: int = 1000) -> tuple[float, float]:
    """A 95 % interval from scores of cases that are drawn again and again with replacement; `score` gets their positions."""
    rng = np.random.default_rng(0)
    found = [score(rng.integers(0, cases, cases)) for _ in range(draws)]
    low, high = np.nanpercentile(found, [2.5, 97.5])
    return float(low), float(high)
