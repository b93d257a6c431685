"""Small edits of a graph: a constant, a node in its place, other numbers for a layer."""

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from vit_edge.export.quantization.linears import Linear

__all__ = ["add_behind", "add_constant", "add_node", "replace_constant", "set_bias", "set_weight", "take_over"]


def add_constant(graph: ir.Graph, name: str, numbers: npt.NDArray[np.generic]) -> ir.Value:
    """An initializer; the one that is there under this name, where there is one."""
    if name in graph.initializers:
        return graph.initializers[name]
    tensor = ir.tensor(numbers, name=name)
    value = ir.Value(name=name, const_value=tensor, shape=ir.Shape(numbers.shape), type=ir.TensorType(tensor.dtype))
    graph.register_initializer(value)
    return value


def add_node(
    graph: ir.Graph,
    before: ir.Node,
    op_type: str,
    inputs: Sequence[ir.Value],
    name: str,
    *,
    attributes: Mapping[str, ir.Attr | int | float | str] | None = None,
    domain: str = "",
) -> ir.Value:
    """A node with one output, both under the same name, in front of another."""
    node = ir.node(op_type, inputs, attributes=dict(attributes or {}), domain=domain, name=name)
    node.outputs[0].name = name
    graph.insert_before(before, node)
    return node.outputs[0]


def add_behind(graph: ir.Graph, node: ir.Node, term: ir.Value, name: str) -> None:
    """y + term in place of a node's output y, under its name."""
    old = node.outputs[0]
    total = ir.node("Add", [old, term], name=name)
    made, called = total.outputs[0], old.name
    made.shape, made.type = old.shape, old.type
    graph.insert_after(node, total)
    ir.convenience.replace_all_uses_with(old, made, replace_graph_outputs=True)
    total.replace_input_with(0, old)
    old.name, made.name = f"{name}/before", called


def take_over(graph: ir.Graph, linear: Linear, node: ir.Node) -> None:
    """A node in place of a layer, under the name of its output."""
    old, made = linear.output, node.outputs[0]
    made.name, made.shape, made.type = old.name, old.shape, old.type
    graph.insert_before(linear.nodes[-1], node)
    ir.convenience.replace_all_uses_with(old, made, replace_graph_outputs=True)
    graph.remove(list(linear.nodes)[::-1], safe=True)


def set_weight(graph: ir.Graph, linear: Linear, weight: npt.NDArray[np.float32]) -> None:
    """Other numbers, (K, N), for a layer; the old ones stay for whatever else reads them."""
    node = linear.nodes[0]
    stored = weight.T if node.attributes.get_int("transB", 0) else weight
    replace_constant(graph, node, 1, np.ascontiguousarray(stored))


def set_bias(graph: ir.Graph, linear: Linear, bias: npt.NDArray[np.float32]) -> None:
    """Other numbers, (N,), for the bias of a layer that has one."""
    node = linear.nodes[-1]
    index = next(i for i, value in enumerate(node.inputs) if value is not None and value.const_value is not None)
    replace_constant(graph, node, 2 if node.op_type == "Gemm" else index, bias)


def replace_constant(graph: ir.Graph, node: ir.Node, index: int, numbers: npt.NDArray[np.float32]) -> None:
    """Other numbers for a constant input of one node; the old ones stay for whatever else reads them."""
    old = node.inputs[index]
    assert old is not None
    if len(tuple(old.uses())) == 1:
        old.const_value = ir.tensor(numbers, name=old.name)
        return
    name = f"{node.name}.{index}"
    node.replace_input_with(index, add_constant(graph, name, numbers))
