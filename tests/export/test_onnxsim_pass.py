"""OnnxSim: constant chains and no-ops go, matrix products stay as layers."""

from collections.abc import Callable, Mapping

import numpy as np
import numpy.typing as npt
import onnx
import onnx_ir as ir
import onnxsim
import pytest

from vit_edge.export.errors import PassError
from vit_edge.export.passes import OnnxSim
from vit_edge.export.passes.weights_aside import put_back
from vit_edge.export.pipeline import run_passes

Array = npt.NDArray[np.float32]

CHAIN = """
<ir_version: 10, opset_import: ["" : 20]>
net (float[batch, 3] x) => (float[batch, 3] out)
<float[3, 3] w = {1, 2, 3, 4, 5, 6, 7, 8, 10}, float[3] b = {1, 2, 3}, int64[2] shape = {-1, 3}> {
    same = Identity (x)
    wt = Transpose <perm = [1, 0]> (w)
    product = MatMul (same, wt)
    cast = Cast <to = 1> (product)
    out = Add (cast, b)
}
"""
LAYERS = """
<ir_version: 10, opset_import: ["" : 20]>
net (float[batch, 3] x) => (float[batch, 1, 3] out)
<float[3, 3] q = {1, 2, 3, 4, 5, 6, 7, 8, 10}, float[3, 3] k = {2, 1, 3, 4, 5, 7, 1, 8, 1}, float[3] b = {1, 2, 3},
 int64[1] one = {1}> {
    tokens = Unsqueeze (x, one)
    q1 = MatMul (tokens, q)
    q2 = Add (q1, b)
    k1 = MatMul (tokens, k)
    k2 = Add (k1, b)
    out = Mul (q2, k2)
}
"""

HEAVY = """
<ir_version: 10, opset_import: ["" : 20]>
net (float[batch, 64] x, float[64, 64] w) => (float[batch, 64] out) {
    same = Identity (x)
    out = MatMul (same, w)
}
"""


def test_no_ops_and_constants_go(assert_same: Callable[..., None], feeds: Mapping[str, Array]) -> None:
    before = ir.from_onnx_text(CHAIN)
    result = OnnxSim()(before)
    assert result.modified
    assert [node.op_type for node in result.model.graph] == ["MatMul", "Add"]
    assert_same(ir.from_onnx_text(CHAIN), result.model, feeds)
    assert len(before.graph) == 5, "it works on a copy"


def test_layers_stay_layers(assert_same: Callable[..., None], feeds: Mapping[str, Array]) -> None:
    """Neither Gemm with reshapes around it nor q and k packed together."""
    before = ir.from_onnx_text(LAYERS)
    result = OnnxSim()(before)
    assert not result.modified
    assert [node.op_type for node in result.model.graph] == [node.op_type for node in before.graph]
    assert_same(before, result.model, feeds)


def test_batch_stays_dynamic() -> None:
    (images,) = OnnxSim()(ir.from_onnx_text(CHAIN)).model.graph.inputs
    assert images.shape is not None
    assert str(images.shape[0]) == "batch"


def test_large_weights_never_reach_the_tool(assert_same: Callable[..., None], monkeypatch: pytest.MonkeyPatch) -> None:
    """What onnxsim serialises stays small whatever the model weighs, and the numbers come back as they were."""
    rng = np.random.default_rng(0)
    weight, images = rng.normal(size=(2, 64, 64)).astype(np.float32)
    before = ir.from_onnx_text(HEAVY)
    put_back(before.graph, {"w": ir.tensor(weight, name="w")})
    seen = []
    simplify = onnxsim.simplify

    def spy(proto: onnx.ModelProto, **options: object) -> object:
        seen.append(proto.ByteSize())
        return simplify(proto, **options)

    monkeypatch.setattr(onnxsim, "simplify", spy)
    after = OnnxSim()(before).model
    assert seen[0] < weight.nbytes / 4
    assert [value.name for value in after.graph.inputs] == ["x"]
    assert list(after.graph.initializers) == ["w"]
    assert_same(before, after, {"x": images})


@pytest.mark.parametrize(
    ("outcome", "message"),
    [(RuntimeError("no such operator"), "no such operator"), ((None, False), "could not validate")],
)
def test_failures_are_pass_errors(outcome: object, message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def simplify(*arguments: object, **options: object) -> object:
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    monkeypatch.setattr(onnxsim, "simplify", simplify)
    with pytest.raises(PassError, match=message):
        run_passes(ir.from_onnx_text(CHAIN), [OnnxSim()])
