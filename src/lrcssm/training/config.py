"""Settings of the training loop."""

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
    """Settings of `fit` beyond the model and the data.

    ```python
    from lrcssm.training import TrainingConfig

    print(TrainingConfig(steps=200, batch=32).learning_rate)  # 0.003
    ```
    """

    steps: int = 1000
    """Largest number of optimiser steps."""
    batch: int = 16
    """Number of cases per step."""
    learning_rate: float = 3e-3
    """Largest learning rate."""
    schedule: Literal["cosine", "constant"] = "cosine"
    """Learning rate after the warm-up: `"cosine"` reduces it to a hundredth, `"constant"` keeps it."""
    warmup: float = 0.05
    """Share of the steps in which the learning rate rises."""
    weight_decay: float = 0.01
    """Weight decay of AdamW; 0 is Adam."""
    clip: float = 1.0
    """Largest norm of a gradient."""
    ema: float = 0.99
    """Decay of the averaged weights (faster at the start); 0 for none."""
    label_smoothing: float = 0.1
    """Label smoothing: probability taken from the true class."""
    class_weights: Literal["balanced"] | None = None
    """`"balanced"` gives all classes the same weight, `None` all cases."""
    monitor: Literal["score", "loss", "last"] = "score"
    """Criterion for the best model on the validation cases: `"score"` (accuracy, or mean squared error) or `"loss"` (log-loss, or
    mean squared error). `"last"` keeps the last weights, which with averaged weights and a falling learning rate is often better
    than the choice of a small validation part."""
    check_every: int = 50
    """Steps between two evaluations on the validation cases."""
    patience: int | None = None
    """Evaluations without improvement after which training stops; `None` for never."""
    chunk: int | None = None
    """Steps (after patching) that go through all blocks at a time: fewer take less memory, with the same result to rounding.
    `None` chooses by the length."""
    memory: int | float | str | None = None
    """Memory that a training step may take on each device, beyond Python and the program itself: bytes, or a text such as
    `"1.5GB"`. Chunks and recomputation are chosen so that it fits; `None` chooses by the length."""
    truncate: int | None = None
    """Largest number of steps (after patching) that gradients go back (truncated back-propagation through time); `None` for all."""
    seed: int = 0
    """Seed of the order of the data and of dropout."""

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
        """Numbers that a training step takes, as arrays."""
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
