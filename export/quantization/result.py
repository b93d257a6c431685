"""A quantized graph and how it came about."""

from dataclasses import dataclass

import onnx_ir as ir

from vit_edge.export.quantization.layerwise import LayerReport
from vit_edge.export.quantization.trial import Trial

__all__ = ["Made"]


@dataclass(frozen=True, slots=True)
class Made:
    """A quantized graph and how it came about.

    Attributes:
        graph: with what its integers have replaced still in it.
        trial: against the float graph, on calibration images.
        reached: the scheme's target.
        kept: sites that are float.
        layers: what was found and done, in the order of the graph; nothing for fp16.
        found: about the residual stream; may be empty.
    """

    graph: ir.Model
    trial: Trial
    reached: bool
    kept: tuple[str, ...] = ()
    layers: tuple[LayerReport, ...] = ()
    found: str = ""
