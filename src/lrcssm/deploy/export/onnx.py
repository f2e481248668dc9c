"""Export as ONNX, for onnxruntime and others. Needs the extra `export`."""

# pyright: reportAttributeAccessIssue=false
# (where onnx is not installed, pyright takes onnx.py of this folder for it)
import contextlib
import dataclasses
import logging
import os
import warnings
from collections.abc import Iterator, Mapping
from typing import Any

import jax
import numpy as np

from ...errors import MissingExtra

try:
    import onnx  # pyright: ignore[reportMissingImports]
    import onnxruntime  # pyright: ignore[reportMissingImports]
except ImportError as error:
    raise MissingExtra('An export as ONNX needs onnx and onnxruntime; pip install "lrcssm[export]".') from error

from ...features import LiquidModel
from ...models import SequenceModel
from .lean import Unknown, lean_model
from .programs import ExportError, Program, What, largest_difference, program, write_checked
from .real import without_complex
from .stablehlo import arguments


def to_onnx(
    path: str | os.PathLike[str],
    model: SequenceModel | LiquidModel,
    *,
    what: What = "sequence",
    timed: bool = False,
    checks: int = 5,
    metadata: Mapping[str, str] | None = None,
) -> float:
    """Write a model as ONNX, after a check in onnxruntime of its outputs against the model's.

    ```py
    import jax, lrcssm

    model = lrcssm.SequenceModel(lrcssm.ModelConfig(input_dim=2, output_dim=2), jax.random.key(0))
    lrcssm.export.to_onnx("step.onnx", model, what="step")
    ```

    **Arguments:**

    - `path`: file to write; an existing one is replaced atomically.
    - `model`: a `SequenceModel` in single precision; or the `LiquidModel` of a ridge model, which can be exported as a step
        only.
    - `what`: `"sequence"`, for inputs `(time, batch, channels)` of any length and batch; or `"step"`, for one sample `(1,
        channels)`, a state `(1, n)` and `begin` `(1,)`.
    - `timed`: add `dt` as the last input of the program.
    - `checks`: number of random inputs of different sizes for the check.
    - `metadata`: texts for the file's `metadata_props`, e.g. the names of the classes.

    **Returns:**

    The largest difference between its outputs and the model's, relative to the largest output. Raises `ExportError` above
    1e-5 (1e-3 for a ridge model).
    """
    if model.dtype != np.float32:
        raise ExportError(f"The model has {model.dtype} parameters; ONNX needs float32.")
    made = _in_real_numbers(program(model, what, timed=timed))
    written = _step(made) if what == "step" else _converted(made, what, arguments(made))
    onnx.helper.set_model_props(written, {**(metadata or {}), "lrcssm": model.config.to_json()})
    raw = written.SerializeToString()
    try:
        session = open_session(raw)
    except Exception as error:  # the errors of onnxruntime have no base of their own
        reason = str(error).strip().partition("\n")[0]
        raise ExportError(f"onnxruntime cannot run the {what} of this model: {reason}") from error
    run = lambda *given: _run(session, made, given)
    return write_checked(path, raw, what, made, largest_difference(model, made, run, count=checks))


def open_session(raw: bytes) -> onnxruntime.InferenceSession:
    """Open a session with one thread and without reuse of memory between nodes, which is the fastest for a short step."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.enable_mem_reuse = False
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(raw, options, providers=["CPUExecutionProvider"])


def _in_real_numbers(made: Program) -> Program:
    """The program in real arithmetic; onnxruntime has no complex numbers."""
    row = None if made.row is None else without_complex(made.row)
    return dataclasses.replace(made, function=without_complex(made.function), row=row)


def _step(made: Program) -> onnx.ModelProto:
    """The step of one stream: by our own translator, or by jax2onnx if that fails, as for a cell with other primitives."""
    assert made.row is not None
    try:
        return lean_model(made)
    except Unknown:
        row = made.row
        one = [
            jax.ShapeDtypeStruct(tuple(1 if isinstance(n, str) else n for n in shape), made.dtypes[name])
            for name, shape in made.inputs.items()
        ]
        # Without the axis of the batch inside: jax2onnx needs more nodes for a program under `jax.vmap`.
        alone = lambda *given: tuple(found[None] for found in row(*(array[0] for array in given)))
        return _converted(dataclasses.replace(made, function=alone), "step", one)


@contextlib.contextmanager
def _restored(*modules: Any) -> Iterator[None]:
    """Restore the names of modules afterwards: jax2onnx replaces functions of JAX while it translates, and 0.17 leaves its own
    `jax.numpy.cumsum` behind."""
    before = [(module, dict(vars(module))) for module in modules]
    try:
        yield
    finally:
        for module, names in before:
            for name, value in names.items():
                if vars(module).get(name) is not value:
                    setattr(module, name, value)


def _converted(made: Program, what: str, shapes: list[Any]) -> onnx.ModelProto:
    """Translate a program by jax2onnx."""
    import jax2onnx  # pyright: ignore[reportMissingImports]

    logger = logging.getLogger("onnx_ir")
    level = logger.level
    try:
        logger.setLevel(logging.ERROR)
        with warnings.catch_warnings(), _restored(jax.numpy, jax.lax, jax.nn):
            warnings.simplefilter("ignore")
            written = jax2onnx.to_onnx(made.function, inputs=shapes)
    except Exception as error:  # jax2onnx has no error of its own
        reason = str(error).strip().partition("\n")[0]
        raise ExportError(f"jax2onnx cannot translate the {what} of this model: {reason}") from error
    finally:
        logger.setLevel(level)
    found = [one.name for one in written.graph.input], [one.name for one in written.graph.output]
    _rename(written.graph, dict(zip((*found[0], *found[1]), (*made.inputs, *made.outputs), strict=True)))
    return written


def _rename(graph: Any, names: dict[str, str]) -> None:
    """Rename values of a graph and of the graphs within it."""
    for one in (*graph.input, *graph.output, *graph.value_info, *graph.initializer):
        one.name = names.get(one.name, one.name)
    for node in graph.node:
        node.input[:] = [names.get(name, name) for name in node.input]
        node.output[:] = [names.get(name, name) for name in node.output]
        for attribute in node.attribute:
            if attribute.type == onnx.AttributeProto.GRAPH:
                _rename(attribute.g, names)


def _run(session: Any, made: Program, given: tuple[np.ndarray, ...]) -> list[np.ndarray]:
    """Run a session; a step runs for one row at a time."""
    if "state" not in made.inputs:
        return session.run(None, dict(zip(made.inputs, given, strict=True)))
    rows = [
        session.run(None, {name: array[i : i + 1] for name, array in zip(made.inputs, given, strict=True)})
        for i in range(len(given[0]))
    ]
    return [np.concatenate(parts) for parts in zip(*rows, strict=True)]
