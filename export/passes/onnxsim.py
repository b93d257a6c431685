"""onnxsim as a pass."""

import onnx_ir as ir
import onnxsim

from vit_edge.export.errors import PassError

__all__ = ["OnnxSim"]

# These three turn MatMul + Add into Reshape, Gemm, Reshape and pack q, k and v again: more nodes, slower in
# onnxruntime, and no later pass recognises a layer.
_SKIPPED = ["fuse_matmul_add_bias_into_gemm", "fuse_matmul_add_bias_into_gemm_batched", "fuse_qkv"]
_PROTOBUF_LIMIT = (1 << 31) - (1 << 20)  # a ModelProto cannot be serialised above 2 GiB


class OnnxSim(ir.passes.FunctionalPass):
    """Constant subgraphs, no-op Reshape, Cast, Slice, Squeeze chains and additions of zero -> nothing.

    Its own check is off (`check_n=0`): the parity gate that follows compares with the PyTorch model, at several
    batch sizes, which is stricter. Models above 2 GiB are returned as they are, with `modified` false: they do not
    fit the protobuf message that onnxsim works on, and the passes behind it fold their constants.
    """

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        """Simplify a copy.

        Raises:
            PassError: onnxsim failed or reports a graph it cannot vouch for.
        """
        if (
            sum(value.const_value.nbytes for value in model.graph.initializers.values() if value.const_value)
            > _PROTOBUF_LIMIT
        ):
            return ir.passes.PassResult(model.clone(), modified=False)
        proto = ir.to_proto(model)
        try:
            simplified, good = onnxsim.simplify(
                proto,
                check_n=0,
                skipped_optimizers=_SKIPPED,
                tensor_size_threshold="1.9GB",
                external_data_threshold="1.9GB",
            )
        except (RuntimeError, ValueError) as error:
            raise PassError(f"onnxsim failed: {error}") from error
        if not good:
            raise PassError("onnxsim could not validate its result")
        return ir.passes.PassResult(ir.from_proto(simplified), modified=_differs(model, simplified.graph.node))


def _differs(model: ir.Model, nodes: object) -> bool:
    before = [(node.op_type, [value.name if value else "" for value in node.inputs]) for node in model.graph]
    return before != [(node.op_type, list(node.input)) for node in nodes]  # type: ignore[attr-defined]
