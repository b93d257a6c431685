"""Lower the opset below what torch's exporter writes."""

from collections.abc import Mapping

import onnx
import onnx.version_converter
import onnx_ir as ir

from vit_edge.export.errors import PassError

__all__ = ["ConvertOpset"]

_HIDDEN = "vit_edge.hidden"
_SMALL = 1024  # bytes: axes, shapes and whatever else the converter may have to look into


class ConvertOpset(ir.passes.FunctionalPass):
    """Opset n -> opset `version`, with onnx's own version converter.

    Weights wait outside meanwhile: the converter needs none of them, and takes no model above 2 GiB.
    """

    def __init__(self, version: int) -> None:
        super().__init__()
        self.version = version

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        """Convert a copy; a model of that opset comes back as it is.

        Raises:
            PassError: an operator has no equivalent in the older opset.
        """
        if model.opset_imports.get("") == self.version:
            return ir.passes.PassResult(model.clone(), modified=False)
        light = model.clone()
        weights = _detach(light.graph)
        _hide_pads(light)
        try:
            converted = onnx.version_converter.convert_version(ir.to_proto(light), self.version)
        except (RuntimeError, ValueError) as error:
            first = (str(error).splitlines() or [type(error).__name__])[0]
            raise PassError(f"cannot be written at opset {self.version}: {first}") from error
        lowered = ir.from_proto(converted)
        _attach(lowered.graph, weights)
        _show_pads(lowered)
        for node in lowered.graph:  # the converter moves axes into an attribute and forgets this one, new in opset 18
            if node.op_type.startswith("Reduce") and node.attributes.get_int("noop_with_empty_axes", 0) == 0:
                node.attributes.pop("noop_with_empty_axes", None)
        return ir.passes.PassResult(lowered, modified=True)


def _hide_pads(model: ir.Model) -> None:
    """Take Pad out of the converter's sight: it has no adapter, and without axes Pad is the same since opset 13."""
    for node in model.graph:
        if node.op_type == "Pad" and node.domain == "" and (len(node.inputs) < 4 or node.inputs[3] is None):
            node.domain = _HIDDEN
            model.graph.opset_imports[_HIDDEN] = 1


def _show_pads(model: ir.Model) -> None:
    for node in model.graph:
        if node.domain == _HIDDEN:
            node.domain = ""
    model.graph.opset_imports.pop(_HIDDEN, None)


def _detach(graph: ir.Graph) -> Mapping[str, ir.TensorProtocol]:
    """Turn large initializers into inputs; their values come back by name."""
    weights = {}
    for name, value in list(graph.initializers.items()):
        tensor = value.const_value
        if tensor is not None and tensor.nbytes > _SMALL:
            value.shape, value.type = ir.Shape(tensor.shape.numpy()), ir.TensorType(tensor.dtype)
            value.const_value = None
            graph.initializers.pop(name)
            graph.inputs.append(value)
            weights[name] = tensor
    return weights


def _attach(graph: ir.Graph, weights: Mapping[str, ir.TensorProtocol]) -> None:
    for value in list(graph.inputs):
        tensor = weights.get(str(value.name))
        if tensor is not None:
            graph.inputs.remove(value)
            value.const_value = tensor
            graph.register_initializer(value)
