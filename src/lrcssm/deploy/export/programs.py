"""Programs to export: models as functions of arrays, with their parameters as constants.

    sequence   inputs (time, batch, channels)                              to outputs
    step       sample (batch, channels), state (batch, n), begin (batch,)  to output and state

Each row of a batch is a separate stream. Where `begin` is true the stream starts, and its state is ignored, so the first state
can be arbitrary, e.g. zeros. With `timed` there is one more input, `dt`: (time, batch) or (batch,).
"""

import dataclasses
import os
from collections.abc import Callable, Iterator
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ...data import Cases
from ...engine import Sequential
from ...errors import InvalidValue, LrcssmError
from ...features import LiquidModel
from ...files import atomic
from ...models import SequenceModel
from ...models.plain import plain

What = Literal["sequence", "step"]
TOLERANCE = 1e-5
"""Largest accepted difference between the outputs of an exported program and the model, relative to the largest output."""
RIDGE_TOLERANCE = 1e-3
"""The same for a ridge model, whose features count how often a state is above a threshold: rounding may move it across."""


class ExportError(LrcssmError, ValueError):
    """A model that cannot be exported, or whose exported program has different outputs."""


@dataclasses.dataclass(frozen=True)
class Program:
    """A function of arrays with the names and shapes of its inputs and outputs; letters are free sizes."""

    function: Callable[..., tuple[Array, ...]]
    inputs: dict[str, tuple[Any, ...]]
    outputs: tuple[str, ...]
    dtypes: dict[str, np.dtype]
    multiple: int = 1
    """Divisor of every valid length."""
    row: Callable[..., tuple[Array, ...]] | None = None
    """The step of one row, without the axis of the batch."""
    tolerance: float = TOLERANCE
    """Largest accepted difference."""


def program(model: SequenceModel | LiquidModel, what: What, *, timed: bool = False) -> Program:
    """Make a program from a model.

    **Arguments:**

    - `model`: a `SequenceModel`; or a `LiquidModel`, which can be exported as a step only.
    - `what`: `"sequence"` or `"step"`.
    - `timed`: add the input `dt`.
    """
    if what not in ("sequence", "step"):
        raise InvalidValue(f'There is no export of {what!r}; give "sequence" or "step".')
    if isinstance(model, LiquidModel) and what == "sequence":
        raise ExportError('A ridge model is exported as a step, for one sample and a state; give what="step".')
    made = _sequence(model, timed) if what == "sequence" else _step(model, timed)
    function, inputs, outputs, multiple, row = made
    dtypes = {name: np.dtype(bool) if name == "begin" else model.dtype for name in inputs}
    tolerance = RIDGE_TOLERANCE if isinstance(model, LiquidModel) else TOLERANCE
    return Program(function, inputs, outputs, dtypes, multiple, row, tolerance)


def _sequence(model, timed):
    bare, patch = plain(model), model.config.patch

    def run(inputs, dt=None):
        # The length is symbolic, so nothing may depend on it.
        return (bare(inputs, dt=dt, solver=Sequential(), throw=False, chunk=None)[0],)

    time = "t" if patch == 1 else f"{patch}*t"
    shapes: dict[str, tuple[Any, ...]] = {"inputs": (time, "b", model.config.input_dim)}
    return run, shapes | ({"dt": (time, "b")} if timed else {}), ("outputs",), patch, None


def _step(model, timed):
    if isinstance(model, LiquidModel):
        bare = model.stepper()
    else:
        model.check_steps()
        bare = plain(model)
    packing = OneArray(bare.first_state())

    def one(sample, state, begin, dt=None):
        fresh = packing.pack(bare.first_state())
        output, state = bare.step(sample, packing.unpack(jnp.where(begin, fresh, state)), dt=dt)
        return output, packing.pack(state)

    shapes: dict[str, tuple[Any, ...]] = {
        "sample": ("b", model.config.input_dim), "state": ("b", packing.size), "begin": ("b",)
    }  # fmt: skip
    return jax.vmap(one), shapes | ({"dt": ("b",)} if timed else {}), ("output", "state_after"), 1, one


