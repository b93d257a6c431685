"""HoistSelection: f(x)[i] -> f(x[i]) where f treats the entries one by one, and nowhere else."""

from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import numpy.typing as npt
import onnx_ir as ir
import pytest

from vit_edge.export import ExportOptions, export
from vit_edge.export.passes import HoistSelection, InferShapes
from vit_edge.export.passes.hoist_selection import selected_name, split_name
from vit_edge.export.rewrites import find_rewrites

Array = npt.NDArray[np.float32]
HEAD = '<ir_version: 10, opset_import: ["" : 23]>'
WEIGHTS = (
    "float[4, 4] w = {0.1, 0.2, 0.3, -0.4, 0.5, -0.6, 0.7, 0.8, -0.9, 0.1, 0.2, 0.3, 0.4, 0.5, -0.6, 0.7}, "
    "float[4] b = {1., -2., 0.5, 0.3}, float[5, 1] pos = {0.1, 0.2, 0.3, 0.4, 0.5}, "
    "int64 zero = {0}, int64[2] two = {0, 1}"
)


def graph(body: str, *, constants: str = "", outputs: str = "float[n, 4] out") -> ir.Model:
    """Five tokens of width 4, as the body writes them; with the shapes that follow."""
    more = f", {constants}" if constants else ""
    return InferShapes()(
        ir.from_onnx_text(f"{HEAD} net (float[n, 5, 4] x) => ({outputs}) <{WEIGHTS}{more}> {{ {body} }}")
    ).model


@pytest.fixture
def tokens() -> Mapping[str, Array]:
    return {"x": np.random.default_rng(4).standard_normal((3, 5, 4)).astype(np.float32)}


ALONE = {
    "bias": "a = MatMul (x, w) y = Add (a, b) out = Gather <axis = 1> (y, zero)",
    "residual": "a = MatMul (x, w) y = Add (x, a) out = Gather <axis = 1> (y, zero)",
    "positions": "a = Add (x, pos) y = Gelu (a) out = Gather <axis = 1> (y, zero)",
    "norm": "a = LayerNormalization <axis = -1> (x, b) y = Relu (a) out = Gather <axis = 1> (y, zero)",
    "negative axis": "a = MatMul (x, w) y = Add (a, b) out = Gather <axis = -2> (y, zero)",
    "transpose": "a = Transpose <perm = [0, 2, 1]> (x) y = Relu (a) out = Gather <axis = 2> (y, zero)",
    "softmax": "a = Softmax <axis = -1> (x) y = MatMul (a, w) out = Gather <axis = 1> (y, zero)",
}


@pytest.mark.parametrize("body", ALONE.values(), ids=ALONE.keys())
def test_selection_moves_to_the_input(body: str, assert_same: Callable[..., None], tokens: Mapping[str, Array]) -> None:
    model = graph(body)
    result = HoistSelection()(model.clone())
    assert result.modified
    first = next(node for node in result.model.graph if node.op_type == "Gather")
    assert first.inputs[0] is result.model.graph.inputs[0], "nothing is computed of tokens that are not read"
    assert_same(model, result.model, tokens)


def test_slice_is_a_selection_too(assert_same: Callable[..., None], tokens: Mapping[str, Array]) -> None:
    model = graph(
        "y = Relu (x) cut = Slice (y, start, end, axes) out = ReduceMean <keepdims = 0> (cut, axes)",
        constants="int64[1] start = {-2}, int64[1] end = {9223372036854775807}, int64[1] axes = {1}",
    )
    result = HoistSelection()(model.clone())
    assert result.model.graph.node(1).outputs[0].name == "y[3,4]"
    assert_same(model, result.model, tokens)


def test_two_readers_of_different_tokens_share_what_is_computed(
    assert_same: Callable[..., None], tokens: Mapping[str, Array]
) -> None:
    """Distillation: one head reads token 0, the other token 1."""
    model = graph(
        "a = MatMul (x, w) y = Relu (a) f = Gather <axis = 1> (y, zero) g = Gather <axis = 1> (y, two) "
        "h = ReduceMean <keepdims = 0> (g, axes) out = Add (f, h)",
        constants="int64[1] axes = {1}",
    )
    result = HoistSelection()(model.clone())
    assert "y[0,1]" in {value.name for node in result.model.graph for value in node.outputs}
    assert_same(model, result.model, tokens)


def test_tokens_keep_the_order_in_which_they_are_read(
    assert_same: Callable[..., None], tokens: Mapping[str, Array]
) -> None:
    model = graph(
        "y = Relu (x) out = Gather <axis = 1> (y, which)",
        constants="int64[3] which = {3, 0, -2}",
        outputs="float[n, 3, 4] out",
    )
    result = HoistSelection()(model.clone())
    assert result.model.graph.node(1).outputs[0].name == "y[0,3]", "-2 is 3 of five"
    assert_same(model, result.model, tokens)


