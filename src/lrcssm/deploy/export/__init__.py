"""Export of a trained model as a program that runs without this package."""

from typing import TYPE_CHECKING

from ...lazy import lazily

if TYPE_CHECKING:
    from .onnx import to_onnx as to_onnx
    from .programs import ExportError as ExportError
    from .stablehlo import to_stablehlo as to_stablehlo

__all__ = ["ExportError", "to_onnx", "to_stablehlo"]
__getattr__, __dir__ = lazily(__name__, {"to_onnx": "onnx", "to_stablehlo": "stablehlo", "ExportError": "programs"})
