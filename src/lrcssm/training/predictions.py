"""Predictions as rows, and scores with intervals."""

import csv
import io
import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from ..data import Cases
from .metrics import known_targets, observed, scores
from .trained import as_probabilities

PARTS = {"test": "test", "validation": "validation (there is no test part)"}
"""Descriptions of the scored parts."""


def rows_of(
    outputs: Any, classes: Sequence[str] | None, ids: Sequence[str | int] | None = None, targets: Any = None
) -> Iterable[dict[str, Any]]:
    """One row for each case, or for each step of each case: its class and the probability of each, or its numbers.

    **Arguments:**

    - `outputs`: logits or numbers of each case; a list of `(time, outputs)` if each step has its own.
    - `classes`: names of the classes, or `None`.
    - `ids`: names of the cases, which are counted if not given.
    - `targets`: of the cases, for columns before the predictions; `None` leaves them out.
    """
    ids = range(len(outputs)) if ids is None else ids
    for i, (case, row) in enumerate(zip(ids, outputs, strict=True)):
        own = None if targets is None else targets[i]
        if not isinstance(outputs, list):
            known = {} if own is None else target_of(own, classes)
            yield {"case": case} | known | prediction_of(row, classes)
            continue
        for step, one in enumerate(row):
            known = {} if own is None else target_of(own[step], classes)
            yield {"case": case, "step": step} | known | prediction_of(one, classes)


def prediction_of(output: np.ndarray, classes: Sequence[str] | None) -> dict[str, Any]:
    """The prediction from one output, as columns."""
    if classes is None:
        return _numbered("prediction", output)
    shares = as_probabilities(output)
    named = {f"p({name})": round(float(value), 6) for name, value in zip(classes, shares, strict=True)}
    return {"prediction": classes[int(shares.argmax())]} | named


def target_of(target: Any, classes: Sequence[str] | None) -> dict[str, Any]:
    """The target of a case or step as columns like those of `prediction_of`; empty if it has none."""
    if classes is None:
        return {name: "" if math.isnan(value) else value for name, value in _numbered("target", target).items()}
    return {"target": classes[int(target)] if target >= 0 else ""}


def _numbered(name: str, values: Any) -> dict[str, float]:
    row = np.ravel(values)
    names = [name] if row.size == 1 else [f"{name}_{k}" for k in range(row.size)]
    return {one: float(value) for one, value in zip(names, row, strict=True)}


def as_csv(rows: Sequence[dict[str, Any]]) -> str:
    """Rows with the same names as CSV, as `csv_table` writes it."""
    return csv_table([[*rows[0]], *([*row.values()] for row in rows)])