NEVER = {
    "mean": "a = Relu (x) p = ReduceMean <keepdims = 1> (a, axes) y = Add (a, p) out = Gather <axis = 1> (y, zero)",
    "another reader": "y = Relu (x) s = ReduceMean <keepdims = 0> (y, axes) g = Gather <axis = 1> (y, zero) "
    "out = Add (g, s)",
    "softmax over tokens": "y = Softmax <axis = 1> (x) out = Gather <axis = 1> (y, zero)",
    "norm over tokens": "y = LayerNormalization <axis = 1> (x, square) out = Gather <axis = 1> (y, zero)",
    "causal": "y = Attention <is_causal = 1, q_num_heads = 2, kv_num_heads = 2> (x, x, x) "
    "out = Gather <axis = 1> (y, zero)",
    "mask": "y = Attention <q_num_heads = 2, kv_num_heads = 2> (x, x, x, mask) out = Gather <axis = 1> (y, zero)",
    "tokens become width": "t = Reshape (x, turned) y = Relu (t) out = Gather <axis = 1> (y, zero)",
    "all are read": "y = Relu (x) g = Gather <axis = 1> (y, five) out = ReduceMean <keepdims = 0> (g, axes)",
}
EXTRA = (
    "int64[1] axes = {1}, int64[3] turned = {0, 4, 5}, int64[5] five = {4, 3, 2, 1, 0}, float[5, 4] square = "
    f"{{{', '.join(['1.0'] * 20)}}}, float[5, 5] mask = {{{', '.join(str(i / 10) for i in range(25))}}}"
)


@pytest.mark.parametrize("name", NEVER)
def test_what_mixes_tokens_stays(name: str, assert_same: Callable[..., None], tokens: Mapping[str, Array]) -> None:
    outputs = "float[n, 5] out" if name == "tokens become width" else "float[n, 4] out"
    model = graph(NEVER[name], constants=EXTRA, outputs=outputs)
    before = [(node.op_type, [str(value.name) for value in node.inputs if value]) for node in model.graph]
    result = HoistSelection()(model.clone())
    selected = [node for node in result.model.graph if node.op_type == "Gather"]
    mixing = {"mean": "Add", "tokens become width": "Reshape"}.get(name)
    if mixing is None:
        assert not result.modified
        assert before == [(n.op_type, [str(v.name) for v in n.inputs if v]) for n in result.model.graph]
    else:  # what stands behind the mixing may still be computed for the tokens that are read
        assert selected[0].inputs[0].producer().op_type in ("Relu", mixing)  # type: ignore[union-attr]
    assert_same(model, result.model, tokens)


def test_output_of_the_graph_is_read_whole(assert_same: Callable[..., None], tokens: Mapping[str, Array]) -> None:
    model = graph("y = Relu (x) out = Gather <axis = 1> (y, zero)", outputs="float[n, 4] out, float[n, 5, 4] y")
    assert not HoistSelection()(model.clone()).modified


def test_indices_that_are_computed_stay() -> None:
    model = graph("y = Relu (x) s = Shape (x) i = Gather <axis = 0> (s, zero) out = Gather <axis = 1> (y, i)")
    assert not HoistSelection()(model).modified


@pytest.mark.parametrize("opset", [23, 20])
@pytest.mark.parametrize(
    ("changes", "read"),
    [({}, (0,)), ({"distillation_token": True, "distillation_head": True}, (0, 1)), ({"pool": "mean"}, ())],
)
def test_last_block_is_computed_for_what_the_head_reads(
    opset: int, changes: dict[str, object], read: tuple[int, ...], make_checkpoint: Callable[..., Path], tmp_path: Path
) -> None:
    """The parity gates inside compare it with PyTorch, at several batch sizes."""
    path = export(make_checkpoint(**changes), tmp_path / "model.onnx", ExportOptions(opset=opset)).path
    found = find_rewrites(ir.load(path).graph)
    assert found.last_block == list(read)
    assert (found.fused, found.attentions) == (2 if opset == 23 else 0, 2)
    names = {str(value.name) for node in ir.load(path).graph for value in node.outputs}
    for layer in ("attn.q", "attn.proj", "mlp.fc1", "mlp.fc2"):
        assert selected_name(f"blocks.1.{layer}", read) in names or not read
        assert f"blocks.0.{layer}" in names
    assert {"blocks.1.attn.k", "blocks.1.attn.v"} <= names, "keys and values are those of all tokens"


def test_names_are_taken_apart_as_they_were_put_together() -> None:
    assert split_name(selected_name("a.b", [0, 12])) == ("a.b", [0, 12])
    assert split_name("a[x]") == ("a[x]", [])
