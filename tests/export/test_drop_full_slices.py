"""DropFullSlices: Slice(x, 0, max, 1) -> x, and nothing else."""

from collections.abc import Callable, Mapping

import numpy as np
import numpy.typing as npt
import onnx_ir as ir
import pytest

from vit_edge.export.passes import DropFullSlices

Array = npt.NDArray[np.float32]

MAX = 2**63 - 1
TEXT = """
<ir_version: 10, opset_import: ["" : 20]>
net (float[batch, 3] x) => (float[batch, size] out)
<int64[1] starts = {START}, int64[1] ends = {END}, int64[1] axes = {AXIS}, int64[1] steps = {STEP}> {
    cut = Slice (x, starts, ends, axes, steps)
    out = Neg (cut)
}
"""


def sliced(start: int = 0, end: int = MAX, axis: int = 0, step: int = 1) -> ir.Model:
    text = TEXT
    for name, value in (("START", start), ("END", end), ("AXIS", axis), ("STEP", step)):
        text = text.replace(name, str(value))
    return ir.from_onnx_text(text)


@pytest.mark.parametrize("end", [MAX, 2**31 - 1])
@pytest.mark.parametrize("axis", [0, 1])
def test_full_slice_goes(end: int, axis: int, assert_same: Callable[..., None], feeds: Mapping[str, Array]) -> None:
    result = DropFullSlices()(sliced(end=end, axis=axis))
    assert result.modified
    assert [node.op_type for node in result.model.graph] == ["Neg"]
    assert_same(sliced(end=end, axis=axis), result.model, feeds)


@pytest.mark.parametrize(
    "model",
    [sliced(start=1), sliced(end=2), sliced(end=3, axis=1), sliced(step=2), sliced(start=-1, end=-MAX, step=-1)],
    ids=["start", "end", "end that is the size", "step", "reversed"],
)
def test_other_slices_stay(model: ir.Model, assert_same: Callable[..., None], feeds: Mapping[str, Array]) -> None:
    result = DropFullSlices()(model.clone())
    assert not result.modified
    assert len(result.model.graph) == 2
    assert_same(model, result.model, feeds)


def test_bounds_that_are_computed_stay() -> None:
    text = TEXT.replace("(float[batch, 3] x)", "(float[batch, 3] x, int64[1] ends)").replace(
        ", int64[1] ends = {END}", ""
    )
    text = text.replace("START", "0").replace("AXIS", "0").replace("STEP", "1")
    assert not DropFullSlices()(ir.from_onnx_text(text)).modified


def test_slice_that_makes_the_output_stays(assert_same: Callable[..., None], feeds: Mapping[str, Array]) -> None:
    model = ir.from_onnx_text(
        TEXT.replace("out = Neg (cut)", "")
        .replace("cut =", "out =")
        .replace("START", "0")
        .replace("END", str(MAX))
        .replace("AXIS", "0")
        .replace("STEP", "1")
    )
    result = DropFullSlices()(model.clone())
    assert not result.modified
    assert_same(model, result.model, feeds)


def test_steps_may_be_left_out(assert_same: Callable[..., None], feeds: Mapping[str, Array]) -> None:
    text = TEXT.replace(", axes, steps)", ", axes)").replace("START", "0").replace("END", str(MAX))
    text = text.replace("AXIS", "1").replace(", int64[1] steps = {STEP}", "")
    result = DropFullSlices()(ir.from_onnx_text(text))
    assert result.modified
    assert_same(ir.from_onnx_text(text), result.model, feeds)


def test_another_domains_slice_is_none_of_ours() -> None:
    model = sliced()
    model.graph.node(0).domain = "com.example"
    assert not DropFullSlices()(model).modified
