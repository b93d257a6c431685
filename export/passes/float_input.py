"""One kind of image input for all files: float NCHW, any batch."""

from typing import Literal

import numpy as np
import onnx_ir as ir

__all__ = ["FloatInput", "Layout"]

Layout = Literal["nchw", "nhwc"]


class FloatInput(ir.passes.InPlacePass):
    """float NHWC input x -> Transpose(x); uint8 input x -> Cast(Floor(x + 0.5)); x becomes (batch, C, H, W) float32.

    Floor(x + 0.5) and not Round, which opset 10 does not have: x is a whole number up to the rounding of
    (x / 255 - mean) / std with mean 0 and std 1/255. Initializers that old files list as inputs are inputs no more.

    Args:
        layout: of the input as it is.
        shape: (C, H, W) that the graph is to take.
    """

    def __init__(self, layout: Layout, shape: tuple[int, int, int]) -> None:
        super().__init__()
        self.layout, self.shape = layout, shape

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        """Put the adapter in front of the graph."""
        graph = model.graph
        for value in list(graph.inputs):
            if value.is_initializer():
                graph.inputs.remove(value)
        (source,) = graph.inputs
        old_dtype = source.dtype or ir.DataType.FLOAT
        nodes = _to_uint8(graph, source) if old_dtype == ir.DataType.UINT8 else []
        if self.layout == "nhwc":
            last = nodes[-1].outputs[0] if nodes else source
            nodes.append(ir.node("Transpose", [last], {"perm": [0, 2, 3, 1]}, name=f"{source.name}/Transpose"))
        if nodes:
            users = [(use.node, use.idx) for use in source.uses() if use.node not in nodes]
            for node in nodes:
                node.outputs[0].name = node.name
            for user, index in users:
                user.replace_input_with(index, nodes[-1].outputs[0])
            graph.insert_before(graph[0], nodes)
        source.type, source.shape = ir.TensorType(ir.DataType.FLOAT), ir.Shape(["batch", *self.shape])
        return ir.passes.PassResult(model, modified=bool(nodes))


def _to_uint8(graph: ir.Graph, source: ir.Value) -> list[ir.Node]:
    name = f"{source.name}/half"
    half = ir.Value(name=name, const_value=ir.tensor(np.array(0.5, np.float32), name=name))
    half.shape, half.type = ir.Shape([]), ir.TensorType(ir.DataType.FLOAT)
    graph.register_initializer(half)
    shifted = ir.node("Add", [source, half], name=f"{source.name}/Add")
    whole = ir.node("Floor", [shifted.outputs[0]], name=f"{source.name}/Floor")
    cast = ir.node("Cast", [whole.outputs[0]], {"to": int(ir.DataType.UINT8)}, name=f"{source.name}/Cast")
    return [shifted, whole, cast]
