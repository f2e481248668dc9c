"""Common parts of the model benchmarks: one training step, with loss, gradient, Adam and the average of the weights."""

import contextlib
import os
import time
from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp

from lrcssm.data import Batch
from lrcssm.engine import Auto
from lrcssm.models import SequenceModel
from lrcssm.training import TrainingConfig
from lrcssm.training.step import TrainState, train_step


def arguments(
    model: SequenceModel, length: int, batch: int, chunk: int | None = None, memory: int | None = None
) -> tuple[Any, ...]:
    """Arguments of a training step of a classifier, on random data without padding.

    **Arguments:**

    - `model`: the classifier.
    - `length`, `batch`: of the sequences.
    - `chunk`, `memory`: as in `TrainingConfig`.
    """
    channels, classes = model.config.input_dim, model.config.output_dim
    knobs = TrainingConfig(batch=batch, schedule="constant", weight_decay=0.0, label_smoothing=0.0).knobs()
    inputs = jax.random.normal(jax.random.key(1), (length, batch, channels))
    data = Batch(inputs, None, None, jnp.arange(batch) % classes, jnp.ones(batch))
    return TrainState.start(model, knobs), data, knobs, jax.random.key(2), Auto(), None, chunk, memory


def compiled(*given: Any) -> Any:
    """Compile a training step for these arguments; the field `compiled` of the result is JAX's own."""
    step: Any = train_step
    return step.lower(*given).compile()


def compiled_in(given: tuple[Any, ...]) -> tuple[Any, float]:
    """Compile a training step; also returns the seconds of tracing and compiling."""
    jax.block_until_ready(jax.tree.leaves(given))
    start = time.perf_counter()
    return compiled(*given), time.perf_counter() - start


def megabytes(step: Any) -> float | None:
    """Memory of a compiled step beyond its arguments, in MB of 10⁶ bytes, if the compiler reports it."""
    analysis = step.compiled.memory_analysis()
    return None if analysis is None else (analysis.temp_size_in_bytes + analysis.output_size_in_bytes) / 1e6


def too_large(planned: float | None) -> str | None:
    """Reason not to measure a step that needs this many megabytes; `None` if it fits."""
    available = _available()
    if planned is None or planned <= available:
        return None
    return f"not measured, it needs {planned / 1e3:.0f} GB and {available / 1e3:.0f} are there"


@contextlib.contextmanager
def fresh_compilations() -> Iterator[None]:
    """Compile without the disk cache."""
    keep = jax.config.jax_enable_compilation_cache  # pyright: ignore[reportAttributeAccessIssue]
    jax.config.update("jax_enable_compilation_cache", False)
    try:
        yield
    finally:
        jax.config.update("jax_enable_compilation_cache", keep)


def _available() -> float:
    """Megabytes of free memory, if the system reports it."""
    names = getattr(os, "sysconf_names", {})
    if jax.default_backend() != "cpu" or "SC_AVPHYS_PAGES" not in names:
        return float("inf")
    return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 1e6
