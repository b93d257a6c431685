"""Write int8 arithmetic into a graph: QuantizeLinear or DynamicQuantizeLinear, then one integer product a layer."""

from collections.abc import Mapping

import numpy as np
import onnx_ir as ir

from vit_edge.export.quantization.graph import add_constant, add_node, take_over
from vit_edge.export.quantization.linears import Linear, Site, find_sites
from vit_edge.export.quantization.ranges import Range, quantize_weight, round_trip

__all__ = ["bias_corrections", "write_dynamic", "write_integer"]


def write_integer(model: ir.Model, ranges: Mapping[str, Range], corrections: Mapping[str, np.ndarray]) -> ir.Model:
    """Layers with a range -> QuantizeLinear and MatMulIntegerToFloat; the others stay.

    `com.microsoft.MatMulIntegerToFloat` is onnxruntime's own operator (uint8 x int8 -> int32 -> float with scale and
    bias in one kernel); onnxruntime makes it of QDQ graphs too, but not of MatMulInteger, Cast, Mul with constants.

    Args:
        model: not changed.
        ranges: by site name.
        corrections: what is added to a layer's bias, by layer name.
    """
    made = model.clone()
    for site in find_sites(made.graph):
        if site.name in ranges:
            _rewrite(made.graph, site, ranges[site.name], corrections)
    made.opset_imports["com.microsoft"] = 1
    return made


def write_dynamic(model: ir.Model, ranges: Mapping[str, Range], corrections: Mapping[str, np.ndarray]) -> ir.Model:
    """The same with scales from the tensor itself, over all images of a batch.

    Args:
        model: not changed.
        ranges: whose keys say which sites are quantized.
        corrections: not used: scales differ from those that errors were measured with.
    """
    made = model.clone()
    for site in find_sites(made.graph):
        if site.name not in ranges:
            continue
        node = ir.node("DynamicQuantizeLinear", [site.source], num_outputs=3, name=f"{site.name}/DynamicQuantizeLinear")
        for value, suffix in zip(node.outputs, ("x", "x_scale", "x_zero_point"), strict=True):
            value.name = f"{site.name}.{suffix}"
        made.graph.insert_before(site.linears[0].nodes[0], node)
        quantized, scale, zero = node.outputs
        for linear in site.linears:
            _replace(made.graph, linear, quantized, (scale, zero), None)
    made.opset_imports["com.microsoft"] = 1
    return made


def _rewrite(graph: ir.Graph, site: Site, chosen: Range, corrections: Mapping[str, np.ndarray]) -> None:
    scale = add_constant(graph, f"{site.name}.x_scale", np.array(chosen.scale, np.float32))
    zero = add_constant(graph, f"{site.name}.x_zero_point", np.array(chosen.zero_point, np.uint8))
    before, name = site.linears[0].nodes[0], f"{site.name}/QuantizeLinear"
    quantized = add_node(graph, before, "QuantizeLinear", [site.source, scale, zero], name)
    for linear in site.linears:
        _replace(graph, linear, quantized, (scale, zero), corrections.get(linear.name))


def _replace(
    graph: ir.Graph, linear: Linear, x: ir.Value, of_x: tuple[ir.Value, ir.Value], correction: np.ndarray | None
) -> None:
    weight, scales = quantize_weight(linear.weight)
    bias = linear.bias if linear.bias is not None else np.zeros(weight.shape[1], np.float32)
    if correction is not None:
        bias = bias + correction
    inputs = [
        x,
        add_constant(graph, f"{linear.name}.weight_int8", weight),
        of_x[0],
        add_constant(graph, f"{linear.name}.weight_scale", scales),
        of_x[1],
        add_constant(graph, f"{linear.name}.weight_zero_point", np.zeros(weight.shape[1], np.int8)),
        add_constant(graph, f"{linear.name}.bias_float", bias.astype(np.float32)),
    ]
    node = ir.node("MatMulIntegerToFloat", inputs, domain="com.microsoft", name=linear.nodes[0].name)
    take_over(graph, linear, node)


def bias_corrections(site: Site, rows: np.ndarray, chosen: Range) -> dict[str, np.ndarray]:
    """Mean error of each layer's outputs over a sample, to be added to its bias; costs nothing at run time.

    Nagel et al., "Data-Free Quantization Through Weight Equalization and Bias Correction", 2019, section 4.2,
    with measured activations.
    """
    rounded = round_trip(rows, chosen.scale, chosen.zero_point, chosen.levels).mean(axis=0, dtype=np.float64)
    exact = rows.mean(axis=0, dtype=np.float64)
    found = {}
    for linear in site.linears:
        weight, scales = quantize_weight(linear.weight)
        found[linear.name] = (exact @ linear.weight - rounded @ (weight * scales)).astype(np.float32)
    return found
