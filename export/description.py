"""What an exported file says about itself."""

import dataclasses
import importlib.metadata
from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx_ir as ir

from vit_edge import __version__
from vit_edge.checkpoints import Checkpoint
from vit_edge.export.options import ExportOptions
from vit_edge.export.parity import BATCHES, StageParity, run_double
from vit_edge.export.pipeline import PassRecord
from vit_edge.export.rewrites import find_rewrites
from vit_edge.export.tracing import INPUT_NAME
from vit_edge.runtime.golden import GOLDEN_SET, golden_images
from vit_edge.runtime.manifest import Golden, InputInfo, Manifest, ModelInfo, OutputInfo
from vit_edge.runtime.minimum_runtime import BY_OPSET
from vit_edge.runtime.preprocess import Preprocess, normalise

__all__ = ["describe"]

_GOLDEN_COUNT = 2
# Against float64, on the same machine and on others: onnxruntime's float32 was seen 1.7e-6 off, Arm and wasm 1.4e-6
# off x86. Five times that; a changed weight or another preprocessing moves the outputs by far more.
_GOLDEN_TOLERANCE = 1e-5
_LIBRARIES = ("torch", "onnx", "onnx-ir", "onnxscript", "onnxsim", "onnxruntime", "numpy")


def describe(
    checkpoint: Checkpoint,
    options: ExportOptions,
    graph: ir.Model,
    parity: Sequence[StageParity],
    passes: Sequence[PassRecord],
) -> Manifest:
    """Everything the file says about itself, but for the hashes."""
    assert options.preprocess is not None
    assert options.labels is not None
    assert options.output is not None
    config = checkpoint.model.config
    return Manifest(
        model=ModelInfo(
            name=checkpoint.name,
            architecture=config.to_dict(),
            parameters=sum(parameter.numel() for parameter in checkpoint.model.parameters()),
            source_sha256=checkpoint.sha256,
            source_format=checkpoint.format,
            assumptions=checkpoint.notes,
        ),
        input=InputInfo(name=INPUT_NAME, mode="float", preprocess=options.preprocess),
        output=OutputInfo(name=str(graph.graph.outputs[0].name), kind=options.output, classes=config.outputs),
        labels=options.labels,
        golden=_golden(checkpoint, options.preprocess, probabilities=options.output == "probabilities"),
        provenance=_provenance(checkpoint, options, graph, parity, passes),
        minimum_runtime=BY_OPSET[options.opset],
        session={},
        content_sha256="0" * 64,
    )


def _golden(checkpoint: Checkpoint, spec: Preprocess, *, probabilities: bool) -> Golden:
    images = normalise(golden_images(_GOLDEN_COUNT, *spec.size, spec.channels), spec)
    double = run_double(checkpoint.model, images, probabilities=probabilities)
    outputs = double.astype(np.float32).reshape(_GOLDEN_COUNT, -1)
    return Golden(
        set_id=GOLDEN_SET,
        count=_GOLDEN_COUNT,
        outputs=tuple(tuple(map(float, row)) for row in outputs),
        tolerance=_GOLDEN_TOLERANCE,
    )


def _provenance(
    checkpoint: Checkpoint,
    options: ExportOptions,
    graph: ir.Model,
    parity: Sequence[StageParity],
    passes: Sequence[PassRecord],
) -> dict[str, Any]:
    """How the file was made; no time and no path, so that the same export gives the same bytes."""
    return {
        "vit_edge": __version__,
        "libraries": {name: importlib.metadata.version(name) for name in _LIBRARIES},
        "opset": options.opset,
        "rewrites": dataclasses.asdict(find_rewrites(graph.graph)),
        "nodes": len(graph.graph),
        "passes": [
            {"name": record.name, "nodes_before": record.nodes_before, "nodes_after": record.nodes_after}
            for record in passes
        ],
        "parity": {each.stage: {"max_abs": f"{each.max_abs:.0e}", "l2": f"{each.l2:.0e}"} for each in parity},
        "parity_images": {"real": min(len(options.images), max(BATCHES)), "batches": list(BATCHES)},
        "preprocess_origin": options.preprocess_origin,
        "checkpoint": dict(checkpoint.about),
        "load_options": {"arch": checkpoint.options.arch, "heads": checkpoint.options.heads},
    }
