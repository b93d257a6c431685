"""NameTensors: scopes of the exporter -> names of tensors and nodes."""

from collections.abc import Callable, Mapping

import numpy as np
import numpy.typing as npt
import onnx_ir as ir
import pytest

from vit_edge.checkpoints import Checkpoint
from vit_edge.export.parity import Reference
from vit_edge.export.passes import NameTensors

Array = npt.NDArray[np.float32]

KEY = "pkg.torch.onnx.name_scopes"
TEXT = """
<ir_version: 10, opset_import: ["" : 23]>
net (float[batch, 3] x) => (float[batch, 3] out) <float[3, 3] weight = {1, 2, 3, 4, 5, 6, 7, 8, 9}> {
    val_0 = Transpose <perm = [1, 0]> (weight)
    val_1 = MatMul (x, val_0)
    val_2 = Relu (val_1)
    val_3 = Add (val_2, x)
    out = Neg (val_3)
}
"""


@pytest.fixture
def scoped() -> ir.Model:
    """As torch writes it: the modules around each node, and the operator's own name at the end."""
    model = ir.from_onnx_text(TEXT)
    scopes = ["['', 'mlp', 'mlp.fc', 't']", "['', 'mlp', 'mlp.fc', 'm']", "['', 'mlp', 'mlp.act', 'r']", "['', 'a']"]
    for node, scope in zip(model.graph, [*scopes, "['', 'head', 'n']"], strict=True):
        node.metadata_props[KEY] = scope
    return model


def test_names_are_those_of_modules(
    scoped: ir.Model, assert_same: Callable[..., None], feeds: Mapping[str, Array]
) -> None:
    result = NameTensors()(scoped)
    assert result.modified
    names = [node.outputs[0].name for node in result.model.graph]
    assert names == ["weight.T", "mlp.fc", "mlp.act", "Add", "out"]
    assert [node.name for node in result.model.graph] == ["weight.T", "mlp.fc", "mlp.act", "Add", "head"]
    assert_same(ir.from_onnx_text(TEXT), result.model, feeds)


def test_without_scopes_nothing_is_claimed() -> None:
    assert not NameTensors()(ir.from_onnx_text(TEXT)).modified


def test_names_stay_unique(scoped: ir.Model) -> None:
    """Two nodes of one kind in one module, one of them with a name that is taken."""
    nodes = list(scoped.graph)
    for node in nodes[1:4]:
        node.metadata_props[KEY] = "['', 'mlp', 'mlp.fc', 'x']"
    NameTensors()(scoped)
    names = [value.name for node in scoped.graph for value in node.outputs]
    assert len(set(names)) == len(names)


def test_every_module_of_the_model_is_found(traced: ir.Model, checkpoint: Checkpoint, ref: Reference) -> None:
    names = {value.name for node in traced.graph for value in node.outputs}
    for block in range(2):
        for layer in ("norm1", "attn.q", "attn.k", "attn.v", "attn.proj", "norm2", "mlp.fc1", "mlp.act", "mlp.fc2"):
            assert f"blocks.{block}.{layer}" in names
    assert {"patch_embed.proj", "norm"} <= names
    assert not any(str(name).startswith(("val_", "linear_")) for name in names)
