"""The gate lets right graphs through and nothing else: every test but the first kind is a canary."""

import dataclasses
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx_ir as ir
import pytest
import torch
from torch import Tensor, nn

from vit_edge.checkpoints import Checkpoint
from vit_edge.export import ExportReport
from vit_edge.export.errors import ExportError, ParityError
from vit_edge.export.model_file import save
from vit_edge.export.parity import BATCHES, TOLERANCES, Reference, check_parity, deviation, reference
from vit_edge.runtime.golden import check_golden, golden_images
from vit_edge.runtime.predictor import Predictor
from vit_edge.runtime.preprocess import normalise

Save = Callable[[ir.Model], Path]


@pytest.fixture
def saved(tmp_path: Path) -> Save:
    return lambda model: save(model, tmp_path / "graph.onnx")


def insert_before_output(model: ir.Model, text: str, out: str = "float[batch, 5]") -> ir.Model:
    """Compute `out` from `logits` with nodes given as ONNX text, and make it the graph's output."""
    head = '<ir_version: 10, opset_import: ["" : 23]> net (float[batch, 5] logits)'
    tail = ir.from_onnx_text(f"{head} => ({out} out) {text}")
    (logits,) = model.graph.outputs
    for name in list(tail.graph.initializers):
        model.graph.register_initializer(tail.graph.initializers.pop(name))
    nodes = list(tail.graph)
    tail.graph.remove(nodes)
    tail.graph.outputs.clear()
    for node in nodes:
        for index, value in enumerate(node.inputs):
            if value is not None and value.name == "logits":
                node.replace_input_with(index, logits)
    model.graph.extend(nodes)
    model.graph.outputs[0] = nodes[-1].outputs[0]
    return model


@pytest.mark.parametrize("stage", sorted(TOLERANCES))
def test_right_graph_passes(stage: str, traced: ir.Model, ref: Reference, saved: Save) -> None:
    found = check_parity(saved(traced), ref, stage)
    assert found.stage == stage
    assert 0 < found.max_abs < TOLERANCES[stage].max_abs / 4
    assert 0 < found.l2 < TOLERANCES[stage].l2 / 4
    assert found.batch_mates < TOLERANCES[stage].max_abs / 4
    assert found.images_compared == 2 * sum(BATCHES)
    assert str(found).startswith(f"{stage}: max|Δ| ")


def test_finished_file_passes(report: ExportReport, ref: Reference) -> None:
    assert [each.stage for each in report.parity] == ["traced", "simplified", "file"]
    check_parity(report.path, ref, "file")


