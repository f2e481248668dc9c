"""Evaluations on the validation cases during training."""

import dataclasses
import math
from typing import Any

import numpy as np

from ..errors import InvalidValue
from .config import TrainingConfig

Past = tuple[float, tuple[float, ...]]
"""Loss and iterations of a step."""


@dataclasses.dataclass(frozen=True)
class Evaluation:
    """One evaluation on the validation cases.

    **Attributes:**

    - `step`: steps made so far.
    - `loss`: mean training loss since the last evaluation.
    - `scores`: on the validation cases; empty if there are none.
    - `seconds`: since the start of training.
    - `iterations`, `iterations_by_layer`: mean number of the solver's iterations, over all layers and of each one.
    """

    step: int
    loss: float
    scores: dict[str, float]
    seconds: float
    iterations: float
    iterations_by_layer: tuple[float, ...] = ()

    @classmethod
    def of(cls, step: int, since: tuple[Past, ...], scores: dict[str, float], seconds: float) -> "Evaluation":
        """The evaluation after some steps; `since` holds their losses and iterations."""
        layers = tuple(float(count) for count in np.mean([counts for _, counts in since], 0))
        loss = float(np.mean([loss for loss, _ in since]))
        return cls(step, loss, scores, seconds, float(np.mean(layers)) if layers else 0.0, layers)

    def score(self, config: TrainingConfig) -> float:
        """The score by which models are compared (`config.monitor`); larger is better."""
        if not self.scores:
            return float(self.step)
        if "mse" in self.scores:
            return -self.scores["mse"]
        return -self.scores["log_loss"] if config.monitor == "loss" else self.scores["accuracy"]

    def to_dict(self) -> dict[str, Any]:
        """Fields as JSON values, without NaN."""
        scores = {name: value if math.isfinite(value) else None for name, value in self.scores.items()}
        return dataclasses.asdict(self) | {"scores": scores, "iterations_by_layer": list(self.iterations_by_layer)}

    @classmethod
    def from_dict(cls, fields: dict[str, Any]) -> "Evaluation":
        """The inverse of `to_dict`; raises `InvalidValue` for an invalid field."""
        numbers = [fields["loss"], fields["seconds"], fields["iterations"], *fields["iterations_by_layer"]]
        known = [value for value in fields["scores"].values() if value is not None]
        if type(fields["step"]) is not int or fields["step"] < 0 or not all(map(_is_number, (*numbers, *known))):
            raise InvalidValue("an evaluation is not one")
        scores = {name: math.nan if value is None else value for name, value in fields["scores"].items()}
        changed: dict[str, Any] = fields | {
            "scores": scores, "iterations_by_layer": tuple(fields["iterations_by_layer"]),
        }  # fmt: skip
        return cls(**changed)


def _is_number(value: Any) -> bool:
    return type(value) is float or (type(value) is int and abs(value) < 2**63)
