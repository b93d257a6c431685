"""The first diverging tensor is found by its module's name."""

from pathlib import Path

import onnx_ir as ir
import pytest

from vit_edge.checkpoints import Checkpoint
from vit_edge.export import ExportReport
from vit_edge.export.divergence import INTERMEDIATE_TOLERANCE, first_divergence, named_deviations
from vit_edge.export.model_file import save
from vit_edge.export.parity import Reference


def change(model: ir.Model, name: str, factor: float, index: tuple[int, ...] = ...) -> ir.Model:  # type: ignore[assignment]
    """Multiply one number, or all, of one weight."""
    weight = model.graph.initializers[name]
    assert weight.const_value is not None
    values = weight.const_value.numpy().copy()
    values[index] *= factor
    weight.const_value = ir.tensor(values, name=name)
    return model


def test_unchanged_file_has_none(report: ExportReport, checkpoint: Checkpoint, ref: Reference) -> None:
    assert first_divergence(report.path, checkpoint.model, ref.images[:2]) is None


def test_all_layers_are_compared(report: ExportReport, checkpoint: Checkpoint, ref: Reference) -> None:
    found = named_deviations(report.path, checkpoint.model, ref.images[:1])
    names = [each.tensor for each in found]
    layers = ("norm1", "attn.q", "attn.k", "attn.v", "attn.proj", "norm2", "mlp.fc1", "mlp.act", "mlp.fc2")
    assert names.index("blocks.0") < names.index("blocks.1.norm1"), "in the order of execution"
    last = {"norm1", "attn.k", "attn.v"}  # of all tokens; the others of the class token alone
    assert {f"blocks.0.{layer}" for layer in layers} <= set(names)
    assert {f"blocks.1.{layer}" for layer in last} | {f"blocks.1.{layer}[0]" for layer in set(layers) - last} <= set(
        names
    )
    assert all(each.max_abs < INTERMEDIATE_TOLERANCE / 5 for each in found)
    assert all(each.largest > 0.1 for each in found)


def test_tokens_that_are_left_are_compared_with_their_own(
    report: ExportReport, checkpoint: Checkpoint, ref: Reference, tmp_path: Path
) -> None:
    """A graph that reads another token than its tensor's name says."""
    graph = ir.load(report.path)
    entries = graph.graph.initializers["entries[0]"]
    entries.const_value = ir.tensor([1], dtype=ir.DataType.INT64, name="entries[0]")
    found = first_divergence(save(graph, tmp_path / "changed.onnx"), checkpoint.model, ref.images[:1])
    assert found is not None
    assert found.tensor == "blocks.1.norm1[0]"


@pytest.mark.parametrize("layer", ["patch_embed.proj", "blocks.0.attn.q", "blocks.0.norm2", "blocks.1.mlp.fc2", "norm"])
def test_changed_layer_is_named(
    layer: str, traced: ir.Model, checkpoint: Checkpoint, ref: Reference, tmp_path: Path
) -> None:
    path = save(change(traced, f"{layer}.weight", 1.05), tmp_path / "changed.onnx")
    found = first_divergence(path, checkpoint.model, ref.images[:1])
    assert found is not None
    assert found.tensor == layer
    assert found.max_abs == pytest.approx(0.05, abs=0.05)
    assert str(found).startswith(f"{layer} (max|Δ| ")


def test_changed_head_leaves_the_named_tensors_equal(
    traced: ir.Model, checkpoint: Checkpoint, ref: Reference, tmp_path: Path
) -> None:
    """Its tensor is the graph's output, which the parity check itself looks at."""
    path = save(change(traced, "head.weight", 2.0), tmp_path / "changed.onnx")
    assert first_divergence(path, checkpoint.model, ref.images[:1]) is None


def test_other_shape_is_a_divergence(traced: ir.Model, checkpoint: Checkpoint, ref: Reference, tmp_path: Path) -> None:
    """A tensor that bears a module's name and has another shape."""
    names = {str(value.name): value for node in traced.graph for value in node.outputs}
    names["norm"].name = "other"
    names["patch_embed.proj"].name = "norm"
    found = first_divergence(save(traced, tmp_path / "renamed.onnx"), checkpoint.model, ref.images[:1])
    assert found is not None
    assert (found.tensor, found.max_abs) == ("norm", float("inf"))


def test_model_is_float32_again_afterwards(report: ExportReport, checkpoint: Checkpoint, ref: Reference) -> None:
    before = {name: tensor.clone() for name, tensor in checkpoint.model.state_dict().items()}
    first_divergence(report.path, checkpoint.model, ref.images[:1])
    for name, tensor in checkpoint.model.state_dict().items():
        assert tensor.equal(before[name])
