"""`lrcssm export`: a trained model as a program that runs without lrcssm."""

import dataclasses
import json
import pathlib
from typing import Annotated, Literal

from ..deploy.export import ExportError
from .evaluate import open_model
from .options import Model
from .parser import Arg

FORMATS = {".onnx": "onnx", ".stablehlo": "stablehlo", ".mlir": "stablehlo", ".bin": "stablehlo"}
"""Formats by the ending of a file."""


@dataclasses.dataclass(frozen=True)
class Export:
    """Write a trained model as a program that runs without lrcssm, after a check that it gives the same numbers."""

    model: Model
    """Folder of a run, or file of a model."""
    out: Annotated[str, Arg("FILE")]
    """File to write; one that is there is replaced."""
    format: Literal["stablehlo", "onnx"] | None = None
    """StableHLO, for JAX and other users of XLA; or ONNX, for onnxruntime and others (extra export). By the ending of the file if
    not given: .onnx or .stablehlo."""
    what: Literal["sequence", "step"] = "sequence"
    """A whole sequence at once, of any length; or one sample and a state."""
    timed: bool = False
    """Let the program take the time of each step, dt, as its last input."""
    json: bool = False
    """Print JSON."""

    def run(self) -> None:
        """Export, and print what was checked."""
        target = pathlib.Path(self.out)
        if not target.parent.is_dir() or target.is_dir():
            raise ExportError(f"{target} cannot be written: it is a folder, or its folder does not exist.")
        trained = open_model(self.model)
        form = self.format or FORMATS.get(target.suffix)
        if form is None:
            raise ExportError(
                f"{target} has an ending of no format that is known; call it .onnx or .stablehlo, or give --format."
            )
        unit = trained.unit
        if unit is not None and not self.timed:
            raise ExportError(
                "The model was trained with the times of its steps; give --timed, so that the program takes them too."
            )
        if form == "stablehlo":
            from ..deploy.export import to_stablehlo

            error = to_stablehlo(target, trained.model, what=self.what, timed=self.timed)
        else:
            from ..deploy.export import to_onnx

            metadata = {} if trained.classes is None else {"classes": json.dumps(trained.names)}
            metadata |= {} if unit is None else {"unit": json.dumps(unit)}
            error = to_onnx(target, trained.model, what=self.what, timed=self.timed, metadata=metadata)
        from ..deploy.export.programs import program

        inputs = program(trained.model, self.what, timed=self.timed).inputs
        if form == "onnx" and self.what == "step":  # of one stream
            inputs = {name: tuple(1 if size == "b" else size for size in shape) for name, shape in inputs.items()}
        if self.json:
            facts = {
                "file": str(target),
                "bytes": target.stat().st_size,
                "error": error,
                "inputs": inputs,
                "unit": unit,
            }
            print(json.dumps(facts))
            return
        sizes = ", ".join(f"{name} ({', '.join(map(str, shape))})" for name, shape in inputs.items())
        times = (
            ""
            if unit is None
            else f" dt is the time of a step divided by {unit:.6g}, the unit that the model was trained with."
        )
        print(
            f"{target}: {self.what} as {form}, {target.stat().st_size:,} bytes; takes {sizes}; on random inputs "
            f"its outputs are within {error:.1e} of the model's.{times}"
        )
