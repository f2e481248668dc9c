"""How to train, as data."""

import dataclasses
from typing import Any, Literal

import equinox as eqx
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float

from ..errors import InvalidValue
from ..models.budget import as_bytes


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
    - `ema`: weights are averaged with this decay (faster at the start); 0 for none.
    - `label_smoothing`: the share of certainty that is taken from the right class.
    - `class_weights`: `"balanced"` lets each class count the same, `None` each case.
    - `monitor`: what makes a model the best one on the validation data: `"score"` (accuracy, or the mean squared error) or
        `"loss"` (log-loss, or the mean squared error); `"last"` keeps the last weights, which with averaged weights and a
        falling learning rate is often better than the choice of a small validation part.
    - `check_every`: steps between two looks at the validation data.
    - `chunk`: steps (after patching) that go through all blocks at a time; `None` leaves it to the model, which takes a
        long sequence in chunks. Results are the same to rounding; smaller chunks take less memory.
    - `memory`: the most that a step of training may take on each device, beyond Python and the program itself: bytes (kept as
        such), or a text such as `"1.5GB"`. What is computed twice, and in which chunks, is chosen so that it fits; `None`
        chooses by the length. Results are the same to rounding.
    - `truncate`: let gradients go no further back than this many steps (after patching); `None` for all the way.
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
    monitor: Literal["score", "loss", "last"] = "score"
    check_every: int = 50
    patience: int | None = None
    chunk: int | None = None
    memory: int | float | str | None = None
    truncate: int | None = None
    seed: int = 0

    def __post_init__(self):
        for name in (
            "steps",
            "batch",
            "check_every",
            *(n for n in ("patience", "chunk", "truncate") if getattr(self, n) is not None),
        ):
            value = getattr(self, name)
            if not isinstance(value, int) or value < 1:
                raise InvalidValue(f"TrainingConfig got {name}={value!r}; give a whole number of at least 1.")
        if self.memory is not None:
            object.__setattr__(self, "memory", as_bytes(self.memory, "TrainingConfig"))
        if not isinstance(self.seed, int) or self.seed < 0:
            raise InvalidValue(f"TrainingConfig got seed={self.seed!r}; give a whole number of at least 0.")
        for name in ("learning_rate", "clip"):
            if not getattr(self, name) > 0:
                raise InvalidValue(f"TrainingConfig got {name}={getattr(self, name)!r}; give a positive number.")
        if not self.weight_decay >= 0:
            raise InvalidValue(f"TrainingConfig got weight_decay={self.weight_decay!r}; give 0 or a positive number.")
        for name in ("ema", "label_smoothing", "warmup"):
            if not 0 <= getattr(self, name) < 1:
                raise InvalidValue(
                    f"TrainingConfig got {name}={getattr(self, name)!r}; give a number from 0 to below 1."
                )
        for name, options in {
            "schedule": ("cosine", "constant"), "class_weights": ("balanced", None), "monitor": ("score", "loss", "last"),
        }.items():  # fmt: skip
            if getattr(self, name) not in options:
                wanted = " or ".join(repr(option) for option in options)
                raise InvalidValue(f"TrainingConfig got {name}={getattr(self, name)!r}; give {wanted}.")

    def knobs(self) -> "Knobs":
        """The numbers that a training step takes."""
        rise = int(self.warmup * self.steps)
        fall = max(self.steps, rise + 1) if self.schedule == "cosine" else 0
        numbers = (self.learning_rate, rise, fall, self.weight_decay, self.clip, self.ema, self.label_smoothing)
        return Knobs(*(jnp.asarray(number, jnp.result_type(float)) for number in numbers))


class Knobs(eqx.Module):
    """Numbers of a `TrainingConfig` as arrays: one compiled step serves all their values."""

    learning_rate: Float[Array, ""]
    rise: Float[Array, ""]
    fall: Float[Array, ""]
    weight_decay: Float[Array, ""]
    clip: Float[Array, ""]
    ema: Float[Array, ""]
    label_smoothing: Float[Array, ""]

    def rate(self, step: Any) -> Float[Array, ""]:
        """The learning rate of a step, counted from 0: a rise along a line, then a constant or half a cosine to 1 %."""
        step = step.astype(self.rise.dtype)
        share = jnp.clip((step - self.rise) / jnp.maximum(self.fall - self.rise, 1), 0, 1)
        cosine = 0.01 + 0.99 * 0.5 * (1 + jnp.cos(jnp.pi * share))
        later = jnp.where(self.fall > 0, cosine, 1.0)
        return self.learning_rate * jnp.minimum((step + 1) / jnp.maximum(self.rise, 1), 1.0) * later

    def optimiser(self) -> optax.GradientTransformation:
        """Clipping, Adam and decoupled weight decay; its updates are still to be multiplied by minus the rate."""
        return optax.chain(
            optax.clip_by_global_norm(self.clip),
            optax.scale_by_adam(),
            optax.add_decayed_weights(self.weight_decay),
        )
