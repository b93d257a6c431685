"""Lower the opset below what torch's exporter writes."""

import onnx
import onnx.version_converter
import onnx_ir as ir

from vit_edge.export.errors import PassError
from vit_edge.export.passes.weights_aside import put_back, take_out

__all__ = ["ConvertOpset"]

_HIDDEN = "vit_edge.hidden"


class ConvertOpset(ir.passes.FunctionalPass):
    """Opset n -> opset `version`, with onnx's own version converter.

    Weights wait outside meanwhile, so that the size of the model does not matter.
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
        weights = take_out(light.graph)
        _hide_pads(light)
        try:
            converted = onnx.version_converter.convert_version(ir.to_proto(light), self.version)
        except (RuntimeError, ValueError) as error:
            first = (str(error).splitlines() or [type(error).__name__])[0]
            raise PassError(f"cannot be written at opset {self.version}: {first}") from error
        lowered = ir.from_proto(converted)
        put_back(lowered.graph, weights)
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
