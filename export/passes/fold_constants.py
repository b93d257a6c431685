"""Compute at export time what does not depend on the image."""

import onnx_ir as ir
import onnxscript.optimizer
from onnx_ir.passes.common import LiftConstantsToInitializersPass

__all__ = ["FoldConstants"]

_NO_LIMIT = 1 << 40  # weights are transposed once, however large they are


class FoldConstants(ir.passes.InPlacePass):
    """f(constants) -> constant, for all sizes; constants become initializers."""

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        """Fold with onnxscript's optimizer."""
        before = len(model.graph)
        onnxscript.optimizer.fold_constants(
            model, onnx_shape_inference=False, input_size_limit=_NO_LIMIT, output_size_limit=_NO_LIMIT
        )
        lifted = LiftConstantsToInitializersPass(lift_all_constants=True, size_limit=0)(model)
        return ir.passes.PassResult(model, modified=lifted.modified or len(model.graph) != before)
