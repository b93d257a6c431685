"""What each layer costs in bytes and milliseconds, before and after."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from vit_edge.export.quantization.layerwise import LayerReport
from vit_edge.export.quantization.linears import find_sites
from vit_edge.export.quantization.result import Made
from vit_edge.export.quantization.timing import node_milliseconds, of_layers

__all__ = ["LayerCost", "layer_costs"]


@dataclass(frozen=True, slots=True)
class LayerCost:
    """A layer's bytes and milliseconds, before and after."""

    report: LayerReport
    bytes_before: int
    bytes_after: int
    ms_before: float
    ms_after: float


def layer_costs(graph: ir.Model, made: Made, image: npt.NDArray[np.float32]) -> tuple[LayerCost, ...]:
    """Compare the float graph with the quantized one, on one image (C, height, width)."""
    if not made.layers:
        return ()
    before, after = node_milliseconds(graph, image), node_milliseconds(made.graph, image)
    of_graph = {site.name: [linear.name for linear in site.linears] for site in find_sites(graph.graph)}
    costs = []
    for each in made.layers:
        names = [each.name, *of_graph[each.name]]
        stored = sum(
            value.const_value.nbytes
            for name, value in made.graph.graph.initializers.items()
            if value.const_value and tuple(value.uses()) and name.startswith(tuple(f"{layer}." for layer in names))
        )
        costs.append(LayerCost(each, 4 * each.weights, stored, of_layers(before, names), of_layers(after, names)))
    return tuple(costs)
