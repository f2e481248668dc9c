"""Export: a trained model as a program that runs without this package.

The command is here and imports nothing heavy; `to_stablehlo` and `to_onnx` are imported when they are asked for.
"""

import dataclasses
from typing import TYPE_CHECKING, Annotated, Literal

import tyro

from ..lazy import lazily

if TYPE_CHECKING:
    from .onnx import to_onnx as to_onnx
    from .programs import ExportError as ExportError
    from .stablehlo import to_stablehlo as to_stablehlo

__getattr__, __dir__ = lazily(__name__, {"to_onnx": "onnx", "to_stablehlo": "stablehlo", "ExportError": "programs"})


@dataclasses.dataclass(frozen=True)
class Export:
    """Write a trained model as a program that runs without lrcssm, after a check that it gives the same numbers."""

    model: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="MODEL")]
    """A run's folder or a model's file."""
    out: Annotated[str, tyro.conf.arg(metavar="FILE")]
    """Where to write; a file that is there is replaced."""
    format: Literal["stablehlo", "onnx"] | None = None
    """StableHLO, for JAX and what is built on XLA; or ONNX, for onnxruntime and others (extra export). If not given, ONNX for a
    file that ends in .onnx."""
    what: Literal["sequence", "step"] = "sequence"
    """A whole sequence at once, of any length; or one sample and a state."""
    timed: bool = False
    """Let the program take the time of each step, dt, as its last input."""
    json: bool = False
    """Print JSON."""

    def run(self) -> None:
        from .run import run

        run(self)
