"""Comparison of models over several data sets: average ranks, Friedman's test and Nemenyi's critical difference (Demšar 2006,
"Statistical comparisons of classifiers over multiple data sets")."""

import itertools
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from scipy import stats

FEW = 10
"""Demšar's rule of thumb: Friedman's statistic has its distribution for more data sets than this (and more than 5 models)."""
LEAST = 3
"""With fewer data sets or models than this ranks are not compared at all."""


class Ranks(NamedTuple):
    """Ranks of models.

    **Attributes:**

    - `names`: of the models, from the best to the worst.
    - `ranks`: their average ranks; 1 is the best, and equal scores share their ranks.
    - `datasets`: over which the ranks are averaged.
    - `left_out`: models that lack one of them.
    - `statistic`, `p`: of Friedman's test, that all models are alike.
    - `critical`: least difference of two average ranks that is significant at a level of 5 % (Nemenyi).
    """

    names: tuple[str, ...]
    ranks: tuple[float, ...]
    datasets: tuple[str, ...]
    left_out: tuple[str, ...]
    statistic: float
    p: float
    critical: float

    def alike(self) -> list[tuple[int, int]]:
        """Longest stretches of models, as first and last position, whose ranks do not differ significantly."""
        found: list[tuple[int, int]] = []
        for first, low in enumerate(self.ranks):
            last = max(i for i, rank in enumerate(self.ranks) if rank - low <= self.critical)
            if last > first and (not found or last > found[-1][1]):
                found.append((first, last))
        return found


def compare(scores: Mapping[str, Mapping[str, float]], larger_is_better: bool = True) -> Ranks | None:
    """Rank models over the data sets that most of them have.

    **Arguments:**

    - `scores`: of each model, by data set. Of the data sets those are taken, at least `LEAST`, for which data sets × models
        that have all of them is largest; of equal ones the larger number of data sets.

    **Returns:**

    The comparison, or `None` if too few models have enough data sets in common.
    """
    chosen, complete = _largest(scores)
    if not complete:
        return None
    values = np.array([[scores[name][one] for name in complete] for one in chosen])  # (data sets, models)
    each = stats.rankdata(-values if larger_is_better else values, axis=1)
    average = each.mean(0)
    order = np.argsort(average, kind="stable")
    statistic, p = friedman(each)
    return Ranks(
        tuple(complete[i] for i in order), tuple(float(average[i]) for i in order), tuple(chosen),
        tuple(name for name in scores if name not in complete), statistic, p, critical_difference(*each.shape),
    )  # fmt: skip


def _largest(scores: Mapping[str, Mapping[str, float]]) -> tuple[list[str], list[str]]:
    """Data sets and models without gaps between them, as many as there are, by trying all subsets of the shorter side."""
    sets = list(dict.fromkeys(name for own in scores.values() for name in own))
    best: tuple[tuple[int, int], list[str], list[str]] = ((0, 0), [], [])
    by_sets = len(sets) <= len(scores)
    side = sets if by_sets else list(scores)
    for size in range(LEAST, len(side) + 1):
        for some in itertools.combinations(side, size):
            chosen = list(some) if by_sets else [one for one in sets if all(one in scores[name] for name in some)]
            complete = [name for name, own in scores.items() if all(one in own for one in chosen)]
            if min(len(chosen), len(complete)) >= LEAST and (len(chosen) * len(complete), len(chosen)) > best[0]:
                best = ((len(chosen) * len(complete), len(chosen)), chosen, complete)
    return best[1], best[2]


def friedman(ranks: np.ndarray) -> tuple[float, float]:
    """Friedman's statistic, corrected for ties, and its p-value, of ranks `(data sets, models)`."""
    count, models = ranks.shape
    spread = np.sum((ranks.mean(0) - (models + 1) / 2) ** 2)
    total = np.sum((ranks - (models + 1) / 2) ** 2) / (count * (models - 1))
    statistic = count * spread / total if total > 0 else 0.0
    return float(statistic), float(stats.chi2.sf(statistic, models - 1))


def critical_difference(count: int, models: int, level: float = 0.05) -> float:
    """Nemenyi's: the studentised range for so many models, over √2, times √(models (models + 1) / (6 data sets))."""
    quantile = float(stats.studentized_range.ppf(1 - level, models, np.inf))
    return quantile / 2**0.5 * (models * (models + 1) / (6 * count)) ** 0.5


def sentences(found: Ranks | None, what: str) -> list[str]:
    """A comparison in words, with its limits."""
    if found is None:
        return [f"No {LEAST} models have {what} for the same {LEAST} data sets or more, so they are not ranked."]
    verdict = "so the ranks may be chance" if found.p > 0.05 else "so not all models are alike"
    over = _listed(found.datasets) if len(found.datasets) <= FEW else f"{len(found.datasets)} data sets"
    text = [
        f"{len(found.names)} models over {over}. Friedman's test: χ² = {found.statistic:.1f}, "
        f"p = {found.p:.2g}, {verdict}. Two average ranks differ at a level of 5 % if they are {found.critical:.2f} apart "
        "(Nemenyi); a bar joins those that are not."
    ]
    if len(found.datasets) <= FEW:
        text.append(
            f"{len(found.datasets)} data sets are too few for the test, which is meant for more than {FEW}: "
            "take the picture as a summary, not as evidence."
        )
    if found.critical >= len(found.names) - 1:
        text.append("With so few data sets no ranks could be far enough apart to differ.")
    if found.left_out:
        text.append(f"Left out, for want of a data set: {_listed(found.left_out)}.")
    return text


def _listed(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
