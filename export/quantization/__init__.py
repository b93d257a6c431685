"""From a float model file to a quantized one: layers that break are found from images and mended, or stay float."""

from vit_edge.export.quantization.costs import LayerCost
from vit_edge.export.quantization.quantizer import Budget, QuantizeReport, quantize
from vit_edge.export.quantization.schemes import (
    SCHEMES,
    W8A16,
    Fp16,
    Int4,
    Int8,
    Int8Dynamic,
    Int8Qdq,
    Scheme,
    Target,
)

__all__ = [
    "SCHEMES",
    "W8A16",
    "Budget",
    "Fp16",
    "Int4",
    "Int8",
    "Int8Dynamic",
    "Int8Qdq",
    "LayerCost",
    "QuantizeReport",
    "Scheme",
    "Target",
    "quantize",
]
