"""Lower the opset below what torch's exporter writes."""

import onnx
import onnx.version_converter
import onnx_ir as ir

from vit_edge.export.errors import PassError

__all__ = ["ConvertOpset"]


class ConvertOpset(ir.passes.FunctionalPass):
    """Opset n -> opset `version`, with onnx's own version converter."""

    def __init__(self, version: int) -> None:
        super().__init__()
        self.version = version

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        """Convert a copy.

        Raises:
            PassError: an operator has no equivalent in the older opset.
        """
        try:
            converted = onnx.version_converter.convert_version(ir.to_proto(model), self.version)
        except (RuntimeError, ValueError) as error:
            first = (str(error).splitlines() or [type(error).__name__])[0]
            raise PassError(f"cannot be written at opset {self.version}: {first}") from error
        lowered = ir.from_proto(converted)
        for node in lowered.graph:  # the converter moves axes into an attribute and forgets this one, new in opset 18
            if node.op_type.startswith("Reduce") and node.attributes.get_int("noop_with_empty_axes", 0) == 0:
                node.attributes.pop("noop_with_empty_axes", None)
        return ir.passes.PassResult(lowered, modified=True)
