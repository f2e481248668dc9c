"""Which of several models is better over several data sets: average ranks, Friedman's test and Nemenyi's critical difference
(Demšar 2006, "Statistical comparisons of classifiers over multiple data sets")."""

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
    """How models compare.

    **Attributes:**

    - `names`: of the models, from the best to the worst.
    - `ranks`: their average ranks; 1 is the best, and equal scores share their ranks.
    - `datasets`: over which the ranks are averaged.
    - `left_out`: models that lack one of them.
    - `statistic`, `p`: of Friedman's test, that all models are alike.
    - `critical`: what two average ranks must differ by at least at a level of 5 % (Nemenyi).
    """

    names: tuple[str, ...]
    ranks: tuple[float, ...]
    datasets: tuple[str, ...]
    left_out: tuple[str, ...]
    statistic: float
    p: float
    critical: float

    def alike(self) -> list[tuple[int, int]]:
        """The longest stretches of models, from one position to another, whose ranks differ by less than is critical."""
        found: list[tuple[int, int]] = []
        for first, low in enumerate(self.ranks):
            last = max(i for i, rank in enumerate(self.ranks) if rank - low <= self.critical)
            if last > first and (not found or last > found[-1][1]):
                found.append((first, last))
        return found


def compare(scores: Mapping[str, Mapping[str, float]], larger_is_better: bool = True) -> Ranks | None:
    """Ranks models over the data sets that most of them have.

    **Arguments:**

    - `scores`: of each model, by data set. Of the data sets those are taken, at least `LEAST`, for which data sets × models
        that have all of them is largest; of equal ones the larger number of data sets.

    **Returns:**

    The comparison, or `None` if too few models have enough data sets in common.
    """
    sets = list(dict.fromkeys(name for own in scores.values() for name in own))
    best: tuple[tuple[int, int], tuple[str, ...], list[str]] = ((0, 0), (), [])
    for size in range(LEAST, len(sets) + 1):
        for chosen in itertools.combinations(sets, size):
            complete = [name for name, own in scores.items() if set(chosen) <= set(own)]
            if len(complete) >= LEAST and (size * len(complete), size) > best[0]:
                best = ((size * len(complete), size), chosen, complete)
    _, chosen, complete = best
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
    """What a comparison says, and how little that may be."""
    if found is None:
        return [f"No {LEAST} models have {what} for the same {LEAST} data sets or more, so they are not ranked."]
    verdict = "so the ranks may be chance" if found.p > 0.05 else "so not all models are alike"
    text = [
        f"{len(found.names)} models over {_listed(found.datasets)}. Friedman's test: χ² = {found.statistic:.1f}, "
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
