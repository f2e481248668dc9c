"""`lrcssm export`: a trained model as a program that runs without lrcssm."""

import dataclasses
import json
import pathlib
from typing import Annotated, Literal

from ..deploy.export import ExportError
from ..features import LiquidModel
from .evaluate import open_model
from .options import Model
from .parser import Arg

FORMATS = {".onnx": "onnx", ".stablehlo": "stablehlo", ".mlir": "stablehlo", ".bin": "stablehlo"}
"""Formats by the ending of a file."""


@dataclasses.dataclass(frozen=True)
class Export:
    """Export a trained model as a program that runs without lrcssm, and check that its outputs are the same."""

    model: Model
    """Run folder or model file."""
    out: Annotated[str, Arg("FILE")]
    """File to write; an existing one is replaced."""
    format: Literal["stablehlo", "onnx"] | None = None
    """Format of the file: stablehlo, for JAX, or onnx, for onnxruntime and others (extra export). By default
    from the file extension, .onnx or .stablehlo."""
    what: Literal["sequence", "step"] = "sequence"
    """Program to export: sequence, for whole sequences of any length; or step, for one sample and a state."""
    timed: bool = False
    """Add the time of each step, dt, as the last input of the program."""
    json: bool = False
    """Print JSON."""

    def run(self) -> None:
        """Export, and print the size of the file, its inputs and the largest difference."""
        target = pathlib.Path(self.out)
        if not target.parent.is_dir() or target.is_dir():
            raise ExportError(f"--out {target} cannot be written: it is a folder, or its folder does not exist.")
        form = self.format or FORMATS.get(target.suffix)
        if form is None:
            raise ExportError(f"--out {target}: unknown file extension; use .onnx or .stablehlo, or give --format.")
        trained = open_model(self.model)
        unit = trained.unit
        if unit is not None and not self.timed:
            raise ExportError("The model was trained with times; give --timed, so that dt is an input of the program.")
        if self.what == "sequence" and isinstance(trained.model, LiquidModel):
            raise ExportError("--what sequence: a ridge model is exported as a step; pass --what step.")
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
            "" if unit is None else f" dt is the time of a step divided by {unit:.6g}, the unit of the training data."
        )
        print(
            f"{target}: {self.what} as {form}, {target.stat().st_size:,} bytes; inputs: {sizes}; its outputs for random inputs "
            f"are within {error:.1e} of the model's.{times}"
        )
