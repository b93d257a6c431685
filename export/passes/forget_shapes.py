"""Drop the notes that exporters leave about intermediate shapes."""

import onnx_ir as ir

__all__ = ["ForgetShapes"]


class ForgetShapes(ir.passes.InPlacePass):
    """value_info and the outputs' shapes -> nothing: they speak of the traced sizes, and onnxruntime infers its own."""

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        """Forget shapes and types of what nodes give; outputs keep their type."""
        modified = False
        for node in model.graph:
            for value in node.outputs:
                modified |= value.shape is not None
                value.shape = None
                if not value.is_graph_output():
                    value.type = None
        return ir.passes.PassResult(model, modified=modified)
