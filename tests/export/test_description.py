"""The manifest of an exported file: all of it, and true."""

import importlib.metadata
from pathlib import Path

import numpy as np
import pytest
import torch

from vit_edge import __version__
from vit_edge.checkpoints import Checkpoint
from vit_edge.export import ExportReport
from vit_edge.runtime.golden import golden_images
from vit_edge.runtime.manifest import read_manifest
from vit_edge.runtime.onnxfile import file_sha256, read
from vit_edge.runtime.preprocess import normalise


def test_report_has_the_manifest_that_is_in_the_file(report: ExportReport) -> None:
    assert read_manifest(read(report.path)) == report.manifest


def test_model(report: ExportReport, checkpoint: Checkpoint, checkpoint_file: Path) -> None:
    model = report.manifest.model
    assert (model.name, model.source_format, model.precision) == ("small", "vit-edge", "fp32")
    assert model.architecture == checkpoint.model.config.to_dict()
    assert model.parameters == sum(weight.numel() for weight in checkpoint.model.parameters())
    assert model.source_sha256 == file_sha256(checkpoint_file)


def test_input_and_output(report: ExportReport, checkpoint: Checkpoint) -> None:
    manifest = report.manifest
    assert (manifest.input.name, manifest.input.mode) == ("images", "float")
    assert manifest.input.preprocess == checkpoint.preprocess
    assert (manifest.output.name, manifest.output.kind, manifest.output.classes) == ("logits", "logits", 5)
    assert manifest.labels == ("ant", "bee", "cat", "dog", "eel")
    assert manifest.minimum_runtime == "1.23"
    assert manifest.external_data is None


def test_golden_outputs_are_those_of_the_model_in_double_precision(
    report: ExportReport, checkpoint: Checkpoint
) -> None:
    golden, spec = report.manifest.golden, report.manifest.input.preprocess
    images = torch.from_numpy(normalise(golden_images(golden.count, 24, 16, 3), spec)).double()
    expected = checkpoint.model.double()(images).numpy().astype(np.float32)
    checkpoint.model.float()
    assert expected.std(axis=0).min() > 0.01
    np.testing.assert_array_equal(np.float32(golden.outputs), expected)


def test_provenance(report: ExportReport) -> None:
    provenance = report.manifest.provenance
    assert provenance["vit_edge"] == __version__
    libraries = provenance["libraries"]
    assert isinstance(libraries, dict)
    assert libraries["torch"] == importlib.metadata.version("torch")
    assert (provenance["opset"], provenance["rewrites"]) == (23, {"fused": 2, "attentions": 2, "last_block": [0]})
    assert provenance["nodes"] == sum(read(report.path).op_counts.values())
    passes = provenance["passes"]
    assert isinstance(passes, list)
    assert [each["name"] for each in passes] == [record.name for record in report.passes]
    assert provenance["parity_images"] == {"real": 0, "batches": [1, 2, 3, 7]}


def test_provenance_has_parity_as_a_rounded_number(report: ExportReport) -> None:
    """One digit: what is below it is noise of this machine."""
    parity = report.manifest.provenance["parity"]
    assert isinstance(parity, dict)
    assert sorted(parity) == ["simplified", "traced"]
    assert float(parity["traced"]["max_abs"]) == pytest.approx(report.parity[0].max_abs, rel=0.5)
