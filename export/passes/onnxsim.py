"""onnxsim as a pass."""

import onnx_ir as ir
import onnxsim

from vit_edge.export.errors import PassError
from vit_edge.export.passes.weights_aside import put_back, take_out

__all__ = ["OnnxSim"]

# These three turn MatMul + Add into Reshape, Gemm, Reshape and pack q, k and v again: more nodes, and no layer has its
# name any more. They need the weights, so they could only work on those small enough to stay inside.
_SKIPPED = ["fuse_matmul_add_bias_into_gemm", "fuse_matmul_add_bias_into_gemm_batched", "fuse_qkv"]


class OnnxSim(ir.passes.FunctionalPass):
    """Constant subgraphs, no-op Reshape, Cast, Slice, Squeeze chains and additions of zero -> nothing.

    Its own check is off (`check_n=0`): the parity gate that follows compares with the PyTorch model, at several
    batch sizes, which is stricter. Large weights wait outside, so that the size of the model does not matter; what is
    computed of weights alone is left to `FoldConstants`.
    """

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        """Simplify a copy.

        Raises:
            PassError: onnxsim failed or reports a graph it cannot vouch for.
        """
        light = model.clone()
        weights = take_out(light.graph)
        try:
            simplified, good = onnxsim.simplify(ir.to_proto(light), check_n=0, skipped_optimizers=_SKIPPED)
        except (RuntimeError, ValueError) as error:
            raise PassError(f"onnxsim failed: {error}") from error
        if not good:
            raise PassError("onnxsim could not validate its result")
        made = ir.from_proto(simplified)
        put_back(made.graph, weights)
        return ir.passes.PassResult(made, modified=_differs(model, made))


def _differs(before: ir.Model, after: ir.Model) -> bool:
    return _nodes(before) != _nodes(after)


def _nodes(model: ir.Model) -> list[tuple[str, list[str]]]:
    return [(node.op_type, [str(value.name) if value else "" for value in node.inputs]) for node in model.graph]
