"""Folds and splits are exact, are found where they can be, and nowhere else."""

import numpy as np
import onnx_ir as ir
import pytest

from vit_edge.export.quantization.folding import apply_scales, balanced_scales, foldable
from vit_edge.export.quantization.linears import find_linears, find_sites
from vit_edge.export.quantization.splitting import hidden_layer, split_channels
from vit_edge.export.quantization.trial import run

# One activation that feeds a layer and a graph output: nothing may be folded there.
SHARED = """
<ir_version: 10, opset_import: ["" : 23]>
g (float[2, 3, 4] x) => (float[2, 3, 2] y, float[2, 3, 4] z)
<float[4] s = {1, 2, 3, 4}, float[4] b = {0, 1, 0, 1}, float[4, 2] w = {1, 2, 3, 4, 5, 6, 7, 8}>
{
  z = LayerNormalization <axis = -1> (x, s, b)
  y = MatMul (z, w)
}
"""


def test_all_linears_of_a_vit_are_found(graph: ir.Model) -> None:
    names = [site.name for site in find_sites(graph.graph)]
    mlp = ["attn.proj", "mlp.fc1", "mlp.fc2"]
    first, last = ["attn.qkv", *mlp], ["attn.kv", "attn.q", *mlp]  # its queries are those of the class token alone
    assert sorted(names) == sorted(
        [f"blocks.0.{name}" for name in first] + [f"blocks.1.{name}" for name in last] + ["head"]
    )
    assert all(linear.bias is not None for linear in find_linears(graph.graph))


def test_scales_are_powers_of_two_that_even_out_the_channels() -> None:
    peak = np.array([1, 64, 1 / 64, 0], np.float32)
    t = balanced_scales(peak, np.ones((4, 2), np.float32), alpha=1.0)
    assert np.log2(t).tolist() == np.rint(np.log2(t)).tolist()
    assert (peak[:3] / t[:3]).tolist() == [1, 1, 1]
    assert np.isfinite(t).all()


@pytest.mark.parametrize("name", ["0.attn.qkv", "1.attn.q", "1.attn.kv", "1.attn.proj", "1.mlp.fc1"])
def test_folds_change_no_bit(graph: ir.Model, inputs: np.ndarray, name: str) -> None:
    site = next(site for site in find_sites(graph.graph) if site.name == f"blocks.{name}")
    assert foldable(graph.graph, site) is not None
    scales = np.exp2(np.random.default_rng(0).integers(-6, 7, len(site.weight))).astype(np.float32)
    folded = apply_scales(graph, {site.name: scales})
    before, after = run(graph, inputs[:6]), run(folded, inputs[:6])
    assert before.std(axis=0).min() > 0.05
    np.testing.assert_array_equal(after, before)
    moved = next(each for each in find_sites(folded.graph) if each.name == site.name)
    np.testing.assert_array_equal(moved.weight, site.weight * scales[:, None])


def test_nothing_is_folded_behind_gelu_or_where_others_read(graph: ir.Model) -> None:
    fc2 = next(site for site in find_sites(graph.graph) if site.name == "blocks.0.mlp.fc2")
    assert foldable(graph.graph, fc2) is None
    shared = ir.from_onnx_text(SHARED)
    assert foldable(shared.graph, find_sites(shared.graph)[0]) is None


@pytest.mark.parametrize("name", ["0.attn.qkv", "1.attn.q", "1.attn.kv", "1.attn.proj", "1.mlp.fc1", "1.mlp.fc2"])
def test_splits_are_exact(graph: ir.Model, inputs: np.ndarray, name: str) -> None:
    site = f"blocks.{name}"
    split = split_channels(graph, site, [3, 5])
    before, after = run(graph, inputs[:6]), run(split, inputs[:6])
    # The order of a sum changes: float32 rounding, as in the parity gate
    assert np.abs(after - before).max() <= 2e-5 * np.abs(before).max()
    weight = next(each for each in find_sites(split.graph) if each.name == site).weight
    assert not weight[[3, 5]].any()
    assert weight[4].any()


def test_the_hidden_layer_gives_its_split_channels_apart(graph: ir.Model) -> None:
    site = next(each for each in find_sites(graph.graph) if each.name == "blocks.0.mlp.fc2")
    assert hidden_layer(graph.graph, site) is not None
    split = split_channels(graph, site.name, [7])
    fc1 = next(each for each in find_linears(split.graph) if each.name == "blocks.0.mlp.fc1")
    assert fc1.bias is not None
    assert not fc1.weight[:, 7].any()
    assert fc1.bias[7] == 0
    assert not [node for node in split.graph if node.op_type == "Gather" and ".outliers" in str(node.name)]


def test_a_wrong_remedy_is_noticed(graph: ir.Model, inputs: np.ndarray) -> None:
    """The canary: outputs do change if the channels' part is lost."""
    split = split_channels(graph, "blocks.1.mlp.fc2", [3, 5])
    part = next(v for name, v in split.graph.initializers.items() if "rows.weight" in name)
    part.const_value = ir.tensor(np.zeros_like(part.const_value.numpy()), name=part.name)
    before, after = run(graph, inputs[:6]), run(split, inputs[:6])
    assert np.abs(after - before).max() > 1e-3 * np.abs(before).max()
