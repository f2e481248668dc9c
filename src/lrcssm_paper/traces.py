"""Traces of a run for the report: iterations of the solver while training, and time constants of the units.

Both are small, so that results can be kept without the models.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from lrcssm.data import Cases
from lrcssm.models import SequenceModel

EVALUATIONS = 40
"""Largest number of evaluations that are kept."""
QUANTILES = (0, 10, 25, 50, 75, 90, 100)
"""Percentages of the units whose time constants are kept as quantiles."""


def iterations(history: Sequence[Any]) -> dict[str, Any]:
    """Newton iterations: their mean, that of each layer, and that of each layer at some evaluations, `[step, [layer, ...]]`.

    **Arguments:**

    - `history`: evaluations of a training run. Without a solver that iterates they have zeros, or no layers.
    """
    layered = [one for one in history if one.iterations_by_layer]
    kept = [layered[i] for i in np.unique(np.linspace(0, len(layered) - 1, EVALUATIONS).astype(int))] if layered else []
    by_layer = np.mean([one.iterations_by_layer for one in layered], 0).tolist() if layered else []
    during = [[one.step, [round(count, 3) for count in one.iterations_by_layer]] for one in kept]
    return {
        "iterations": float(np.mean([one.iterations for one in history])) if history else 0.0,
        "iterations_by_layer": by_layer,
        "iterations_during": during if any(by_layer) else [],
    }


def memory(before: SequenceModel, after: SequenceModel, cases: Cases) -> dict[str, Any]:
    """Quantiles of the time constants of each block, in steps after patching along the first case.

    **Arguments:**

    - `before`, `after`: the model before and after training.
    - `cases`: the first one is used.

    **Returns:**

    `time_constants`, in which `None` stands for a unit that does not forget; nothing if the blocks are not recurrent.
    """
    from lrcssm.report.run import time_constants

    found = {name: time_constants(model, cases) for name, model in (("before", before), ("after", after))}
    if not found["after"]:
        return {}
    return {
        "time_constants": {"quantiles": list(QUANTILES)} | {n: [_quantiles(b) for b in f] for n, f in found.items()}
    }


def _quantiles(constants: np.ndarray) -> list[float | None]:
    ordered = np.sort(constants.ravel())  # units that do not forget are infinite, and last
    places = np.ceil(np.array(QUANTILES) / 100 * len(ordered)).astype(int) - 1
    return [float(f"{value:.7g}") if np.isfinite(value) else None for value in ordered[np.maximum(places, 0)]]
