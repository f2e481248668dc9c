"""`lrcssm export`."""

import json
import pathlib

from ..runs.evaluate import open_model
from . import Export
from .programs import ExportError, program


def run(options: Export) -> None:
    """Exports, and says what was checked."""
    target = pathlib.Path(options.out)
    if not target.parent.is_dir() or target.is_dir():
        raise ExportError(f"{target} cannot be written: it is a folder, or its folder does not exist.")
    trained = open_model(options.model)
    form = options.format or ("onnx" if target.suffix == ".onnx" else "stablehlo")
    unit = trained.metadata.get("unit")
    if unit is not None and not options.timed:
        raise ExportError(
            "The model was trained with the times of its steps; give --timed, so that the program takes them too."
        )
    if form == "stablehlo":
        from .stablehlo import to_stablehlo

        error = to_stablehlo(target, trained.model, what=options.what, timed=options.timed)
    else:
        from .onnx import to_onnx

        metadata = {} if trained.classes is None else {"classes": json.dumps(trained.classes)}
        metadata |= {} if unit is None else {"unit": json.dumps(unit)}
        error = to_onnx(target, trained.model, what=options.what, timed=options.timed, metadata=metadata)
    inputs = program(trained.model, options.what, timed=options.timed).inputs
    if form == "onnx" and options.what == "step":  # of one stream
        inputs = {name: tuple(1 if size == "b" else size for size in shape) for name, shape in inputs.items()}
    if options.json:
        facts = {"file": str(target), "bytes": target.stat().st_size, "error": error, "inputs": inputs, "unit": unit}
        print(json.dumps(facts))
        return
    sizes = ", ".join(f"{name} ({', '.join(map(str, shape))})" for name, shape in inputs.items())
    times = (
        ""
        if unit is None
        else f" dt is the time of a step divided by {unit:.6g}, the unit that the model was trained with."
    )
    print(
        f"{target}: {options.what} as {form}, {target.stat().st_size:,} bytes; takes {sizes}; on random inputs "
        f"its outputs are within {error:.1e} of the model's.{times}"
    )
