"""Predictions as rows, and scores with intervals."""

import csv
import io
import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from .metrics import scores
from .trained import as_probabilities

PARTS = {"test": "test", "validation": "validation (there is no test part)"}
"""Names of the parts that scores are of, for people."""


def rows_of(
    outputs: Any, classes: Sequence[str] | None, ids: Sequence[str | int] | None = None
) -> Iterable[dict[str, Any]]:
    """One row for each case, or for each step of each case: its class and the probability of each, or its numbers.

    **Arguments:**

    - `outputs`: logits or numbers of each case; a list of `(time, outputs)` if each step has its own.
    - `classes`: names of the classes, or `None`.
    - `ids`: names of the cases, which are counted if not given.
    """
    ids = range(len(outputs)) if ids is None else ids
    for case, row in zip(ids, outputs, strict=True):
        if not isinstance(outputs, list):
            yield {"case": case} | prediction_of(row, classes)
            continue
        for step, one in enumerate(row):
            yield {"case": case, "step": step} | prediction_of(one, classes)


def prediction_of(output: np.ndarray, classes: Sequence[str] | None) -> dict[str, Any]:
    """The prediction from one output, as columns."""
    if classes is None:
        return _numbered("prediction", output)
    shares = as_probabilities(output)
    named = {f"p({name})": round(float(value), 6) for name, value in zip(classes, shares, strict=True)}
    return {"prediction": classes[int(shares.argmax())]} | named


def target_of(target: Any, classes: Sequence[str] | None) -> dict[str, Any]:
    """The target of a case as columns like those of `prediction_of`."""
    return _numbered("target", target) if classes is None else {"target": classes[int(target)]}


def _numbered(name: str, values: Any) -> dict[str, float]:
    row = np.ravel(values)
    names = [name] if row.size == 1 else [f"{name}_{k}" for k in range(row.size)]
    return {one: float(value) for one, value in zip(names, row, strict=True)}


def as_csv(rows: Sequence[dict[str, Any]]) -> str:
    """Rows as CSV with a header. Text that a spreadsheet would take for a formula gets an apostrophe in front."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([_harmless(name) for name in rows[0]])
    writer.writerows([_harmless(value) for value in row.values()] for row in rows)
    return text.getvalue()


def _harmless(value: Any) -> Any:
    return f"'{value}" if isinstance(value, str) and value[:1] in ("=", "+", "-", "@", "\t", "\r") else value


def score(outputs: np.ndarray, targets: np.ndarray, *, classify: bool) -> dict[str, Any]:
    """All scores, and a 95 % interval of the first of them: `interval`, and its name, `of`."""
    found: dict[str, Any] = dict(scores(outputs, targets, classify=classify))
    if classify:
        hits = int(np.sum(outputs.argmax(-1) == targets.astype(int)))
        return found | {"of": "accuracy", "interval": list(wilson(hits, len(targets)))}
    error = (outputs - targets.reshape(outputs.shape)).astype(np.float64) ** 2
    low, high = bootstrap(lambda which: float(np.mean(error[which])), len(error))
    return found | {"of": "mse", "interval": [low, high]}


def sentence(found: dict[str, Any], cases: int, where: str) -> str:
    """Scores as a sentence, with those of a constant prediction and of MiniRocket where they are known."""
    low, high = found["interval"]
    others = {f"always predicting {found['baseline']['prediction']}": found["baseline"]} if "baseline" in found else {}
    if "baseline" in found and found["of"] == "mse":
        others = {"always predicting the mean": found["baseline"]}
    if "minirocket" in found:
        others["MiniRocket"] = found["minirocket"]
    if found["of"] == "accuracy":
        more = "".join(f"; {name}: accuracy {one['accuracy']:.1%}" for name, one in others.items())
        return (
            f"{where}: accuracy {found['accuracy']:.1%} (95 % interval {low:.1%} to {high:.1%}) on {cases} cases; balanced "
            f"accuracy {found['balanced_accuracy']:.1%}, F1 {found['f1']:.3f}, log-loss {found['log_loss']:.3f}{more}"
        )
    more = "".join(f"; {name}: mean squared error {one['mse']:.4g}" for name, one in others.items())
    return (
        f"{where}: mean squared error {found['mse']:.4g} (95 % interval {low:.4g} to {high:.4g}) on {cases} cases; mean "
        f"absolute error {found['mae']:.4g}, R² {found['r2']:.3f}{more}"
    )


def wilson(hits: int, cases: int, z: float = 1.959964) -> tuple[float, float]:
    """A 95 % interval for a share of cases (Wilson 1927): good also near 0 and 1 and for few cases."""
    share, size = hits / cases, 1 + z**2 / cases
    middle = (share + z**2 / (2 * cases)) / size
    half = z / size * math.sqrt(share * (1 - share) / cases + z**2 / (4 * cases**2))
    # At both ends the sum is exact but for its rounding.
    return 0.0 if hits == 0 else middle - half, 1.0 if hits == cases else middle + half


def bootstrap(measure: Callable[[np.ndarray], float], cases: int, draws: int = 1000) -> tuple[float, float]:
    """A 95 % interval from cases that are drawn again and again with replacement; `measure` gets their positions."""
    rng = np.random.default_rng(0)
    found = [measure(rng.integers(0, cases, cases)) for _ in range(draws)]
    low, high = np.nanpercentile(found, [2.5, 97.5])
    return float(low), float(high)
