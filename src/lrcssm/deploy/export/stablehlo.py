"""StableHLO by `jax.export`: a file that any later JAX runs, on any kind of device, without this package."""

import functools
import importlib
import os
from typing import Any

import jax
from jax import export

from ...files import atomic
from ...models import SequenceModel
from .programs import ExportError, Program, What, largest_difference, program

TOLERANCE = 1e-5
PLATFORMS = ("cpu", "cuda", "rocm", "tpu")


def to_stablehlo(
    path: str | os.PathLike[str], model: SequenceModel, *, what: What = "sequence", timed: bool = False, checks: int = 3
) -> float:
    """Writes a model as StableHLO, after a check that it gives the model's numbers.

    ```python
    import jax, lrcssm, numpy as np, pathlib, tempfile
    from lrcssm.export import to_stablehlo

    model = lrcssm.SequenceModel(lrcssm.ModelConfig(input_dim=2, output_dim=2, hidden_dim=8, num_blocks=1), jax.random.key(0))
    path = pathlib.Path(tempfile.mkdtemp()) / "model.stablehlo"
    to_stablehlo(path, model)

    loaded = jax.export.deserialize(bytearray(path.read_bytes()))  # any length, any batch
    (logits,) = loaded.call(np.zeros((30, 5, 2), np.float32))
    ```

    **Arguments:**

    - `path`: where to; a file that is there is replaced, at once or not at all.
    - `model`: a `SequenceModel`.
    - `what`: `"sequence"`, of inputs `(time, batch, channels)`, or `"step"`, of one sample, a state and where to begin.
    - `timed`: whether the program takes `dt` as its last input.
    - `checks`: how many random inputs of different sizes it is tried with.

    **Returns:**

    How far its outputs are from the model's at most, relative to the largest; above 1e-5 is an error.
    """
    importlib.import_module("flatbuffers")  # what jax.export writes with; where it is missing, the error names it

    made = program(model, what, timed=timed)
    try:
        exported = export.export(jax.jit(made.function), platforms=PLATFORMS)(*arguments(made))
        raw = bytes(exported.serialize())
    except (TypeError, ValueError, NotImplementedError, jax.errors.InconclusiveDimensionOperation) as error:
        raise ExportError(
            f"The {what} of this model cannot be exported with a free length and batch: {_first_line(error)}"
        ) from error
    loaded = export.deserialize(bytearray(raw))
    error = largest_difference(model, made, jax.jit(loaded.call), count=checks)
    if not error <= TOLERANCE:
        raise ExportError(f"The exported {what} differs from the model by {error:.2g}, so nothing was written.")
    with atomic(path) as file:
        file.write(raw)
    return error


def arguments(made: Program) -> list[Any]:
    """Shapes with free sizes, in the order of the program's inputs."""
    scope = export.SymbolicScope()
    shape = functools.partial(export.symbolic_shape, scope=scope)
    return [
        jax.ShapeDtypeStruct(shape(", ".join(map(str, sizes)) + ("," if len(sizes) == 1 else "")), made.dtypes[name])
        for name, sizes in made.inputs.items()
    ]


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0]
