"""`verify`: an unchanged file passes, and whatever was changed is named."""

import dataclasses
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from vit_edge.checkpoints import Checkpoint, load_checkpoint
from vit_edge.export import ExportOptions, ExportReport, export, verify
from vit_edge.export.model_file import write_manifest
from vit_edge.runtime.errors import ConfigError
from vit_edge.runtime.golden import golden_images
from vit_edge.runtime.manifest import Manifest, read_manifest
from vit_edge.runtime.onnxfile import read
from vit_edge.runtime.predictor import Predictor
from vit_edge.runtime.preprocess import normalise
from vit_edge.runtime.selftest import Finding, self_test


def outcome(findings: Sequence[Finding]) -> dict[str, bool]:
    return {finding.check: finding.passed for finding in findings}


def detail(findings: Sequence[Finding], check: str) -> str:
    return next(finding.detail for finding in findings if finding.check == check)


def altered(report: ExportReport, path: Path, weight: str, factor: float = 1.01) -> Path:
    """One number of one weight multiplied: the largest, so that it is not next to nothing."""
    proto = onnx.load(report.path)
    (tensor,) = [each for each in proto.graph.initializer if each.name.removesuffix(".T") == weight]
    values = numpy_helper.to_array(tensor).copy()
    values.flat[np.abs(values).argmax()] *= factor
    tensor.CopyFrom(numpy_helper.from_array(values, tensor.name))
    path.write_bytes(proto.SerializeToString())
    return path


def forged(path: Path) -> Path:
    """Content hash and golden outputs made anew, so that the file agrees with itself."""
    manifest = read_manifest(read(path))
    images = normalise(golden_images(2, 24, 16, 3), manifest.input.preprocess)
    predictor = Predictor(path, check=False)
    outputs = tuple(tuple(map(float, predictor.logits(image[None])[0])) for image in images)
    golden = dataclasses.replace(manifest.golden, outputs=outputs)
    write_manifest(path, dataclasses.replace(manifest, golden=golden))
    assert all(finding.passed for finding in self_test(path))
    return path


def test_unchanged_file_passes(report: ExportReport, checkpoint: Checkpoint) -> None:
    steps: list[str] = []
    findings = verify(report.path, report.manifest, checkpoint, progress=steps.append)
    assert outcome(findings) == dict.fromkeys(["architecture", "checkpoint", "weights", "outputs", "tensors"], True)
    assert detail(findings, "weights") == f"{len(checkpoint.model.state_dict())} tensors equal"
    assert steps == ["weights", "outputs", "named tensors"]


@pytest.mark.parametrize(
    "weight", ["blocks.1.mlp.fc2.weight", "blocks.0.attn.k.bias", "blocks.1.norm2.weight", "pos_embed", "cls_token"]
)
@pytest.mark.parametrize("forge", [False, True], ids=["plain", "forged"])
def test_one_number_changed_by_a_hundredth_is_named(
    weight: str, forge: bool, report: ExportReport, checkpoint: Checkpoint, tmp_path: Path
) -> None:
    path = altered(report, tmp_path / "altered.onnx", weight)
    if forge:
        forged(path)
    else:
        assert not self_test(path)[0].passed
    findings = verify(path, read_manifest(read(path)), checkpoint)
    assert not outcome(findings)["weights"]
    assert detail(findings, "weights") == f"differ from the checkpoint: {weight}"


def test_larger_change_is_named_by_its_tensor_as_well(
    report: ExportReport, checkpoint: Checkpoint, tmp_path: Path
) -> None:
    path = altered(report, tmp_path / "altered.onnx", "blocks.1.mlp.fc2.weight", factor=2)
    findings = verify(path, report.manifest, checkpoint)
    assert outcome(findings) == {
        "architecture": True,
        "checkpoint": True,
        "weights": False,
        "outputs": False,
        "tensors": False,
    }
    assert detail(findings, "tensors").startswith("first diverging tensor: blocks.1.mlp.fc2[0] (max|Δ|")


def test_other_checkpoint_of_the_same_architecture(report: ExportReport, make_checkpoint: Callable[..., Path]) -> None:
    other = load_checkpoint(make_checkpoint(seed=1))
    findings = verify(report.path, report.manifest, other)
    assert outcome(findings) == {
        "architecture": True,
        "checkpoint": False,
        "weights": False,
        "outputs": False,
        "tensors": False,
    }
    assert detail(findings, "checkpoint").startswith(f"exported from {report.manifest.model.source_sha256[:12]}, got ")
    assert " and 34 more" in detail(findings, "weights")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"heads": 4}, "heads 2 in the file, 4 here"),
        ({"depth": 1}, "depth 2 in the file, 1 here"),
        ({"image_size": [16, 16]}, "image_size [24, 16] in the file, [16, 16] here"),
        ({"norm_eps": 1e-5}, "norm_eps 1e-06 in the file, 1e-05 here"),
    ],
)
def test_other_architecture_is_named_and_nothing_else_compared(
    changes: dict[str, object], message: str, report: ExportReport, make_checkpoint: Callable[..., Path]
) -> None:
    findings = verify(report.path, report.manifest, load_checkpoint(make_checkpoint(**changes)))
    assert outcome(findings) == {"architecture": False, "checkpoint": False}
    assert detail(findings, "architecture") == message


def test_probabilities(quick: None, checkpoint: Checkpoint, tmp_path: Path) -> None:
    made = export(checkpoint, tmp_path / "m.onnx", ExportOptions(output="probabilities"))
    assert all(outcome(verify(made.path, made.manifest, checkpoint)).values())


@pytest.mark.slow
def test_computed_positions_are_compared_too(make_checkpoint: Callable[..., Path], tmp_path: Path) -> None:
    """They are in the file, but in no checkpoint."""
    loaded = load_checkpoint(make_checkpoint(positions="sincos"))
    made = export(loaded, tmp_path / "m.onnx")
    assert all(outcome(verify(made.path, made.manifest, loaded)).values())
    path = altered(made, tmp_path / "altered.onnx", "pos_embed")
    assert detail(verify(path, made.manifest, loaded), "weights") == "differ from the checkpoint: pos_embed"


@pytest.mark.slow
def test_weights_that_are_folded_away_are_told(make_checkpoint: Callable[..., Path], tmp_path: Path) -> None:
    """Adding zeros computes nothing, so the bias is not in the file."""
    loaded = load_checkpoint(make_checkpoint())
    loaded.model.get_parameter("blocks.0.attn.proj.bias").zero_()
    made = export(loaded, tmp_path / "m.onnx")
    findings = verify(made.path, made.manifest, loaded)
    assert all(outcome(findings).values())
    assert detail(findings, "weights").endswith("tensors equal, folded into others: blocks.0.attn.proj.bias")


def test_adopted_map_has_no_checkpoint(report: ExportReport, checkpoint: Checkpoint) -> None:
    kind = dataclasses.replace(report.manifest.output, kind="map", shape=(1, report.manifest.output.classes))
    manifest: Manifest = dataclasses.replace(report.manifest, output=kind)
    with pytest.raises(ConfigError, match="there is no checkpoint to compare it with"):
        verify(report.path, manifest, checkpoint)
