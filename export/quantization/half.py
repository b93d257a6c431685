"""Half-precision weights: stored and cast back, or computed with as well."""

import numpy as np
import onnx_ir as ir

from vit_edge.export.errors import QuantizationError

__all__ = ["compute_half", "store_half"]

_LARGEST = float(np.finfo(np.float16).max)
_FEWEST = 256  # numbers; below that a Cast costs more bytes than it saves


def store_half(model: ir.Model) -> ir.Model:
    """Each large float32 weight W -> Cast(W in float16); onnxruntime casts once, when it loads the file.

    Weights beyond the range of float16 stay as they are.

    Args:
        model: not changed.
    """
    made = model.clone()
    for value in list(made.graph.initializers.values()):
        tensor = value.const_value
        if tensor is None or tensor.dtype != ir.DataType.FLOAT or tensor.size < _FEWEST:
            continue
        numbers = tensor.numpy()
        if np.abs(numbers).max() <= _LARGEST:
            _cast(made.graph, value, numbers.astype(np.float16))
    return made


def _cast(graph: ir.Graph, value: ir.Value, numbers: np.ndarray) -> None:
    name = str(value.name)
    stored = ir.Value(
        name=f"{name}.half",
        const_value=ir.tensor(numbers, name=f"{name}.half"),
        shape=ir.Shape(numbers.shape),
        type=ir.TensorType(ir.DataType.FLOAT16),
    )
    node = ir.node("Cast", [stored], {"to": ir.DataType.FLOAT}, name=f"{name}/Cast")
    ir.convenience.replace_all_uses_with(value, node.outputs[0])
    del graph.initializers[name]
    node.outputs[0].name = name
    graph.register_initializer(stored)
    graph.insert_before(graph[0], node)


def compute_half(model: ir.Model) -> ir.Model:
    """All in float16, but for the graph's input and output: onnxruntime's own converter.

    Args:
        model: not changed.
    """
    from onnxruntime.transformers.float16 import convert_float_to_float16

    try:
        converted = convert_float_to_float16(ir.to_proto(model), keep_io_types=True)
    except (ValueError, RuntimeError, KeyError) as error:
        raise QuantizationError(f"onnxruntime's converter to float16 fails: {error}") from error
    made: ir.Model = ir.from_proto(converted)
    return made
