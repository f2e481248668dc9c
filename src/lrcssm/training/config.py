"""How to train, as data."""

import dataclasses
from typing import Literal

import optax


@dataclasses.dataclass(frozen=True, kw_only=True)
class TrainingConfig:
    """Everything that `fit` needs to know beyond the model and the data.

    **Arguments:**

    - `steps`: of the optimiser, at most.
    - `batch`: cases for each step.
    - `learning_rate`, `schedule`, `warmup`: the largest rate; `"cosine"` lets it fall to a hundredth, `"constant"` keeps
        it; both after a share `warmup` of the steps in which it rises.
    - `weight_decay`: of AdamW; 0 is Adam.
    - `clip`: the largest norm of a gradient.
    - `ema`: weights are averaged over about this share of the steps so far, at most 1/(1 − 0.999); 0 for none.
    - `label_smoothing`: the share of certainty that is taken from the right class.
    - `class_weights`: `"balanced"` lets each class count the same, `None` each case.
    - `check_every`: steps between two looks at the validation data.
    - `patience`: looks without improvement after which to stop; `None` for never.
    - `seed`: of the order of the data and of dropout.
    """

    steps: int = 1000
    batch: int = 16
    learning_rate: float = 3e-3
    schedule: Literal["cosine", "constant"] = "cosine"
    warmup: float = 0.05
    weight_decay: float = 0.01
    clip: float = 1.0
    ema: float = 0.99
    label_smoothing: float = 0.0
    class_weights: Literal["balanced"] | None = None
    check_every: int = 50
    patience: int | None = None
    seed: int = 0

    def __post_init__(self):
        for name in ("steps", "batch", "check_every"):
            if getattr(self, name) < 1:
                raise ValueError(
                    f"TrainingConfig got {name}={getattr(self, name)!r}; give a whole number of at least 1."
                )
        for name in ("learning_rate", "clip"):
            if not getattr(self, name) > 0:
                raise ValueError(f"TrainingConfig got {name}={getattr(self, name)!r}; give a positive number.")
        for name in ("ema", "label_smoothing", "warmup"):
            if not 0 <= getattr(self, name) < 1:
                raise ValueError(f"TrainingConfig got {name}={getattr(self, name)!r}; give a number from 0 to below 1.")
        if self.schedule not in ("cosine", "constant"):
            raise ValueError(f'TrainingConfig got schedule={self.schedule!r}; give "cosine" or "constant".')

    def optimiser(self) -> optax.GradientTransformation:
        """Clipping, Adam(W) and the schedule."""
        rise = max(1, int(self.warmup * self.steps))
        if self.schedule == "cosine":
            rate = optax.warmup_cosine_decay_schedule(
                0.0, self.learning_rate, rise, max(self.steps, rise + 1), self.learning_rate / 100
            )
        else:
            rate = optax.linear_schedule(0.0, self.learning_rate, rise)
        return optax.chain(optax.clip_by_global_norm(self.clip), optax.adamw(rate, weight_decay=self.weight_decay))
