"""ConvertOpset: the same graph for older runtimes, whatever the size of its weights."""

from collections.abc import Callable, Mapping

import numpy as np
import numpy.typing as npt
import onnx
import onnx_ir as ir
import onnxruntime
import pytest

from vit_edge.export.errors import PassError
from vit_edge.export.passes import ConvertOpset
from vit_edge.export.pipeline import run_passes

Array = npt.NDArray[np.float32]

MEAN = """
<ir_version: 8, opset_import: ["" : 18]>
net (float[batch, 3] x) => (float[batch, 1] out) <float[3, 3] w = {1, 2, 3, 4, 5, 6, 7, 8, 10}, int64[1] axes = {1}> {
    product = MatMul (x, w)
    out = ReduceMean <keepdims = 1, noop_with_empty_axes = 0> (product, axes)
}
"""
GELU = """
<ir_version: 9, opset_import: ["" : 20]>
net (float[batch, 3] x) => (float[batch, 3] out) { out = Gelu (x) }
"""


def with_large_weight() -> ir.Model:
    """A weight above the size that waits outside: 3 x 300."""
    model = ir.from_onnx_text(MEAN)
    values = np.random.default_rng(0).standard_normal((3, 300)).astype(np.float32)
    weight = model.graph.initializers["w"]
    weight.const_value, weight.shape = ir.tensor(values, name="w"), ir.Shape(values.shape)
    return model


@pytest.mark.parametrize("make", [lambda: ir.from_onnx_text(MEAN), with_large_weight], ids=["small", "large"])
def test_axes_move_into_an_attribute(
    make: Callable[[], ir.Model], assert_same: Callable[..., None], feeds: Mapping[str, Array]
) -> None:
    before = make()
    result = ConvertOpset(17)(before)
    assert result.modified
    assert result.model.opset_imports[""] == 17
    mean = result.model.graph.node(-1)
    assert list(mean.attributes.get_ints("axes")) == [1]
    assert "noop_with_empty_axes" not in mean.attributes
    assert [value.name for value in result.model.graph.inputs] == ["x"]
    assert_same(make(), result.model, feeds)
    assert before.opset_imports[""] == 18, "it works on a copy"
    assert [value.name for value in before.graph.inputs] == ["x"]
    assert "w" in before.graph.initializers


def test_large_weights_never_reach_the_converter(monkeypatch: pytest.MonkeyPatch) -> None:
    """It serialises the model, and nothing above 2 GiB can be serialised."""
    seen = []
    convert = onnx.version_converter.convert_version

    def spy(proto: onnx.ModelProto, version: int) -> onnx.ModelProto:
        seen.append(proto.ByteSize())
        return convert(proto, version)

    monkeypatch.setattr(onnx.version_converter, "convert_version", spy)
    result = ConvertOpset(17)(with_large_weight())
    assert seen
    assert seen[0] < 1000
    weight = result.model.graph.initializers["w"].const_value
    assert weight is not None
    assert weight.nbytes == 3600


def test_same_opset_is_left_alone() -> None:
    before = ir.from_onnx_text(MEAN)
    result = ConvertOpset(18)(before)
    assert not result.modified
    assert result.model.opset_imports[""] == 18


def test_operator_without_an_older_form_is_named() -> None:
    with pytest.raises(PassError, match=r"cannot be written at opset 17: .*Gelu"):
        run_passes(ir.from_onnx_text(GELU), [ConvertOpset(17)])


def test_pad_without_axes_passes_the_converter() -> None:
    """The converter has no adapter for it; stems and windows with borders need it at opset 17."""
    text = """<ir_version: 10, opset_import: ["" : 18]>
    agraph (float[N,2] x) => (float[N,4] y) <int64[4] pads = {0,1,0,1}> { y = Pad (x, pads) }"""
    result = ConvertOpset(17)(ir.from_onnx_text(text))
    assert result.modified
    assert dict(result.model.opset_imports) == {"": 17}
    proto = ir.to_proto(result.model)
    onnx.checker.check_model(proto, full_check=True)
    x = np.random.default_rng(0).standard_normal((3, 2)).astype(np.float32)
    session = onnxruntime.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    np.testing.assert_array_equal(session.run(None, {"x": x})[0], np.pad(x, ((0, 0), (1, 1))))
