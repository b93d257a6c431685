"""Write standard QuantizeLinear and DequantizeLinear into a graph, for engines that fuse them themselves."""

from collections.abc import Mapping

import numpy as np
import onnx_ir as ir

from vit_edge.export.quantization.graph import add_constant, add_node, set_bias
from vit_edge.export.quantization.linears import Linear, Site, find_sites
from vit_edge.export.quantization.ranges import Range, quantize_weight

__all__ = ["write_qdq"]


def write_qdq(model: ir.Model, ranges: Mapping[str, Range], corrections: Mapping[str, np.ndarray]) -> ir.Model:
    """Both inputs of the layers with a range pass through integers; the products stay MatMul and Gemm.

    Args:
        model: not changed; opset 21 or newer where activations have 65536 levels.
        ranges: by site name.
        corrections: what is added to a layer's bias, by layer name, where it has one.
    """
    made = model.clone()
    for site in find_sites(made.graph):
        if site.name in ranges:
            _rewrite(made.graph, site, ranges[site.name], corrections)
    return made


def _rewrite(graph: ir.Graph, site: Site, chosen: Range, corrections: Mapping[str, np.ndarray]) -> None:
    dtype = np.uint8 if chosen.levels == 256 else np.uint16
    scale = add_constant(graph, f"{site.name}.x_scale", np.array(chosen.scale, np.float32))
    zero = add_constant(graph, f"{site.name}.x_zero_point", np.array(chosen.zero_point, dtype))
    before, name = site.linears[0].nodes[0], f"{site.name}/QuantizeLinear"
    quantized = add_node(graph, before, "QuantizeLinear", [site.source, scale, zero], name)
    x = add_node(graph, before, "DequantizeLinear", [quantized, scale, zero], f"{site.name}/DequantizeLinear")
    for linear in site.linears:
        if linear.bias is not None and linear.name in corrections:
            set_bias(graph, linear, linear.bias + corrections[linear.name])
        _through_integers(graph, linear, x)


def _through_integers(graph: ir.Graph, linear: Linear, x: ir.Value) -> None:
    node = linear.nodes[0]
    transposed = bool(node.attributes.get_int("transB", 0)) if node.op_type == "Gemm" else False
    numbers, scales = quantize_weight(linear.weight)
    inputs = [
        add_constant(graph, f"{linear.name}.weight_int8", np.ascontiguousarray(numbers.T) if transposed else numbers),
        add_constant(graph, f"{linear.name}.weight_scale", scales),
        add_constant(graph, f"{linear.name}.weight_zero_point", np.zeros(len(scales), np.int8)),
    ]
    attributes = {"axis": 0 if transposed else 1}
    name = f"{linear.name}.weight/DequantizeLinear"
    weight = add_node(graph, node, "DequantizeLinear", inputs, name, attributes=attributes)
    old = node.inputs[1]
    assert old is not None
    node.replace_input_with(0, x)
    node.replace_input_with(1, weight)
    if not tuple(old.uses()):
        del graph.initializers[str(old.name)]
