"""What a run leaves for the report beside its scores: the solver's iterations while training, and how long its units remember.

Both are kept small, so that results can be kept without the models they are about.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from lrcssm.data import Cases
from lrcssm.models import SequenceModel
from lrcssm.training import Epoch

LOOKS = 40
"""How many looks at the validation data are kept at most."""
QUANTILES = (0, 10, 25, 50, 75, 90, 100)
"""Which shares of the units, in percent, remember no longer than the time constants that are kept."""


def iterations(history: Sequence[Epoch]) -> dict[str, Any]:
    """Newton iterations on average, of each layer, and of each layer at some of the looks as `[step, [layer, ...]]`.

    What has none (a sequential sweep, a layer without a solver) has zeros or nothing. Looks that an earlier version wrote
    have no layers and are left out.
    """
    layered = [epoch for epoch in history if epoch.iterations_by_layer]
    kept = [layered[i] for i in np.unique(np.linspace(0, len(layered) - 1, LOOKS).astype(int))] if layered else []
    by_layer = np.mean([epoch.iterations_by_layer for epoch in layered], 0).tolist() if layered else []
    during = [[epoch.step, [round(count, 3) for count in epoch.iterations_by_layer]] for epoch in kept]
    return {
        "iterations": float(np.mean([epoch.iterations for epoch in history])) if history else 0.0,
        "iterations_by_layer": by_layer,
        "iterations_during": during if any(by_layer) else [],
    }


def memory(before: SequenceModel, after: SequenceModel, cases: Cases) -> dict[str, Any]:
    """For each block the quantiles of its units' time constants, in steps after patching along the first case, before and
    after training; `None` stands for a unit that does not forget. Nothing where the blocks are not recurrent."""
    from lrcssm.report.run import time_constants

    found = {name: time_constants(model, cases) for name, model in (("before", before), ("after", after))}
    if not found["after"]:
        return {}
    return {
        "time_constants": {"quantiles": list(QUANTILES)} | {n: [_quantiles(b) for b in f] for n, f in found.items()}
    }


def _quantiles(constants: np.ndarray) -> list[float | None]:
    ordered = np.sort(constants.ravel())  # those that do not forget come last
    places = np.ceil(np.array(QUANTILES) / 100 * len(ordered)).astype(int) - 1
    return [float(value) if np.isfinite(value) else None for value in ordered[np.maximum(places, 0)]]
