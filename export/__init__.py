"""From a PyTorch ViT to a verified ONNX file: trace, simplify, check, write."""

from vit_edge.export.errors import ExportError, ParityError, PassError
from vit_edge.export.exporter import ExportOptions, ExportReport, export
from vit_edge.export.pipeline import simplify
from vit_edge.export.verification import verify

__all__ = [
    "ExportError",
    "ExportOptions",
    "ExportReport",
    "ParityError",
    "PassError",
    "export",
    "simplify",
    "verify",
]
