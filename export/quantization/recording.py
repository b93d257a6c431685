"""A quantized graph to a complete model file: golden outputs, tolerance, what was done and why."""

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir as ir

from vit_edge import __version__
from vit_edge.accuracy import Evaluation
from vit_edge.export.errors import QuantizationError
from vit_edge.export.model_file import save, write_manifest
from vit_edge.export.quantization.calibration import ImageSet, Synthetic
from vit_edge.export.quantization.layerwise import LayerReport
from vit_edge.export.quantization.noise import perturbation_band
from vit_edge.export.quantization.result import Made
from vit_edge.export.quantization.schemes import W8A16, Int4, Int8, Int8Dynamic, Int8Qdq, Scheme
from vit_edge.runtime.golden import golden_images
from vit_edge.runtime.manifest import Golden, Manifest
from vit_edge.runtime.preprocess import normalise
from vit_edge.runtime.session import open_session

__all__ = ["record_accuracy", "write_file"]

_LEAST_TOLERANCE = 1e-5  # as that of a float file
_BAND_IMAGES = 4
_BAND_FACTOR = 2.0  # the band is measured with few draws; errors between machines are as large, not as many
# A small model may not flip one rounding in all draws, and still do so on another machine; what that does is no more
# than what all roundings together do, the error of quantization itself.
_ROUNDED_ACTIVATIONS = (Int8, Int8Dynamic, Int8Qdq, W8A16)


def write_file(path: Path, made: Made, source: Manifest, scheme: Scheme, images: ImageSet) -> Manifest:
    """Write the graph with a manifest of its own.

    Args:
        path: in a folder of its own.
        made: the graph, and how it came about.
        source: the float file's manifest.
        scheme: that made it.
        images: that it was calibrated with.

    Raises:
        QuantizationError: rounding errors alone change its outputs beyond all measure.
    """
    graph = made.graph.clone()
    _drop_unused(graph)
    save(graph, path, ir_version=made.graph.ir_version)
    entries = dict(source.session)
    if isinstance(scheme, Int8 | Int8Dynamic | Int8Qdq):
        entries["session.dynamic_block_base"] = "4"  # 1.14 times as fast where products are small
    least = made.trial.l2 if isinstance(scheme, _ROUNDED_ACTIVATIONS) else _LEAST_TOLERANCE
    manifest = dataclasses.replace(
        source,
        model=dataclasses.replace(source.model, precision=scheme.name, kept_float=made.kept),
        golden=_golden(path, graph, source, images, least),
        session=entries,
        provenance={**source.provenance, "quantization": _provenance(made, source, scheme, images)},
        external_data=None,
        batch_dependent=isinstance(scheme, Int8Dynamic),
    )
    return write_manifest(path, manifest)


def _drop_unused(graph: ir.Model) -> None:
    """Weights that their integers have replaced."""
    for name, value in list(graph.graph.initializers.items()):
        if not tuple(value.uses()) and not value.is_graph_output():
            del graph.graph.initializers[name]


def _golden(path: Path, graph: ir.Model, source: Manifest, images: ImageSet, least: float) -> Golden:
    """What this file gives here, each image alone, and how much rounding errors move that."""
    spec = source.input.preprocess
    synthetic = normalise(golden_images(source.golden.count, *spec.size, spec.channels), spec)
    session = open_session(path)
    name = session.get_inputs()[0].name
    outputs = [session.run(None, {name: image[None]})[0].ravel() for image in synthetic]
    real = np.stack(list(images.subset(images.evenly(_BAND_IMAGES)).images()))
    band = max(perturbation_band(graph, synthetic), perturbation_band(graph, real))
    tolerance = float(f"{max(least, _LEAST_TOLERANCE, _BAND_FACTOR * band):.2g}")
    if tolerance >= 1:
        raise QuantizationError(f"rounding errors alone change its outputs by {band:.0%}: no golden check could hold")
    return dataclasses.replace(
        source.golden, outputs=tuple(tuple(map(float, output)) for output in outputs), tolerance=tolerance
    )


def _provenance(made: Made, source: Manifest, scheme: Scheme, images: ImageSet) -> dict[str, Any]:
    return {
        "vit_edge": __version__,
        "scheme": scheme.name,
        "settings": {**dataclasses.asdict(scheme), "target": dataclasses.asdict(scheme.target)},
        "source_content_sha256": source.content_sha256,
        "calibration": {
            "images": len(images),
            "synthetic": isinstance(images, Synthetic),
            "sha256": images.sha256(),
        },
        "agreement": made.trial.agreement,
        "l2": _rounded(made.trial.l2),
        "trial_images": made.trial.n,
        "target_reached": made.reached,
        "found": made.found,
        "layers": [
            {
                "name": each.name,
                "damage": _rounded(each.damage),
                "max": _rounded(each.largest),
                "p999": _rounded(each.p999),
                "found": each.found,
                "decision": each.decision,
                "bytes": _layer_bytes(each, scheme),
            }
            for each in made.layers
        ],
    }


def _layer_bytes(layer: LayerReport, scheme: Scheme) -> int:
    bits = 32 if layer.decision == "float" else 4 if isinstance(scheme, Int4) else 8
    return layer.weights * bits // 8


def _rounded(number: float) -> float:
    return float(f"{number:.3g}")


def record_accuracy(path: Path, manifest: Manifest, evaluation: Evaluation) -> Manifest:
    """Add the verdict on labelled images to a written file's manifest."""
    provenance = {**manifest.provenance, "accuracy": _accuracy(evaluation)}
    return write_manifest(path, dataclasses.replace(manifest, provenance=provenance))


def _accuracy(evaluation: Evaluation) -> Mapping[str, object]:
    both = evaluation.comparison
    assert both is not None
    return {
        "images": len(evaluation.data),
        "agreement": dataclasses.asdict(both.agreement),
        "paired": dataclasses.asdict(both.paired) if both.paired else None,
        "verdict": dataclasses.asdict(both.verdict) if both.verdict else None,
    }
