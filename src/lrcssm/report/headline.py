"""Results in words."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..features.explain import Explanation
from .outcome import confusion_counts
from .text import listed

_LONGEST = 60
STATISTIC_WORDS = {
    "above": "share above a threshold", "late": "share above it, late", "longest": "longest run above it", "mean": "mean",
    "std": "standard deviation", "max": "maximum", "min": "minimum", "rises": "share of rises", "last": "last state",
    "leads": "largest of its group", "trails": "smallest of its group",
}  # fmt: skip


def headline(
    found: dict[str, Any],
    outputs: np.ndarray,
    targets: np.ndarray,
    classes: Sequence[str] | None,
    *,
    of: str = "test cases",
) -> str:
    """Summarise the scores of predictions in words.

    ```python
    import numpy as np
    from lrcssm.report.headline import headline
    from lrcssm.training.predictions import score

    outputs, targets = np.array([[2.0, 0.0], [0.0, 1.0], [1.0, 0.0]]), np.array([0, 1, 1])
    print(headline(score(outputs, targets, classify=True), outputs, targets, ["rest", "walk"]))
    ```

    **Arguments:**

    - `found`: scores as `lrcssm.training.predictions.score` gives them, with those of the constant prediction as `baseline`
        if they are known.
    - `outputs`, `targets`: logits and numbers of classes, or numbers.
    - `classes`: names of the classes, or `None`.
    - `of`: name of the cases.

    **Returns:**

    Two or three sentences.
    """
    words = _right(found, outputs, targets, classes, of) if classes is not None else _off(found, len(targets), of)
    if (baseline := found.get("baseline")) is None:
        return words
    if classes is not None:
        return (
            f"{words} Always predicting {_short(baseline['prediction'])} would be right in {baseline['accuracy']:.0%}."
        )
    return f"{words} Always predicting the mean of the training cases would be off by {baseline['mae']:.3g}."


def _right(found: dict[str, Any], outputs: np.ndarray, targets: np.ndarray, classes: Sequence[str], of: str) -> str:
    low, high = found["interval"]
    share = found["accuracy"]
    many = "All" if share == 1 else "None" if share == 0 else f"{min(max(share, 0.01), 0.99):.0%}"
    count = f"{len(targets):,} {of}"
    if len(targets) == 1:
        return f"The only one of the {of} is {'right' if share else 'wrong'}."
    start = f"{many} {'' if share == 1 else 'of '}{count} are right (95 % interval {low:.0%} to {high:.0%})"
    pair, number = most_confused(confusion_counts(targets, outputs.argmax(-1), len(classes)))
    if pair is None:
        return f"{start}."
    if len(classes) == 2:
        wrong = confusion_counts(targets, outputs.argmax(-1), 2)
        first = int(wrong[1, 0] > wrong[0, 1])
        n, m = int(wrong[first, 1 - first]), int(wrong[1 - first, first])
        names = [_short(classes[first]), _short(classes[1 - first])]
        return f"{start}; {n} of {names[0]} {_were(n)} predicted as {names[1]}, and {m} the other way round."
    names = [_short(classes[k]) for k in pair]
    return f"{start}; the two classes most often confused are {names[0]} and {names[1]} ({number} {'mistake' if number == 1 else 'mistakes'})."


def _off(found: dict[str, Any], count: int, of: str) -> str:
    start = f"The predictions for {count:,} {of} are off by {found['mae']:.3g} on average"
    share = found["r2"]
    if not np.isfinite(share):
        return f"{start}."
    if share <= 0:
        return f"{start}, and explain none of the variance (R² {share:.2f})."
    return (
        f"{start}, and explain {min(share, 0.999):.1%} of the variance."
        if share > 0.99
        else (f"{start}, and explain {share:.0%} of the variance.")
    )


def most_confused(counts: np.ndarray) -> tuple[tuple[int, int] | None, int]:
    """The two classes that are most often confused, and how often; `None` if no case is wrong."""
    both = np.triu(counts + counts.T, 1)
    if not both.any():
        return None, 0
    first, second = np.unravel_index(both.argmax(), both.shape)
    return (int(first), int(second)), int(both.max())


def spoken(found: Explanation, k: int) -> str:
    """Describe the main contributions to a class or a number in words."""
    total = found.by_class[k].sum()
    if not np.isfinite(total) or total <= 0:
        return ""
    parts = []
    for names, values in (
        (found.channels if len(found.channels) > 1 else (), found.by_channel()[k]),
        ([STATISTIC_WORDS[one] for one in found.statistics], found.by_statistic()[k]),
    ):
        if len(names):
            best = int(values.argmax())
            parts.append(f"{_short(names[best])} ({values[best] / total:.0%})")
    what = "For the predictions"
    if found.classes is not None:
        names = [_short(name) for name in found.classes]
        what = f"Between {names[0]} and {names[1]}" if len(names) == 2 else f"For {names[k]}"
    return f"{what}: {listed(parts)}."


def _short(name: Any) -> str:
    text = " ".join(str(name).split())
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"


def _were(count: int) -> str:
    return "was" if count == 1 else "were"
