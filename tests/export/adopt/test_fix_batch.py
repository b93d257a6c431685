"""Each rule of the repair: it fires, it computes the same, and it leaves alone what follows the batch already."""

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from vit_edge.export.errors import ExportError, PassError
from vit_edge.export.passes.fix_batch import FIXED, FixBatch, batch_axis
from vit_edge.runtime.session import open_session

HEAD = '<ir_version: 8, opset_import: ["" : 17]>\n'


def images(count: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((count, 3, 4, 4)).astype(np.float32)


def run(model: ir.Model, x: np.ndarray) -> np.ndarray:
    session = open_session(ir.to_proto(model).SerializeToString(), optimization="none")
    return session.run(None, {"x": x})[0]


def repair(text: str, traced: int) -> tuple[ir.Model, list[str]]:
    """Repair, check against the graph as it was at its own batch, and at others that images stay alone."""
    model = ir.from_proto(onnx.parser.parse_model(HEAD + text))
    before = run(model, images(traced))
    result = FixBatch(traced, images(traced + 2), 1e-3)(model)
    assert result.modified
    onnx.checker.check_model(ir.to_proto(model))
    np.testing.assert_allclose(run(model, images(traced)), before, rtol=1e-6, atol=1e-6)
    alone = np.concatenate([run(model, image[None]) for image in images(7)])
    assert alone.std(axis=0).max() > 0.1
    np.testing.assert_allclose(run(model, images(7)), alone, rtol=1e-5, atol=1e-6)
    return model, [node.metadata_props[FIXED] for node in model.graph if FIXED in node.metadata_props]


@pytest.mark.parametrize(
    ("shape", "axis", "batch", "reshaped", "expected"),
    [
        ((1, 197, 576), 0, 1, (1, 197, 3, 3, 64), 0),
        ((8, 197, 576), 0, 8, (8, 197, 3, 3, 64), 0),
        ((1, 8, 7, 8, 7, 96), 0, 1, (64, 49, 96), 0),  # Swin: windows of an image
        ((64, 49, 96), 0, 1, (1, 8, 8, 7, 7, 96), 0),
        ((3, 2, 6, 17, 16), 1, 2, (3, 12, 17, 16), 1),  # heads join the batch behind it
        ((17, 1, 32), 1, 1, (17, 1, 2, 16), 1),  # sequence first
        ((3, 1, 6, 17, 16), 1, 1, (3, 1, 102, 16), 1),
        ((8, 12), 0, 8, (4, 24), None),
    ],
)
def test_the_batch_keeps_its_stride(shape, axis, batch, reshaped, expected):
    assert batch_axis(shape, axis, batch, reshaped) == expected


@pytest.mark.parametrize("traced", [1, 4])
def test_reshape_in_windows_and_back(traced: int):
    _, done = repair(
        f"""g (float[N,3,4,4] x) => (float[M,48] y)
        <int64[6] a = {{{traced},3,2,2,2,2}}, int64[3] b = {{{traced * 4},3,4}}, int64[2] c = {{{traced},48}}> {{
          cut = Reshape (x, a)
          turned = Transpose <perm = [0, 2, 4, 1, 3, 5]> (cut)
          windows = Reshape (turned, b)
          soft = Softmax (windows)
          y = Reshape (soft, c)
        }}""",
        traced,
    )
    assert done == [
        f"[{traced}, 3, 2, 2, 2, 2] -> [-1, 3, 2, 2, 2, 2]",
        f"[{traced * 4}, 3, 4] -> [-1, 3, 4]",
        f"[{traced}, 48] -> [-1, 48]",
    ]


@pytest.mark.parametrize("traced", [1, 4])
@pytest.mark.parametrize("maker", ["Tile", "Expand"])
def test_class_token_repeated_for_the_traced_batch(traced: int, maker: str):
    model, _ = repair(
        f"""g (float[N,3,4,4] x) => (float[N,4,16] y)
        <float[1,1,16] token = {{{",".join("0.5" for _ in range(16))}}}, int64[3] many = {{{traced},1,1}}> {{
          flat = Flatten <axis = 2> (x)
          three = Unsqueeze (one, axis)
          tokens = {maker} (token, many)
          kept = Identity (x)
          rows = Reshape (kept, rest)
          y = Concat <axis = 1> (tokens, rows)
        }}""".replace("flat = Flatten <axis = 2> (x)\n          three = Unsqueeze (one, axis)\n          ", "")
        .replace("int64[3] many", "int64[3] rest = {0,3,16}, int64[3] many")
        .replace("{0,3,16}", "{0,0,-1}"),
        traced,
    )
    expands = [node for node in model.graph if node.op_type == "Expand" and node.name.endswith("/batch/Expand")]
    assert len(expands) == 1


def test_rows_of_a_constant_beside_the_images():
    """A position table that a folding exporter repeated for eight images."""
    table = ",".join(["0.5,1.5,2.5,3.5"] * 8)
    _, done = repair(
        f"""g (float[N,3,4,4] x) => (float[N,3,4,4] y) <float[8,1,1,4] table = {{{table}}}> {{
          y = Add (x, table)
        }}""",
        8,
    )
    assert done == ["table [8, 1, 1, 4] -> ['batch', 1, 1, 4]"]


def test_expand_and_resize_of_images():
    _, done = repair(
        """g (float[N,3,4,4] x) => (float[N,3,8,8] y)
        <int64[4] sizes = {2,3,8,8}, int64[4] same = {2,3,4,4}, float[1] none = {1}> {
          wide = Expand (x, same)
          y = Resize <mode = "nearest"> (wide, , , sizes)
        }""",
        2,
    )
    assert done == ["[2, 3, 4, 4] -> [1, 3, 4, 4]", "[2, 3, 8, 8] -> ['batch', 3, 8, 8]"]


def test_inside_a_branch_values_from_outside_are_known():
    _, done = repair(
        """g (float[N,3,4,4] x) => (float[N,48] y) <int64[2] flat = {1,48}, bool yes = {1}> {
          picked = If (yes) <
            then_branch = t () => (float[N,3,4,4] a) { a = Relu (x) },
            else_branch = e () => (float[N,3,4,4] b) { b = Identity (x) }
          >
          y = Reshape (picked, flat)
        }""",
        1,
    )
    assert done == ["[1, 48] -> [-1, 48]"]


def test_what_follows_the_batch_is_left_alone():
    model = ir.from_proto(
        onnx.parser.parse_model(
            HEAD
            + """g (float[N,3,4,4] x) => (float[N,48] y) <int64[3] a = {-1,1,48}, int64[2] b = {0,-1}> {
              row = Reshape (x, a)
              y = Reshape (row, b)
            }"""
        )
    )
    assert not FixBatch(1, images(3), 1e-3)(model).modified


@pytest.mark.parametrize(
    ("body", "node"),
    [
        ("mean = ReduceMean <axes = [0], keepdims = 1> (x)\n y = Sub (x, mean)", "mean"),
        ("first = Gather <axis = 0> (x, zero)\n y = Add (x, first)", "first"),
        ("turned = Transpose <perm = [1, 0, 2, 3]> (x)\n y = Reshape (turned, back)", "y"),
    ],
)
def test_mixed_images_are_refused_by_node(body: str, node: str):
    model = ir.from_proto(
        onnx.parser.parse_model(
            HEAD + "g (float[N,3,4,4] x) => (float[N,3,4,4] y) <int64[1] zero = {0}, int64[4] back = {-1,3,4,4}> {"
            f"{body} }}"
        )
    )
    with pytest.raises((PassError, ir.passes.PassError)) as caught:
        FixBatch(2, images(4), 1e-3)(model)
    assert f"images of a batch are mixed or lost, first at {node} (" in str(caught.value)


def test_a_node_that_no_rule_repairs_is_named():
    model = ir.from_proto(
        onnx.parser.parse_model(
            HEAD
            + """g (float[N,3,4,4] x) => (float[N,3,4,4] y) <int64[2] parts = {1,1}> {
              [cut] a, b = Split <axis = 0> (x, parts)
              y = Concat <axis = 0> (a, b)
            }"""
        )
    )
    with pytest.raises((PassError, ir.passes.PassError)) as caught:
        FixBatch(2, images(4), 1e-3)(model)
    assert "no rule repairs" in str(caught.value)
    assert "Split" in str(caught.value)


@pytest.mark.parametrize("fix", [False, True])
@pytest.mark.parametrize(
    ("graph", "named"),
    [
        (
            "<float[2,3] w = {0,1,2,3,4,5}> { m = ReduceMean <axes = [2, 3], keepdims = 0> (x) y = Add (m, w) }",
            "y (Add)",
        ),
        (
            "<float[2,2] w = {0,1,1,0}> { m = ReduceMean <axes = [2, 3], keepdims = 0> (x) y = MatMul (w, m) }",
            "(MatMul)",
        ),
        (
            "{ a, b = Split <axis = 0> (x) c = Concat <axis = 0> (a, b)"
            " y = ReduceMean <axes = [2, 3], keepdims = 0> (c) }",
            "(Split)",
        ),
    ],
)
def test_what_no_rule_repairs_is_named_without_onnxruntimes_text(
    graph: str, named: str, fix: bool, write_text, run_adopt
) -> None:
    source = write_text(f"""<ir_version: 8, opset_import: ["" : 17]>
g (float[2,3,8,8] x) => (float[2,3] y) {graph}""")
    with pytest.raises(ExportError) as caught:
        run_adopt(source, fix_batch=fix, output_kind="features")
    message = str(caught.value)
    assert named in message
    assert "re-export it with a dynamic batch" in message
    assert "status code" not in message
