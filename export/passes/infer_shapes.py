"""onnx's shape inference as a pass."""

import onnx
import onnx_ir as ir

from vit_edge.export.passes.weights_aside import put_back, take_out

__all__ = ["InferShapes"]


class InferShapes(ir.passes.FunctionalPass):
    """Shapes that follow from the inputs' -> noted with each value; what does not follow stays without."""

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        """Infer on a copy without its large weights."""
        light = model.clone()
        weights = take_out(light.graph)
        inferred = ir.from_proto(onnx.shape_inference.infer_shapes(ir.to_proto(light), data_prop=True))
        put_back(inferred.graph, weights)
        return ir.passes.PassResult(inferred, modified=True)
