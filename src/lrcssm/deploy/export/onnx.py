"""ONNX: for onnxruntime and what else reads it. Needs the extra `export`."""

import dataclasses
import logging
import os
import warnings
from collections.abc import Mapping
from typing import Any

import jax
import numpy as np

from ...errors import MissingExtra

try:
    import onnx  # pyright: ignore[reportMissingImports]
    import onnxruntime  # pyright: ignore[reportMissingImports]
except ImportError as error:
    raise MissingExtra(
        'To write ONNX takes packages that are not here; install them with pip install "lrcssm[export]".'
    ) from error

from ...files import atomic
from ...models import SequenceModel
from .lean import Unknown, lean_model
from .programs import ExportError, Program, What, largest_difference, program
from .real import without_complex
from .stablehlo import TOLERANCE, arguments


def to_onnx(
    path: str | os.PathLike[str],
    model: SequenceModel,
    *,
    what: What = "sequence",
    timed: bool = False,
    checks: int = 5,
    metadata: Mapping[str, str] | None = None,
) -> float:
    """Writes a model as ONNX, after a check in onnxruntime that it gives the model's numbers.

    **Arguments:**

    - `path`: where to; a file that is there is replaced, at once or not at all.
    - `model`: a `SequenceModel` in single precision.
    - `what`: `"sequence"`, of inputs `(time, batch, channels)`, any time and batch; or `"step"`, of one sample `(1,
        channels)`, a state `(1, n)` and whether to begin `(1,)`.
    - `timed`: whether the program takes `dt` as its last input.
    - `checks`: how many random inputs of different sizes it is tried with.
    - `metadata`: texts for the file's `metadata_props`, e.g. the names of the classes.

    **Returns:**

    How far its outputs are from the model's at most, relative to the largest; above 1e-5 is an error.
    """
    if model.target_mean.dtype != np.float32:
        raise ExportError(f"The model has {model.target_mean.dtype} parameters; ONNX is written for float32 alone.")
    made = _in_real_numbers(program(model, what, timed=timed))
    written = _step(made) if what == "step" else _converted(made, what, arguments(made))
    onnx.helper.set_model_props(written, {**(metadata or {}), "lrcssm": model.config.to_json()})
    raw = written.SerializeToString()
    try:
        session = open_session(raw)
    except Exception as error:  # those of onnxruntime have no base of their own
        reason = str(error).strip().partition("\n")[0]
        raise ExportError(f"onnxruntime cannot run the {what} of this model: {reason}") from error
    error = largest_difference(model, made, lambda *given: _run(session, made, given), count=checks)
    if not error <= TOLERANCE:
        raise ExportError(f"The exported {what} differs from the model by {error:.2g}, so nothing was written.")
    with atomic(path) as file:
        file.write(raw)
    return error


def open_session(raw: bytes) -> onnxruntime.InferenceSession:
    """A session with one thread: a step is too short for more. Nor is it worth the time to give memory from one node to
    another."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.enable_mem_reuse = False
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(raw, options, providers=["CPUExecutionProvider"])


def _in_real_numbers(made: Program) -> Program:
    """ONNX has next to no operations on complex numbers, and onnxruntime none."""
    row = None if made.row is None else without_complex(made.row)
    return dataclasses.replace(made, function=without_complex(made.function), row=row)


def _step(made: Program) -> onnx.ModelProto:
    try:
        return lean_model(made)
    except Unknown:
        one = [
            jax.ShapeDtypeStruct(tuple(1 if isinstance(n, str) else n for n in shape), made.dtypes[name])
            for name, shape in made.inputs.items()
        ]
        return _converted(made, "step", one)


def _converted(made: Program, what: str, shapes: list[Any]) -> onnx.ModelProto:
    """By jax2onnx, which knows many more primitives."""
    import jax2onnx  # pyright: ignore[reportMissingImports]

    logger = logging.getLogger("onnx_ir")
    level = logger.level
    try:
        logger.setLevel(logging.ERROR)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            written = jax2onnx.to_onnx(made.function, inputs=shapes)
    except Exception as error:  # it has no error of its own
        reason = str(error).strip().partition("\n")[0]
        raise ExportError(f"jax2onnx cannot translate the {what} of this model: {reason}") from error
    finally:
        logger.setLevel(level)
    found = [one.name for one in written.graph.input], [one.name for one in written.graph.output]
    _rename(written.graph, dict(zip((*found[0], *found[1]), (*made.inputs, *made.outputs), strict=True)))
    return written


def _rename(graph: Any, names: dict[str, str]) -> None:
    """Gives values of a graph, and of the graphs within it, other names."""
    for one in (*graph.input, *graph.output, *graph.value_info, *graph.initializer):
        one.name = names.get(one.name, one.name)
    for node in graph.node:
        node.input[:] = [names.get(name, name) for name in node.input]
        node.output[:] = [names.get(name, name) for name in node.output]
        for attribute in node.attribute:
            if attribute.type == onnx.AttributeProto.GRAPH:
                _rename(attribute.g, names)


def _run(session: Any, made: Program, given: tuple[np.ndarray, ...]) -> list[np.ndarray]:
    """A step takes one row at a time."""
    if "state" not in made.inputs:
        return session.run(None, dict(zip(made.inputs, given, strict=True)))
    rows = [
        session.run(None, {name: array[i : i + 1] for name, array in zip(made.inputs, given, strict=True)})
        for i in range(len(given[0]))
    ]
    return [np.concatenate(parts) for parts in zip(*rows, strict=True)]
