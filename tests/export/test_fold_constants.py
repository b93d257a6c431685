"""FoldConstants: what does not depend on the image is computed once."""

from collections.abc import Callable, Mapping

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from vit_edge.export.passes import FoldConstants

Array = npt.NDArray[np.float32]

FOLDS = """
<ir_version: 10, opset_import: ["" : 20]>
net (float[batch, 3] x) => (float[batch, 2] out) <float[2, 3] w = {1, 2, 3, 4, 5, 6}, float[1] half = {0.5}> {
    wt = Transpose <perm = [1, 0]> (w)
    scaled = Mul (wt, half)
    one = Constant <value = float[1] {1.0}> ()
    shifted = Add (x, one)
    out = MatMul (shifted, scaled)
}
"""
NOTHING = """
<ir_version: 10, opset_import: ["" : 20]>
net (float[batch, 3] x) => (float[batch, 2] out) <float[3, 2] w = {1, 2, 3, 4, 5, 6}> {
    shape = Shape (x)
    same = Reshape (x, shape)
    out = MatMul (same, w)
}
"""


def test_folds_to_initializers(assert_same: Callable[..., None], feeds: Mapping[str, Array]) -> None:
    model = ir.from_onnx_text(FOLDS)
    result = FoldConstants()(model)
    assert result.modified
    assert [node.op_type for node in result.model.graph] == ["Add", "MatMul"]
    assert "scaled" in result.model.graph.initializers
    assert_same(ir.from_onnx_text(FOLDS), result.model, feeds)
    assert not FoldConstants()(result.model).modified


def test_what_depends_on_the_image_stays(assert_same: Callable[..., None], feeds: Mapping[str, Array]) -> None:
    result = FoldConstants()(ir.from_onnx_text(NOTHING))
    assert not result.modified
    assert len(result.model.graph) == 3
    assert_same(ir.from_onnx_text(NOTHING), result.model, feeds)


def test_large_weights_are_folded_too() -> None:
    """onnxscript's own limits would leave a Transpose at every inference."""
    model = ir.from_onnx_text(FOLDS)
    weight = model.graph.initializers["w"]
    large = np.ones((2048, 3072), np.float32)  # 25 MB
    weight.const_value, weight.shape = ir.tensor(large, name="w"), ir.Shape(large.shape)
    assert "Transpose" not in [node.op_type for node in FoldConstants()(model).model.graph]