class OneArray:
    """Conversion between a tree of arrays and one real vector; a complex number takes two places."""

    def __init__(self, example: Any):
        leaves, self.tree = jax.tree.flatten(example)
        self.shapes = [leaf.shape for leaf in leaves]
        self.dtypes = [leaf.dtype for leaf in leaves]
        self.real = jnp.result_type(*(jnp.finfo(d).dtype for d in self.dtypes if jnp.issubdtype(d, jnp.inexact)))
        self.size = sum(self._sizes())

    def _sizes(self) -> list[int]:
        twice = [2 if jnp.issubdtype(dtype, jnp.complexfloating) else 1 for dtype in self.dtypes]
        return [int(np.prod(shape)) * factor for shape, factor in zip(self.shapes, twice, strict=True)]

    def pack(self, tree: Any) -> Array:
        """The vector of a tree."""
        parts = []
        for leaf in jax.tree.leaves(tree):
            flat = leaf.reshape(-1)
            parts += [flat.real, flat.imag] if jnp.iscomplexobj(flat) else [flat.astype(self.real)]
        return jnp.concatenate(parts)

    def unpack(self, vector: Array) -> Any:
        """The tree of a vector."""
        leaves, begin = [], 0
        for shape, dtype, size in zip(self.shapes, self.dtypes, self._sizes(), strict=True):
            part, begin = vector[begin : begin + size], begin + size
            if jnp.issubdtype(dtype, jnp.complexfloating):
                part = jax.lax.complex(part[: size // 2], part[size // 2 :])
            leaves.append(part.astype(dtype).reshape(shape))
        return jax.tree.unflatten(self.tree, leaves)


def examples(
    model: SequenceModel | LiquidModel, made: Program, count: int, seed: int = 0
) -> Iterator[dict[str, np.ndarray]]:
    """Random inputs of different sizes, at the scale of the model's data."""
    rng = np.random.default_rng(seed)
    mean, scale = _data_scale(model)
    for _ in range(count):
        sizes = {"b": int(rng.integers(1, 5)), "t": int(rng.integers(1, 40))}
        given = {}
        for name, shape in made.inputs.items():
            # The only factor of a letter is a patch.
            known = tuple(n if isinstance(n, int) else sizes[n[-1]] * int(n.rpartition("*")[0] or 1) for n in shape)
            if name == "begin":
                given[name] = np.ones(known, bool)
            elif name == "dt":
                given[name] = rng.uniform(0.5, 1.5, known).astype(made.dtypes[name])
            else:
                numbers = rng.normal(size=known)
                given[name] = (numbers if name == "state" else mean + scale * numbers).astype(made.dtypes[name])
        yield given


def largest_difference(
    model: SequenceModel | LiquidModel, made: Program, run: Callable[..., Any], *, count: int, steps: int = 12
) -> float:
    """The largest difference between the outputs of a program and a model, relative to the largest output.

    **Arguments:**

    - `model`, `made`: the model and its program.
    - `run`: the exported program, called with arrays in the order of `made.inputs`.
    - `count`: number of random inputs.
    - `steps`: samples of a stream, for a step; its last output is compared with that of the model for all samples.
    """
    worst = 0.0
    call = _whole(model)
    for i, given in enumerate(examples(model, made, count)):
        if "state" not in made.inputs:
            got, want = np.asarray(run(*given.values())[0]), call(given["inputs"], given.get("dt"))
            worst = max(worst, _apart(got, np.asarray(want)))
            continue
        steps += -steps % model.config.patch
        rng = np.random.default_rng(i)
        shift = rng.normal(size=(steps, *given["sample"].shape)) * _data_scale(model)[1]
        samples = (given["sample"] + shift).astype(given["sample"].dtype)
        state, outputs = given["state"], []
        for t, sample in enumerate(samples):
            now = given | {"sample": sample, "state": state, "begin": np.full(len(sample), t == 0)}
            output, state = map(np.asarray, run(*now.values()))
            outputs.append(output)
        dt = np.broadcast_to(given["dt"], samples.shape[:-1]) if "dt" in given else None
        want = np.asarray(call(samples, dt))
        worst = max(worst, _apart(np.stack(outputs) if want.ndim == 3 else outputs[-1], want))
    return worst


def _data_scale(model: SequenceModel | LiquidModel) -> tuple[np.ndarray, np.ndarray]:
    """Mean and scale of the channels in training."""
    if isinstance(model, LiquidModel):
        return model.map.views.mean, model.map.views.scale
    return np.asarray(model.features.mean), np.asarray(model.features.scale)


def _whole(model: SequenceModel | LiquidModel) -> Callable[..., Any]:
    """The outputs of a model as a function of inputs `(time, batch, channels)` and `dt` `(time, batch)` or `None`."""
    if not isinstance(model, LiquidModel):
        return jax.jit(lambda inputs, dt: model(inputs, dt=dt, solver=Sequential(), throw=False)[0])
    rows = lambda array: tuple(np.moveaxis(np.asarray(array), 1, 0))
    return lambda inputs, dt: model.outputs(Cases(rows(inputs), dt=None if dt is None else rows(dt)))


def write_checked(path: str | os.PathLike[str], raw: bytes, what: What, made: Program, error: float) -> float:
    """Write an exported program, unless its outputs differ from the model's; returns the difference."""
    if not error <= made.tolerance:
        raise ExportError(f"The exported {what} differs from the model by {error:.2g}; nothing was written.")
    with atomic(path) as file:
        file.write(raw)
    return error


def _apart(got: np.ndarray, want: np.ndarray) -> float:
    if got.shape != want.shape or not (np.isfinite(want).all() and np.isfinite(got).all()):
        return float("inf")
    return float(np.max(np.abs(got.astype(np.float64) - want)) / max(np.max(np.abs(want)), 1.0))
