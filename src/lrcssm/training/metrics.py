"""Losses and scores."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float

from ..data import Batch, Cases, batches
from ..engine import Auto, SolveError, Solver, Status
from ..models import SequenceModel
from ..models.layers import moments
from .devices import divisible, keep_everywhere, spread


def losses(
    model: SequenceModel, outputs: Float[Array, "*out"], targets: Array, mask: Array | None, label_smoothing: Any
) -> Float[Array, " batch"]:
    """Of each case: cross-entropy, or the squared error in units of the targets' variance; the mean over its valid steps
    where each step has a target, without those whose number is NaN: not every step needs one."""
    if model.classifies(targets):
        wanted = jax.nn.one_hot(targets, outputs.shape[-1], dtype=outputs.dtype)
        share = jnp.asarray(label_smoothing, outputs.dtype)
        each = optax.softmax_cross_entropy(outputs, (1 - share) * wanted + share / outputs.shape[-1])
    else:
        wanted = targets.reshape(outputs.shape).astype(outputs.dtype)
        if model.config.task == "per-step":
            known = ~jnp.any(jnp.isnan(wanted), -1)
            mask = known if mask is None else known & mask
            wanted = jnp.where(known[..., None], wanted, outputs)
        each = jnp.mean(((outputs - wanted) / model.target_scale) ** 2, -1)
    if model.config.task != "per-step":
        return each
    return moments(each[..., None], mask)[0][..., 0]


@eqx.filter_jit
def _outputs(model, inputs, mask, dt, solver):
    outputs, _, passed = model.run(inputs, mask=mask, dt=dt, solver=solver, throw=False)
    statuses = [jnp.max(left.solution.status) for left in passed if left.solution is not None]
    worst = jnp.max(jnp.stack(statuses)) if statuses else jnp.zeros((), jnp.int32)
    return keep_everywhere((outputs, worst), solver)


def predict(model: SequenceModel, cases: Cases, batch: int = 64, solver: Solver = Auto()) -> Any:
    """The outputs for all cases, in their order: logits of the classes, or numbers; for `task="per-step"` a list of one
    array `(time, outputs)` for each case."""
    found: list[Any] = [None] * len(cases)
    for part in batches(cases, divisible(min(batch, len(cases)), solver)):
        inputs, mask, dt = spread((part.inputs, part.mask, part.dt), solver)
        outputs, status = map(np.asarray, _outputs(model, inputs, mask, dt, solver))
        # Here and not from the compiled program, where an error on one device would leave the others waiting.
        if not Status(int(status)).ok:
            raise SolveError(f"{solver.name}: {Status(int(status)).message}")
        for column, i in enumerate(part.positions):
            each = model.config.task == "per-step"
            found[i] = outputs[: len(cases.series[i]), column] if each else outputs[column]
    return found if model.config.task == "per-step" else np.stack(found)


def evaluate(model: SequenceModel, cases: Cases, batch: int = 64, solver: Solver = Auto()) -> dict[str, float]:
    """Scores on cases with targets. Classification: accuracy, balanced accuracy, macro F1 and log-loss. Regression: mean
    squared and absolute error and R²."""
    if cases.targets is None:
        raise ValueError("evaluate got cases without targets; predict gives outputs for them.")
    outputs, targets = predict(model, cases, batch, solver), cases.targets
    if model.config.task == "per-step":
        valid = cases.valid or [slice(None)] * len(cases)
        outputs = np.concatenate([one[which] for one, which in zip(outputs, valid, strict=True)])
        targets = np.concatenate([one[which] for one, which in zip(targets, valid, strict=True)])
        known = ~np.isnan(targets.reshape(len(targets), -1)).any(-1)
        outputs, targets = outputs[known], targets[known]
    return scores(outputs, np.asarray(targets), classify=model.classifies(targets))


def scores(outputs: np.ndarray, targets: np.ndarray, *, classify: bool) -> dict[str, float]:
    """What `evaluate` gives, from outputs (logits or numbers) and targets."""
    outputs = outputs.astype(np.float64)
    if classify:
        logs = log_softmax(outputs)
        targets, guesses = targets.astype(int), outputs.argmax(-1)
        recalls, harmonic = [], []
        for label in np.unique(targets):
            hit = np.sum((guesses == label) & (targets == label))
            recalls.append(hit / np.sum(targets == label))
            harmonic.append(2 * hit / (np.sum(targets == label) + np.sum(guesses == label)))
        return {
            "accuracy": float(np.mean(guesses == targets)),
            "balanced_accuracy": float(np.mean(recalls)),
            "f1": float(np.mean(harmonic)),
            "log_loss": float(-np.mean(logs[np.arange(len(targets)), targets])),
        }
    targets = targets.reshape(outputs.shape).astype(np.float64)
    error = outputs - targets
    spread = np.mean((targets - targets.mean(0)) ** 2)
    return {
        "mse": float(np.mean(error**2)),
        "mae": float(np.mean(np.abs(error))),
        "r2": float(1 - np.mean(error**2) / spread) if spread > 0 else float("nan"),
    }


def log_softmax(logits: np.ndarray) -> np.ndarray:
    """Logarithms of the classes' probabilities."""
    shifted = logits - logits.max(-1, keepdims=True)
    return shifted - np.log(np.sum(np.exp(shifted), -1, keepdims=True))


def weights_of(cases: Cases, kind: str | None, classes: int) -> np.ndarray | None:
    """For each class the weight of its cases in the loss; on average over the cases 1."""
    if kind is None or cases.targets is None:
        return None
    if isinstance(cases.targets, tuple) or not np.issubdtype(cases.targets.dtype, np.integer):
        raise ValueError(f"class_weights={kind!r} was given, but the targets are not one class for each case.")
    counts = np.bincount(np.asarray(cases.targets).astype(int), minlength=classes)
    return np.where(counts > 0, len(cases) / (np.count_nonzero(counts) * np.maximum(counts, 1)), 0.0)


def arrays_of(part: Batch, class_weights: np.ndarray | None) -> tuple[Any, ...]:
    """What a training step takes: inputs, mask, dt, targets and the weight of each case."""
    assert part.targets is not None
    weights = part.weights if class_weights is None else part.weights * class_weights[part.targets.astype(int)]
    return part.inputs, part.mask, part.dt, part.targets, weights.astype(part.inputs.dtype)