@pytest.mark.parametrize("name", ["blocks.1.mlp.fc2.weight", "blocks.0.attn.q.bias", "pos_embed", "head.weight"])
def test_one_perturbed_weight_fails(name: str, traced: ir.Model, ref: Reference, saved: Save) -> None:
    weight = traced.graph.initializers[name]
    assert weight.const_value is not None
    values = weight.const_value.numpy().copy()
    values.flat[values.size // 2] += 0.1
    weight.const_value = ir.tensor(values, name=name)
    expected = r"traced graph, batch 1, optimisation none, image 1: max\|Δ\| .* of the PyTorch outputs, allowed 2e-05"
    with pytest.raises(ParityError, match=expected) as raised:
        check_parity(saved(traced), ref, "traced")
    assert raised.value.__cause__ is None


def test_swapped_mean_and_std_fail(report: ExportReport) -> None:
    """The golden images go through the manifest's own normalisation."""
    predictor = Predictor(report.path, check=False)
    assert check_golden(report.manifest, predictor.logits).passed
    spec = report.manifest.input.preprocess
    swapped = dataclasses.replace(spec, mean=spec.std, std=spec.mean)
    taken = dataclasses.replace(report.manifest.input, preprocess=swapped)
    found = check_golden(dataclasses.replace(report.manifest, input=taken), predictor.logits)
    assert not found.passed
    assert found.worst > 1e-2


@pytest.mark.parametrize("size", [1, 2, 7])
def test_baked_in_batch_fails_and_says_which(size: int, traced: ir.Model, ref: Reference, saved: Save) -> None:
    shape = f"<int64[2] shape = {{{size}, 5}}> {{ out = Reshape (logits, shape) }}"
    broken = 1 if size != 1 else 2
    with pytest.raises(ParityError, match=rf"traced graph, batch {broken}, optimisation none: does not run") as raised:
        check_parity(saved(insert_before_output(traced, shape)), ref, "traced")
    assert raised.value.__cause__ is not None


def test_baked_in_batch_that_broadcasts_fails(traced: ir.Model, ref: Reference, saved: Save) -> None:
    zeros = "<float[3, 1] zeros = {0, 0, 0}> { out = Add (logits, zeros) }"
    with pytest.raises(ParityError, match=r"batch 1, .*: gives \(3, 5\) float32, expected \(1, 5\) float32"):
        check_parity(saved(insert_before_output(traced, zeros)), ref, "traced")


def test_mixing_batch_mates_fails_and_is_told_apart(traced: ir.Model, ref: Reference, saved: Save) -> None:
    """A mean over the batch is the image itself at batch 1, so only larger batches show it."""
    mixed = """<float[1] small = {0.01}, int64[1] first = {0}> {
        mean = ReduceMean <keepdims = 1> (logits, first)
        difference = Sub (mean, logits)
        moved = Mul (difference, small)
        out = Add (logits, moved)
    }"""
    with pytest.raises(ParityError, match=r"batch 2, .*: the graph mixes the images of a batch"):
        check_parity(saved(insert_before_output(traced, mixed)), ref, "traced")


def test_mixing_below_the_tolerance_fails_too(traced: ir.Model, ref: Reference, saved: Save) -> None:
    """Alone it is 1.5e-5 too high, among others 1.5e-5 too low: each is allowed, the change is not."""
    image = int(np.abs(ref.double).max(axis=1).argmax())
    move = 1.5e-5 * float(np.abs(ref.double[image]).max())
    changing = f"""<float[1, 5] high = {{{move:.9f}, 0, 0, 0, 0}}, float[1, 5] low = {{{-move:.9f}, 0, 0, 0, 0}},
        int64[1] one = {{1}}, int64[1] zero = {{0}}> {{
        shape = Shape (logits)
        batch = Slice (shape, zero, one, zero)
        alone = Equal (batch, one)
        move = Where (alone, high, low)
        out = Add (logits, move)
    }}"""
    same = [image] * 7
    steady = Reference(ref.images[same], ref.single[same], ref.double[same])
    with pytest.raises(ParityError, match=r"traced graph: an image's outputs change by 3\.\de-05 with its batch mates"):
        check_parity(saved(insert_before_output(traced, changing)), steady, "traced")


def test_nan_fails(traced: ir.Model, ref: Reference, saved: Save) -> None:
    nan = "<float[1] zero = {0}> { zeros = Mul (logits, zero) nan = Div (zeros, zeros) out = Add (logits, nan) }"
    with pytest.raises(ParityError, match=re.escape("max|Δ| inf")):
        check_parity(saved(insert_before_output(traced, nan)), ref, "traced")


def test_wrong_type_and_shape_fail(traced: ir.Model, ref: Reference, saved: Save) -> None:
    wide = insert_before_output(traced.clone(), "{ out = Cast <to = 11> (logits) }", "double[batch, 5]")
    with pytest.raises(ParityError, match=r"gives \(1, 5\) float64, expected \(1, 5\) float32"):
        check_parity(saved(wide), ref, "traced")
    flat = insert_before_output(traced, "<int64[1] all = {-1}> { out = Reshape (logits, all) }", "float[n]")
    with pytest.raises(ParityError, match=r"gives \(5,\) float32, expected \(1, 5\) float32"):
        check_parity(saved(flat), ref, "traced")


def test_swapped_classes_fail(traced: ir.Model, ref: Reference, saved: Save) -> None:
    swapped = "<int64[5] order = {1, 0, 2, 3, 4}> { out = Gather <axis = 1> (logits, order) }"
    with pytest.raises(ParityError):
        check_parity(saved(insert_before_output(traced, swapped)), ref, "traced")


def test_other_class_within_the_tolerance_fails(traced: ir.Model, ref: Reference, saved: Save) -> None:
    """A quantized graph may bring a wide tolerance of its own; its class still has to be right."""
    wide = dataclasses.replace(TOLERANCES["traced"], max_abs=0.01, l2=1.0)
    assert check_parity(saved(traced.clone()), ref, "traced", own_tolerance=wide).max_abs < 1e-5
    rows = ref.double.copy()
    margin = np.abs(rows).max(axis=1) * 0.03  # beyond twice the tolerance
    order = np.argsort(rows, axis=1)
    rows[np.arange(7), order[:, -1]] = rows[np.arange(7), order[:, -2]] - margin
    moved = dataclasses.replace(ref, double=rows)
    with pytest.raises(ParityError):
        check_parity(saved(traced), moved, "traced", own_tolerance=wide)


def test_graph_that_does_not_load_fails(ref: Reference, tmp_path: Path) -> None:
    path = tmp_path / "graph.onnx"
    path.write_bytes(b"no graph")
    with pytest.raises(ParityError, match="simplified graph: onnxruntime cannot load it") as raised:
        check_parity(path, ref, "simplified")
    assert raised.value.__cause__ is not None


class Constant(nn.Module):
    """The same for all images; with a spread, nearly the same."""

    def __init__(self, spread: float) -> None:
        super().__init__()
        self.row = nn.Parameter(torch.tensor([1.0, 2.0, -3.0]))
        self.spread = spread

    def forward(self, x: Tensor) -> Tensor:
        return self.row + self.spread * x.mean(dim=(1, 2, 3), keepdim=True)[:, :, 0, 0]


@pytest.mark.parametrize("spread", [0.0, 1e-4])
def test_constant_outputs_are_refused(spread: float, ref: Reference) -> None:
    with pytest.raises(ExportError, match="hardly depend on the image"):
        reference(Constant(spread), ref.images)
    assert reference(Constant(1.0), ref.images).single.shape == (7, 3)


def test_outputs_that_are_not_finite_are_refused(ref: Reference) -> None:
    with pytest.raises(ExportError, match="not finite"):
        reference(Constant(float("nan")), ref.images)


def test_reference_has_both_precisions_and_leaves_the_model_alone(checkpoint: Checkpoint, ref: Reference) -> None:
    assert (ref.single.dtype, ref.double.dtype) == (np.float32, np.float64)
    assert ref.single.shape == ref.double.shape == (7, 5)
    np.testing.assert_allclose(ref.single, ref.double, rtol=0, atol=1e-5)
    assert not np.array_equal(ref.single, ref.double)
    assert checkpoint.model.head.weight.dtype == torch.float32
    assert checkpoint.preprocess is not None
    images = normalise(golden_images(7, 24, 16, 3), checkpoint.preprocess)
    probabilities = reference(checkpoint.model, images, probabilities=True)
    np.testing.assert_allclose(probabilities.double.sum(axis=1), 1, atol=1e-12)


def test_deviation_is_relative_to_the_largest() -> None:
    expected = np.array([3.0, -4.0])
    assert deviation(np.array([3.0, -4.4], np.float32), expected) == pytest.approx((0.1, 0.08), rel=1e-5)
    assert deviation(np.array([np.nan, 0.0]), expected) == (np.inf, np.inf)
