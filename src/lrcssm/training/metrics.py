"""Losses and scores."""

import math
from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float, Int

from ..compilation import bound_programs
from ..data import Cases, batches, padded_lengths
from ..data.batching import few_patches
from ..engine import Auto, SolveError, Solver, Status
from ..errors import InvalidValue, PredictionError
from ..models import SequenceModel
from ..models.layers import moments
from .devices import keep_everywhere, spread

LEAST_BATCH = 16
"""Size to which small batches are filled if cases have few patches, so that all of them share one program."""


def losses(
    model: SequenceModel, outputs: Float[Array, "*out"], targets: Any, mask: Any, label_smoothing: Any
) -> Float[Array, " batch"]:
    """Loss of each case: cross-entropy, or the squared error in units of the targets' variance; with a target for each step,
    the mean over the observed steps that have one (not NaN, and not class −1)."""
    if model.classifies(targets):
        wanted = jax.nn.one_hot(targets, outputs.shape[-1], dtype=outputs.dtype)
        share = jnp.asarray(label_smoothing, outputs.dtype)
        each = optax.softmax_cross_entropy(outputs, (1 - share) * wanted + share / outputs.shape[-1])
        if model.config.task == "per-step":
            known = targets >= 0
            mask = known if mask is None else known & mask
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
def _outputs(model, batch, solver):
    outputs, _, passed = model.run(batch.inputs, mask=batch.mask, dt=batch.dt, solver=solver, throw=False)
    return keep_everywhere((outputs, worst_status(passed)), solver)


def worst_status(passed: Sequence[Any]) -> Int[Array, ""]:
    """The worst status of the solves of all blocks, from the results that `SequenceModel.run` returns."""
    statuses = [jnp.max(left.solution.status) for left in passed if left.solution is not None]
    return jnp.max(jnp.stack([jnp.zeros((), jnp.int32), *statuses]))


def predict(
    model: SequenceModel, cases: Cases, batch: int = 64, solver: Solver = Auto(), known: Sequence[int] = ()
) -> Any:
    """Outputs of a model for all cases, in their order.

    ```python
    import jax, lrcssm, numpy as np
    from lrcssm.data import Cases
    from lrcssm.training import predict

    model = lrcssm.SequenceModel(lrcssm.ModelConfig(input_dim=2, output_dim=3), jax.random.key(0))
    print(predict(model, Cases.of(np.zeros((5, 20, 2)))).shape)  # (5, 3)
    ```

    **Arguments:**

    - `model`: a `SequenceModel`.
    - `cases`: with or without targets.
    - `batch`: number of cases per batch.
    - `solver`: of the recurrences.
    - `known`: lengths for which programs are compiled already, as for `lrcssm.data.padded_lengths`.

    **Returns:**

    Logits of the classes, or numbers, `(cases, outputs)`; for `task="per-step"` a list of one array `(time, outputs)` for each
    case. A solve that failed raises `SolveError`, and outputs that are not finite raise `PredictionError`.
    """
    bound_programs(_outputs)
    found: list[Any] = [None] * len(cases)
    each = model.config.task == "per-step"
    lengths, multiple = padded_lengths(cases, known, patch=model.config.patch), solver.batch_shards
    if few_patches(lengths[-1], model.config.patch):
        multiple = math.lcm(multiple, min(batch, LEAST_BATCH))
    for part, positions in batches(cases, batch, lengths=lengths, multiple=multiple):
        outputs, worst = _outputs(model, spread(part, solver), solver)
        if not (status := Status(int(worst))).ok:
            raise SolveError(f"The cases from {positions[0]} to {positions[-1]} could not be solved. {status.message}")
        outputs = np.asarray(outputs)
        for column, i in enumerate(positions):
            found[i] = outputs[: len(cases.series[i]), column] if each else outputs[column]
    return finite_outputs(found if each else np.stack(found), cases)


def finite_outputs(outputs: Any, cases: Cases) -> Any:
    """The outputs of some cases, or `PredictionError` if one is not finite."""
    for i, one in enumerate(outputs):
        if not np.isfinite(one).all():
            raise PredictionError(
                f"The outputs for case {i} are not finite; its values, up to {np.abs(cases.series[i]).max():.3g} in size, are "
                "too large for the model: scale or clean them."
            )
    return outputs


def evaluate(
    model: SequenceModel, cases: Cases, batch: int = 64, solver: Solver = Auto(), known: Sequence[int] = ()
) -> dict[str, float]:
    """Scores of a model on cases with targets. Classification: accuracy, balanced accuracy, macro F1 and log-loss. Regression:
    mean squared and absolute error and R².

    **Arguments:**

    - `model`, `cases`, `batch`, `solver`, `known`: as for `predict`.
    """
    if cases.targets is None:
        raise InvalidValue("evaluate got cases without targets; predict gives outputs for them.")
    outputs, targets = observed(predict(model, cases, batch, solver, known), cases)
    return scores(outputs, targets, classify=model.classifies(targets))


def observed(outputs: Any, cases: Cases) -> tuple[np.ndarray, np.ndarray]:
    """Outputs and targets to compare: of each case, or of each observed step that has a target."""
    if not isinstance(cases.targets, tuple):
        return np.asarray(outputs), np.asarray(cases.targets)
    valid = cases.valid or [slice(None)] * len(cases)
    outputs = np.concatenate([one[which] for one, which in zip(outputs, valid, strict=True)])
    targets = np.concatenate([one[which] for one, which in zip(cases.targets, valid, strict=True)])
    known = known_targets(targets)
    return outputs[known], targets[known]


def known_targets(targets: np.ndarray) -> np.ndarray:
    """True for each step that has a target: a class that is not −1, or numbers that are not NaN."""
    if np.issubdtype(targets.dtype, np.integer):
        return targets >= 0
    return np.asarray(~np.isnan(targets.reshape(len(targets), -1)).any(-1))


def scores(outputs: np.ndarray, targets: np.ndarray, *, classify: bool) -> dict[str, float]:
    """Scores as `evaluate` gives them, from outputs (logits or numbers) and targets."""
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


def class_weights_of(cases: Cases, kind: str | None) -> np.ndarray | None:
    """Weight of the cases of each class in the loss, on average over the cases 1; `None` if all weigh the same."""
    if kind is None or cases.targets is None:
        return None
    if isinstance(cases.targets, tuple) or not np.issubdtype(cases.targets.dtype, np.integer):
        raise InvalidValue(f"class_weights={kind!r} was given, but the targets are not one class for each case.")
    counts = np.bincount(cases.targets)
    return np.where(counts > 0, len(cases) / (np.count_nonzero(counts) * np.maximum(counts, 1)), 0.0)
