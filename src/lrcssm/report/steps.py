"""Pictures of predictions for each time step."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from ..data import Cases
from ..training.metrics import known_targets
from .text import plain

SHOWN = 6
"""Most cases in a picture."""
_WIDTH = 7.5
_COLOURS = (
    "#4477aa", "#ee6677", "#228833", "#ccbb44", "#66ccee", "#aa3377", "#bbbbbb", "#44aa99", "#ddaa33", "#882255", "#999933",
    "#332288",
)  # fmt: skip


def worst(outputs: Sequence[np.ndarray], cases: Cases, classify: bool) -> list[int]:
    """Positions of the cases with the largest share of wrong steps, or the largest mean error."""
    shares = []
    for one, target in zip(outputs, cases.targets or (), strict=True):
        known = known_targets(target)
        if not known.any():
            shares.append(-1.0)
        elif classify:
            shares.append(float(np.mean(one.argmax(-1)[known] != target[known])))
        else:
            shares.append(float(np.mean(np.abs(one - target.reshape(one.shape))[known])))
    return np.argsort(-np.array(shares), kind="stable")[:SHOWN].tolist()


def timelines(
    outputs: Sequence[np.ndarray],
    cases: Cases,
    classes: Sequence[str] | None,
    ids: Sequence[Any],
    chosen: Sequence[int],
) -> Figure:
    """True and predicted targets of some cases along time: strips of colour for classes, lines for numbers.

    **Arguments:**

    - `outputs`: logits or numbers `(time, outputs)` of each case.
    - `cases`: with a target for each step.
    - `classes`: their names, or `None` for numbers.
    - `ids`: names of all cases.
    - `chosen`: positions of the cases to show.
    """
    figure = Figure(figsize=(_WIDTH, (0.8 if classes is not None else 1.6) * len(chosen) + 0.9), layout="constrained")
    every = figure.subplots(len(chosen), 1, squeeze=False)[:, 0]
    for axes, i in zip(every, chosen, strict=True):
        target = np.asarray((cases.targets or ())[i])
        if classes is None:
            lines = axes.plot(target.reshape(len(target), -1), color="#333333", linewidth=1)
            guesses = axes.plot(outputs[i], color=_COLOURS[1], linewidth=1)
            lines[0].set_label("true")
            guesses[0].set_label("predicted")
        else:
            rows = np.stack([target, outputs[i].argmax(-1)])
            shades = np.array([_rgb(_COLOURS[k % len(_COLOURS)]) for k in range(len(classes))] + [(1.0, 1.0, 1.0)])
            axes.imshow(shades[rows], aspect="auto", interpolation="nearest", extent=(0, len(target), 2, 0))
            axes.set_yticks([0.5, 1.5], ["true", "predicted"], fontsize=8)
        axes.set_title(f"case {plain(ids[i])}", fontsize=8, loc="left")
    every[-1].set_xlabel("step")
    if classes is None:
        every[0].legend(frameon=False, fontsize=8)
    else:
        names = [plain(name) for name in classes[: len(_COLOURS)]]
        handles = [Patch(color=colour, label=name) for colour, name in zip(_COLOURS, names, strict=False)]
        columns = min(6, int(_WIDTH / (0.5 + 0.07 * max(map(len, names)))))  # inches of a patch and of a letter
        figure.legend(handles=handles, loc="outside lower center", ncols=columns, frameon=False, fontsize=8)
    return figure


def _rgb(text: str) -> tuple[float, ...]:
    return tuple(int(text[k : k + 2], 16) / 255 for k in (1, 3, 5))
