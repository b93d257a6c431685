"""Outlier channels taken out of a layer, exactly: they stay float, the rest is quantized without them.

For y = x W and channels c, y = x W' + x_c W_c, where W' has zeros in the rows c. Where x = act(h V + d), the hidden
layer of an MLP, x_c is computed by itself, so that the wide product need not carry it either:
x_c = act(h V_c + d_c), and the columns c of V and d are zeros too (act(0) = 0).
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from vit_edge.export.quantization.graph import add_behind, add_constant, add_node, set_bias, set_weight
from vit_edge.export.quantization.linears import OUTLIERS, Linear, Site, find_linears, find_sites

__all__ = ["hidden_layer", "split_channels"]

Indices = npt.NDArray[np.int64]

_ZERO_STAYS = frozenset({"Gelu", "Relu"})  # activations with act(0) = 0


def split_channels(model: ir.Model, name: str, channels: Sequence[int]) -> ir.Model:
    """Take channels out of one site.

    Args:
        model: not changed.
        name: of the site.
        channels: which of its K.
    """
    made = model.clone()
    graph = made.graph
    site = next(site for site in find_sites(graph) if site.name == name)
    index = np.array(sorted(channels), np.int64)
    hidden = hidden_layer(graph, site)
    kept = _cut_out(graph, site, index) if hidden is None else _computed_apart(graph, site, *hidden, index)
    for linear in site.linears:
        _add_part(graph, linear, kept, index)
    return made


def hidden_layer(graph: ir.Graph, site: Site) -> tuple[Linear, ir.Node] | None:
    """The layer and the activation that compute a site's tensor, where nothing else reads what is between."""
    act = site.source.producer()
    if act is None or act.op_type not in _ZERO_STAYS or act.inputs[0] is None:
        return None
    linear = next((each for each in find_linears(graph) if each.output is act.inputs[0]), None)
    if linear is None or linear.bias is None or len(tuple(linear.output.uses())) != 1:
        return None
    others = {use.node for use in site.source.uses()} - {each.nodes[0] for each in site.linears}
    return None if others else (linear, act)


def _cut_out(graph: ir.Graph, site: Site, index: Indices) -> ir.Value:
    """x_c, (..., n), a part of x."""
    name = f"{site.name}{OUTLIERS}"
    which = add_constant(graph, f"{name}.channels", index)
    return add_node(graph, site.linears[0].nodes[0], "Gather", [site.source, which], name, attributes={"axis": -1})


def _computed_apart(graph: ir.Graph, site: Site, linear: Linear, act: ir.Node, index: Indices) -> ir.Value:
    """x_c, (..., n), from what the hidden layer reads; the hidden layer gives zeros in its place."""
    assert linear.bias is not None
    name, before = f"{linear.name}{OUTLIERS}", site.linears[0].nodes[0]
    weight = add_constant(graph, f"{name}.weight", linear.weight[:, index])
    product = add_node(graph, before, "MatMul", [linear.source, weight], f"{name}/MatMul")
    total = add_node(graph, before, "Add", [product, add_constant(graph, f"{name}.bias", linear.bias[index])], name)
    without, bias = linear.weight.copy(), linear.bias.copy()
    without[:, index], bias[index] = 0, 0
    set_weight(graph, linear, without)
    set_bias(graph, linear, bias)
    return add_node(graph, before, act.op_type, [total], f"{name}/{act.op_type}", attributes=act.attributes)


def _add_part(graph: ir.Graph, linear: Linear, kept: ir.Value, index: Indices) -> None:
    """y + x_c W_c in place of y, under its name."""
    name, last = f"{linear.name}{OUTLIERS}", linear.nodes[-1]
    weight = add_constant(graph, f"{name}.rows.weight", linear.weight[index])
    without = linear.weight.copy()
    without[index] = 0
    set_weight(graph, linear, without)
    part = add_node(graph, last, "MatMul", [kept, weight], f"{name}/rows")
    add_behind(graph, last, part, f"{linear.name}/sum")
