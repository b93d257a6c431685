"""Per-channel scales moved from an activation into what computes it, exactly: y/t into LayerNorm or values, t into W.

A ViT computes the same function when the gain and bias of a LayerNorm are multiplied by any s and the next layer's
rows divided by it, so the spread of an activation's channels is an accident of training. Quantization is not
invariant: one scale serves all channels. The scales here are powers of two, so that no rounding is added.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from vit_edge.export.quantization.graph import replace_constant, set_weight
from vit_edge.export.quantization.linears import Linear, Site, constant, find_linears, find_sites

__all__ = ["ALPHAS", "apply_scales", "balanced_scales", "foldable"]

Array = npt.NDArray[np.float32]

# t = max|x|^a / max|W|^(1 - a), from Xiao et al., "SmoothQuant", 2023, equation 4. For every a the result is the same
# whatever scale a channel had before.
ALPHAS = (0.25, 0.5, 0.75, 1.0)
_SAME_CHANNELS = frozenset({"Gather", "Slice", "Squeeze", "Unsqueeze", "ReduceMean", "Identity"})
_HEADS_APART = frozenset({"Reshape", "Transpose", "Squeeze", "Unsqueeze"})


@dataclass(frozen=True, slots=True, eq=False)
class Origin:
    """The constants of which one entry a channel scales the whole activation, (..., K) each, as inputs of nodes."""

    inputs: tuple[tuple[ir.Node, int], ...]


def balanced_scales(peak: Array, weight: Array, alpha: float) -> Array:
    """Powers of two t, (K,), by which an activation's channels are divided.

    Args:
        peak: largest magnitude of each channel, (K,).
        weight: of all layers that read it, (K, N).
        alpha: how much of the spread goes into the weights.
    """
    of_weight = np.abs(weight).max(axis=1)
    alive = (peak > 0) & (of_weight > 0)
    exponent = np.zeros(len(peak))
    exponent[alive] = alpha * np.log2(peak[alive]) - (1 - alpha) * np.log2(of_weight[alive])
    exponent[alive] -= np.median(exponent[alive]) if alive.any() else 0.0
    made: Array = np.exp2(np.clip(np.rint(exponent), -40, 40)).astype(np.float32)
    return made


def foldable(graph: ir.Graph, site: Site) -> Origin | None:
    """What a site's scales can be folded into; None where something else reads it or it is computed otherwise."""
    value = site.source
    readers = {linear.nodes[0] for linear in site.linears}
    while True:
        if {use.node for use in value.uses()} != readers or value.is_graph_output():
            return None
        node = value.producer()
        if node is None:
            return None
        if node.op_type not in _SAME_CHANNELS or not _keeps_last_axis(node):
            break
        readers, value = {node}, node.inputs[0]  # type: ignore[assignment]
    if node.op_type == "LayerNormalization":
        return _constants([node]) if all(constant(value) is not None for value in node.inputs[1:] if value) else None
    values = _attention_values(node)
    return None if values is None else _of_linear(graph, values)


def _keeps_last_axis(node: ir.Node) -> bool:
    """Does the operator leave channels alone? Only what can be seen from constants counts."""
    if node.inputs[0] is None or node.inputs[0].shape is None:
        return False
    rank = len(node.inputs[0].shape)
    if node.op_type == "Identity":
        return True
    if node.op_type == "Gather":
        return node.attributes.get_int("axis", 0) % rank != rank - 1
    position = 3 if node.op_type == "Slice" else 1
    axes = node.inputs[position] if len(node.inputs) > position else None
    if axes is not None and axes.const_value is not None:
        return all(int(axis) % rank != rank - 1 for axis in axes.const_value.numpy().ravel())
    attribute = node.attributes.get_ints("axes", ())
    return bool(attribute) and all(axis % rank != rank - 1 for axis in attribute)


def _transposed(linear: Linear) -> bool:
    return bool(linear.nodes[0].attributes.get_int("transB", 0))


def _constants(nodes: Sequence[ir.Node]) -> Origin:
    return Origin(tuple((node, i) for node in nodes for i, x in enumerate(node.inputs) if constant(x) is not None))


def _attention_values(node: ir.Node) -> ir.Value | None:
    """The tensor of values behind an attention's output: channel c of one is channel c of the other."""
    if node.op_type == "Attention":
        return node.inputs[2] if len(node.outputs) == 1 or not any(v.uses() for v in node.outputs[1:]) else None
    product = _through(node)
    if product is None or product.op_type != "MatMul" or product.inputs[1] is None:
        return None
    softmax = product.inputs[0].producer() if product.inputs[0] is not None else None
    if softmax is None or softmax.op_type != "Softmax":
        return None
    return product.inputs[1]


def _through(node: ir.Node | None) -> ir.Node | None:
    """Back through what only moves heads."""
    while node is not None and node.op_type in _HEADS_APART and node.inputs[0] is not None:
        if len(tuple(node.outputs[0].uses())) != 1:
            return None
        node = node.inputs[0].producer()
    return node


def _of_linear(graph: ir.Graph, values: ir.Value) -> Origin | None:
    node = values.producer()
    last = _through(node) if node is not None and node.op_type in _HEADS_APART else node
    linear = next((each for each in find_linears(graph) if each.nodes[-1] is last), None)
    if linear is None or len(tuple(linear.output.uses())) != 1 or _transposed(linear):
        return None
    return _constants(linear.nodes)


def apply_scales(model: ir.Model, scales: Mapping[str, Array]) -> ir.Model:
    """Divide the activations of some sites by t and multiply the rows of their weights by it; the function stays.

    Args:
        model: not changed.
        scales: by site name; each site must be `foldable`.
    """
    made = model.clone()
    for site in find_sites(made.graph):
        if site.name in scales:
            origin = foldable(made.graph, site)
            assert origin is not None, site.name
            t = scales[site.name]
            for node, i in origin.inputs:
                numbers = constant(node.inputs[i])
                assert numbers is not None
                replace_constant(made.graph, node, i, (numbers / t).astype(np.float32))
            for linear in site.linears:
                set_weight(made.graph, linear, linear.weight * t[:, None])
    return made
