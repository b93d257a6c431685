"""Large weights out of a graph and back: for tools that serialise it, and need none of the numbers.

Nothing above 2 GiB fits their message, and below it they copy every weight several times.
"""

from collections.abc import Mapping

import onnx_ir as ir

__all__ = ["put_back", "take_out"]

_SMALL = 1024  # bytes: axes, shapes, scalars and whatever else a tool may have to look into


def take_out(graph: ir.Graph) -> Mapping[str, ir.TensorProtocol]:
    """Turn large initializers into inputs, behind those that are there.

    Args:
        graph: changed in place.

    Returns:
        Their values by name, for `put_back`.
    """
    weights = {}
    for name, value in list(graph.initializers.items()):
        tensor = value.const_value
        if tensor is not None and tensor.nbytes > _SMALL:
            value.shape, value.type = ir.Shape(tensor.shape.numpy()), ir.TensorType(tensor.dtype)
            value.const_value = None
            graph.initializers.pop(name)
            if not value.is_graph_input():
                graph.inputs.append(value)
            weights[name] = tensor
    return weights


def put_back(graph: ir.Graph, weights: Mapping[str, ir.TensorProtocol]) -> None:
    """Turn inputs into initializers again."""
    for value in list(graph.inputs):
        tensor = weights.get(str(value.name))
        if tensor is not None:
            graph.inputs.remove(value)
            value.const_value = tensor
            graph.register_initializer(value)
