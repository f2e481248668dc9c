"""Export as StableHLO by `jax.export`: a file that any later JAX runs, on any device, without this package."""

import functools
import importlib
import os
from typing import Any

import jax
from jax import export

from ...features import LiquidModel
from ...models import SequenceModel
from .programs import ExportError, Program, What, largest_difference, program, write_checked

PLATFORMS = ("cpu", "cuda", "rocm", "tpu")


def to_stablehlo(
    path: str | os.PathLike[str],
    model: SequenceModel | LiquidModel,
    *,
    what: What = "sequence",
    timed: bool = False,
    checks: int = 3,
) -> float:
    """Write a model as StableHLO, after a check of its outputs against the model's.

    ```python
    import jax, lrcssm, numpy as np, pathlib, tempfile

    model = lrcssm.SequenceModel(lrcssm.ModelConfig(input_dim=2, output_dim=2, hidden_dim=8, num_blocks=1), jax.random.key(0))
    path = pathlib.Path(tempfile.mkdtemp()) / "model.stablehlo"
    lrcssm.export.to_stablehlo(path, model)

    loaded = jax.export.deserialize(bytearray(path.read_bytes()))  # any length, any batch
    (logits,) = loaded.call(np.zeros((30, 5, 2), np.float32))
    ```

    **Arguments:**

    - `path`: file to write; an existing one is replaced atomically.
    - `model`: a `SequenceModel`; or the `LiquidModel` of a ridge model, which can be exported as a step only.
    - `what`: `"sequence"`, for inputs `(time, batch, channels)`, or `"step"`, for one sample, a state and `begin`.
    - `timed`: add `dt` as the last input of the program.
    - `checks`: number of random inputs of different sizes for the check.

    **Returns:**

    The largest difference between its outputs and the model's, relative to the largest output. Raises `ExportError` above
    1e-5 (1e-3 for a ridge model).
    """
    importlib.import_module("flatbuffers")  # jax.export writes with it; the error names it where it is missing

    made = program(model, what, timed=timed)
    try:
        exported = export.export(jax.jit(made.function), platforms=PLATFORMS)(*arguments(made))
        raw = bytes(exported.serialize())
    except (TypeError, ValueError, NotImplementedError, jax.errors.InconclusiveDimensionOperation) as error:
        raise ExportError(
            f"The {what} of this model cannot be exported with a free length and batch: {_first_line(error)}"
        ) from error
    loaded = export.deserialize(bytearray(raw))
    return write_checked(path, raw, what, made, largest_difference(model, made, jax.jit(loaded.call), count=checks))


def arguments(made: Program) -> list[Any]:
    """Shapes with symbolic sizes, in the order of the program's inputs."""
    scope = export.SymbolicScope()
    shape = functools.partial(export.symbolic_shape, scope=scope)
    return [
        jax.ShapeDtypeStruct(shape(", ".join(map(str, sizes)) + ("," if len(sizes) == 1 else "")), made.dtypes[name])
        for name, sizes in made.inputs.items()
    ]


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0]
