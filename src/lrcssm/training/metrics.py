"""Losses and scores."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float

from ..data import Batch, Cases, batches
from ..models import SequenceModel


def losses(
    model: SequenceModel, outputs: Float[Array, "batch outputs"], targets: Array, label_smoothing: float
) -> Float[Array, " batch"]:
    """Of each case: cross-entropy, or the squared error."""
    if model.config.task == "classify":
        wanted = jax.nn.one_hot(targets, outputs.shape[-1], dtype=outputs.dtype)
        return optax.softmax_cross_entropy(outputs, optax.smooth_labels(wanted, label_smoothing))
    return jnp.mean((outputs - targets.reshape(outputs.shape).astype(outputs.dtype)) ** 2, -1)


@eqx.filter_jit
def _outputs(model, inputs, mask):
    return model(inputs, mask=mask)[0]


def predict(model: SequenceModel, cases: Cases, batch: int = 64) -> np.ndarray:
    """The outputs for all cases, in their order: logits of the classes, or numbers."""
    found: Any = None
    for part in batches(cases, min(batch, len(cases))):
        outputs = np.asarray(_outputs(model, part.inputs, part.mask))
        if found is None:
            found = np.zeros((len(cases), *outputs.shape[1:]), outputs.dtype)
        found[part.positions] = outputs[: len(part.positions)]
    return found


def evaluate(model: SequenceModel, cases: Cases, batch: int = 64) -> dict[str, float]:
    """Scores on cases with targets. Classification: accuracy, balanced accuracy, macro F1 and log-loss. Regression: mean
    squared and absolute error and R²."""
    assert cases.targets is not None
    outputs = predict(model, cases, batch).astype(np.float64)
    if model.config.task == "classify":
        shifted = outputs - outputs.max(-1, keepdims=True)
        logs = shifted - np.log(np.sum(np.exp(shifted), -1, keepdims=True))
        targets, guesses = cases.targets.astype(int), outputs.argmax(-1)
        recalls, scores = [], []
        for label in np.unique(targets):
            hit = np.sum((guesses == label) & (targets == label))
            recalls.append(hit / np.sum(targets == label))
            scores.append(2 * hit / (np.sum(targets == label) + np.sum(guesses == label)))
        return {
            "accuracy": float(np.mean(guesses == targets)),
            "balanced_accuracy": float(np.mean(recalls)),
            "f1": float(np.mean(scores)),
            "log_loss": float(-np.mean(logs[np.arange(len(targets)), targets])),
        }
    targets = cases.targets.reshape(outputs.shape).astype(np.float64)
    error = outputs - targets
    spread = np.mean((targets - targets.mean(0)) ** 2)
    return {
        "mse": float(np.mean(error**2)),
        "mae": float(np.mean(np.abs(error))),
        "r2": float(1 - np.mean(error**2) / spread) if spread > 0 else float("nan"),
    }


def weights_of(cases: Cases, kind: str | None, classes: int) -> np.ndarray | None:
    """For each class the weight of its cases in the loss; on average over the cases 1."""
    if kind is None or cases.targets is None:
        return None
    counts = np.bincount(cases.targets.astype(int), minlength=classes)
    return np.where(counts > 0, len(cases) / (np.count_nonzero(counts) * np.maximum(counts, 1)), 0.0)


def arrays_of(part: Batch, class_weights: np.ndarray | None) -> tuple[Any, ...]:
    """What a training step takes: inputs, mask, targets and the weight of each case."""
    assert part.targets is not None
    weights = part.weights if class_weights is None else part.weights * class_weights[part.targets.astype(int)]
    return part.inputs, part.mask, part.targets, weights.astype(part.inputs.dtype)
