"""From a PyTorch ViT to a verified ONNX file: trace, simplify, check, write."""

from vit_edge.export.errors import ExportError, ParityError, PassError, QuantizationError
from vit_edge.export.exporter import ExportOptions, ExportReport, export
from vit_edge.export.pipeline import simplify
from vit_edge.export.quantization import (
    W8A16,
    Budget,
    Fp16,
    Int4,
    Int8,
    Int8Dynamic,
    Int8Qdq,
    QuantizeReport,
    Target,
    quantize,
)
from vit_edge.export.verification import verify

__all__ = [
    "W8A16",
    "Budget",
    "ExportError",
    "ExportOptions",
    "ExportReport",
    "Fp16",
    "Int4",
    "Int8",
    "Int8Dynamic",
    "Int8Qdq",
    "ParityError",
    "PassError",
    "QuantizationError",
    "QuantizeReport",
    "Target",
    "export",
    "quantize",
    "simplify",
    "verify",
]
