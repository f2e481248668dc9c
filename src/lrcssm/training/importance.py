"""Importance of channels: the loss of score when a channel is exchanged between cases."""

import dataclasses
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ..data import Cases
from .metrics import observed, scores

_PROBE = 64
_FEWEST = 20
_REPEATS = 5


class Importance(NamedTuple):
    """Loss of score by channel.

    **Attributes:**

    - `losses`: loss of accuracy, or of R², for each channel, on average over the repeats; negative if the score rises.
    - `of`: `"accuracy"` or `"r2"`.
    - `cases`: number of cases that it was measured on.
    - `repeats`: number of exchanges of each channel.
    """

    losses: np.ndarray
    of: str
    cases: int
    repeats: int


def channel_importance(
    outputs: Callable[[Cases], Any], cases: Cases, *, classify: bool, seconds: float = 10.0, seed: int = 0
) -> Importance | None:
    """Measure permutation importance of channels (Breiman, 2001) within a time limit.

    ```python
    import numpy as np
    from lrcssm.data import Cases
    from lrcssm.training.importance import channel_importance

    rng = np.random.default_rng(0)
    series = rng.standard_normal((40, 10, 2))
    cases = Cases.of(series, targets=(series[:, :, 1].mean(1) > 0).astype(int))
    model = lambda cases: np.stack([[0.0, one[:, 1].mean()] for one in cases.series])
    print(channel_importance(model, cases, classify=True).losses)  # the first is 0
    ```

    **Arguments:**

    - `outputs`: a function from cases to their outputs.
    - `cases`: with targets.
    - `classify`: true for classes, whose score is the accuracy; R² otherwise.
    - `seconds`: time limit, about. Cases are sampled to keep it.
    - `seed`: of the sample and the exchanges. A case gets the channel of another one, cut or repeated to its length.

    **Returns:**

    An `Importance`; `None` if there is one channel, or if fewer than 20 of the cases fit into the time.
    """
    if cases.channels < 2 or len(cases) < 2:
        return None
    rng, of = np.random.default_rng(seed), "accuracy" if classify else "r2"
    order = rng.permutation(len(cases))
    probe = cases.take(np.sort(order[:_PROBE]))
    outputs(probe)  # compiled here, if at all
    start = time.perf_counter()
    outputs(probe)
    cost = (time.perf_counter() - start) / len(probe)
    affordable = int(seconds / (cost * (cases.channels + 1)))
    if affordable < min(_FEWEST, len(cases)):
        return None
    chosen = cases.take(np.sort(order[:affordable]))
    repeats = max(1, min(_REPEATS, affordable // len(cases)))
    whole = _score(outputs, chosen, classify, of)
    losses = np.zeros(cases.channels)
    for channel in range(cases.channels):
        for _ in range(repeats):
            losses[channel] += whole - _score(outputs, exchanged(chosen, channel, rng), classify, of)
    return None if np.isnan(losses).any() else Importance(losses / repeats, of, len(chosen), repeats)


def exchanged(cases: Cases, channel: int, rng: np.random.Generator) -> Cases:
    """The cases with one channel exchanged at random between them."""
    donors = rng.permutation(len(cases))
    series = []
    for one, donor in zip(cases.series, donors, strict=True):
        changed = one.copy()
        changed[:, channel] = np.resize(cases.series[donor][:, channel], len(one))
        series.append(changed)
    return dataclasses.replace(cases, series=tuple(series))


def _score(outputs: Callable[[Cases], Any], cases: Cases, classify: bool, of: str) -> float:
    return scores(*observed(outputs(cases), cases), classify=classify)[of]