def csv_table(rows: Iterable[Sequence[Any]]) -> str:
    """Rows as CSV, the header first. Text that a spreadsheet would interpret as a formula is prefixed with an apostrophe."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerows([_harmless(value) for value in row] for row in rows)
    return text.getvalue()


def _harmless(value: Any) -> Any:
    if not isinstance(value, str) or value[:1] not in ("=", "+", "-", "@", "\t", "\r"):
        return value
    try:
        float(value)  # a number is no formula
    except ValueError:
        return f"'{value}"
    return value


def score(outputs: np.ndarray, targets: np.ndarray, *, classify: bool) -> dict[str, Any]:
    """All scores, and a 95 % interval of the first of them: `interval`, and its name, `of`."""
    found: dict[str, Any] = dict(scores(outputs, targets, classify=classify))
    if classify:
        hits = int(np.sum(outputs.argmax(-1) == targets.astype(int)))
        return found | {"of": "accuracy", "interval": list(wilson(hits, len(targets)))}
    error = (outputs - targets.reshape(outputs.shape)).astype(np.float64) ** 2
    low, high = bootstrap(lambda which: float(np.mean(error[which])), len(error))
    return found | {"of": "mse", "interval": [low, high]}


def score_cases(outputs: Any, cases: Cases, *, classify: bool) -> dict[str, Any]:
    """Score cases as `score` does. Where each step has a target, all observed steps that have one count the same, `steps` is
    their number, and the interval is over cases, because the steps of one case are correlated.

    ```python
    import numpy as np
    from lrcssm.data import Cases
    from lrcssm.training.predictions import score_cases

    cases = Cases.of(np.zeros((2, 3, 1)), (np.array([0, 1, 1]), np.array([1, 1, -1])))  # -1: no target
    logits = [np.eye(2)[[0, 1, 0]], np.eye(2)[[1, 1, 1]]]
    print(score_cases(logits, cases, classify=True)["accuracy"])  # 0.8
    ```

    **Arguments:**

    - `outputs`: as `lrcssm.training.predict` returns them.
    - `cases`: with targets.
    - `classify`: true if the targets are classes.

    **Returns:**

    Scores by name, and `of` and `interval` as for `score`.
    """
    values, targets = observed(outputs, cases)
    if not isinstance(cases.targets, tuple):
        return score(values, targets, classify=classify)
    valid = cases.valid or [np.ones(len(one), bool) for one in cases.series]
    counts = np.array([(own & known_targets(one)).sum() for own, one in zip(valid, cases.targets, strict=True)])
    if classify:
        each, name = (values.argmax(-1) == targets).astype(float), "accuracy"
    else:
        error = values - targets.reshape(values.shape)
        each, name = np.mean(error.astype(np.float64) ** 2, -1), "mse"
    ends = np.cumsum(counts)
    total = np.concatenate([[0.0], np.cumsum(each)])
    sums = total[ends] - total[ends - counts]
    share = lambda which: float(sums[which].sum() / max(counts[which].sum(), 1))
    # The steps of a single case say nothing about other cases.
    interval = list(bootstrap(share, len(counts))) if len(counts) > 1 else [0.0, 1.0 if classify else math.inf]
    return scores(values, targets, classify=classify) | {"of": name, "interval": interval, "steps": len(targets)}


def sentence(found: dict[str, Any], cases: int, where: str) -> str:
    """Scores as a sentence, with those of a constant prediction and of MiniRocket where they are known."""
    digits = ".1%" if found["of"] == "accuracy" else ".4g"
    steps = f"{found['steps']:,} steps of {cases} cases" if "steps" in found else f"{cases} cases"
    low, high = found["interval"]
    sure = f" (95 % interval{' over cases' if 'steps' in found else ''} {low:{digits}} to {high:{digits}})"
    others = {f"always predicting {found['baseline']['prediction']}": found["baseline"]} if "baseline" in found else {}
    if "baseline" in found and found["of"] == "mse":
        others = {"always predicting the mean": found["baseline"]}
    if "minirocket" in found:
        others["MiniRocket"] = found["minirocket"]
    if found["of"] == "accuracy":
        more = "".join(f"; {name}: accuracy {one['accuracy']:.1%}" for name, one in others.items())
        return (
            f"{where}: accuracy {found['accuracy']:.1%}{sure} on {steps}; balanced accuracy {found['balanced_accuracy']:.1%}, F1 "
            f"{found['f1']:.3f}, log-loss {found['log_loss']:.3f}{more}"
        )
    more = "".join(f"; {name}: mean squared error {one['mse']:.4g}" for name, one in others.items())
    return (
        f"{where}: mean squared error {found['mse']:.4g}{sure} on {steps}; mean absolute error {found['mae']:.4g}, R² "
        f"{found['r2']:.3f}{more}"
    )


def wilson(hits: int, cases: int, z: float = 1.959964) -> tuple[float, float]:
    """A 95 % interval for a share of cases (Wilson 1927), accurate also near 0 and 1 and for few cases."""
    share, size = hits / cases, 1 + z**2 / cases
    middle = (share + z**2 / (2 * cases)) / size
    half = z / size * math.sqrt(share * (1 - share) / cases + z**2 / (4 * cases**2))
    # At both ends the sum is exact but for its rounding.
    return 0.0 if hits == 0 else middle - half, 1.0 if hits == cases else middle + half


def bootstrap(measure: Callable[[np.ndarray], float], cases: int, draws: int = 1000) -> tuple[float, float]:
    """A 95 % bootstrap interval over cases; `measure` is called with their positions."""
    rng = np.random.default_rng(0)
    found = [measure(rng.integers(0, cases, cases)) for _ in range(draws)]
    low, high = np.nanpercentile(found, [2.5, 97.5])
    return float(low), float(high)
