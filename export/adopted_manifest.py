"""What an adopted file says about itself."""

import dataclasses
import importlib.metadata
from collections.abc import Sequence
from typing import Any

import onnx_ir as ir

from vit_edge import __version__
from vit_edge.export.errors import ExportError
from vit_edge.export.foreign import Foreign
from vit_edge.export.foreign_run import precision
from vit_edge.export.parity import BATCHES, Reference, StageParity, Tolerance
from vit_edge.export.pipeline import PassRecord
from vit_edge.export.rewrites import find_rewrites
from vit_edge.runtime.golden import GOLDEN_SET
from vit_edge.runtime.manifest import Golden, ModelInfo

__all__ = ["golden", "model_info", "provenance"]

_FLOAT_TOLERANCE = 1e-5  # of a float32 graph, as in `exporter`
_TWO_IMAGES = 1 << 14  # outputs up to which two golden images are kept: 0.4 MB of manifest
_MOST = 1 << 21  # values of one output
_LIBRARIES = ("onnx", "onnx-ir", "onnxruntime", "numpy")


def model_info(foreign: Foreign, notes: Sequence[str]) -> ModelInfo:
    """Which model it is: all that is known is the file."""
    return ModelInfo(
        name=foreign.path.stem,
        architecture={},
        parameters=sum(
            value.const_value.size
            for value in foreign.graph.graph.initializers.values()
            if value.const_value is not None and value.const_value.dtype.is_floating_point()
        ),
        source_sha256=foreign.sha256,
        source_format="onnx",
        precision=precision(foreign),
        assumptions=tuple(notes),
    )


def golden(ref: Reference, tolerance: Tolerance | None) -> Golden:
    """The outputs of the foreign file for the golden images, which `ref` begins with.

    Raises:
        ExportError: an output is too large to be kept, or its noise is as large as itself.
    """
    values = ref.single[0].size
    if values > _MOST:
        raise ExportError(f"an image's output has {values:,} values, at most {_MOST:,} can be kept as golden output")
    if tolerance is not None and tolerance.max_abs >= 1:
        raise ExportError(
            f"a rounding error of the input changes the outputs by {tolerance.max_abs / 2:.0%}: they mean nothing"
        )
    count = 2 if values <= _TWO_IMAGES else 1
    return Golden(
        set_id=GOLDEN_SET,
        count=count,
        # the shortest decimals that give the same float32
        outputs=tuple(tuple(map(float, row.ravel().astype(str))) for row in ref.single[:count]),
        tolerance=tolerance.max_abs if tolerance is not None else _FLOAT_TOLERANCE,
    )


def provenance(
    foreign: Foreign,
    graph: ir.Graph,
    passes: Sequence[PassRecord],
    repairs: Sequence[str],
    parity: StageParity,
    preprocess_origin: str,
) -> dict[str, Any]:
    """How the file was made; no time and no path, so that adopting again gives the same bytes."""
    file, taken = foreign.file, foreign.input
    producer = f"{foreign.graph.producer_name or 'unknown'} {foreign.graph.producer_version or ''}".strip()
    return {
        "vit_edge": __version__,
        "libraries": {name: importlib.metadata.version(name) for name in _LIBRARIES},
        "adopted": {
            "producer": producer,
            "opsets": {domain or "ai.onnx": version for domain, version in file.opsets.items()},
            "ir_version": file.ir_version,
            "input": {"dtype": taken.dtype, "layout": taken.layout, "batch": taken.batch},
            "batch_repaired": list(repairs),
        },
        "opset": file.opsets.get("", file.opsets.get("ai.onnx", 0)),
        "passes": [
            {"name": record.name, "nodes_before": record.nodes_before, "nodes_after": record.nodes_after}
            for record in passes
            if record.modified
        ],
        "nodes": len(graph),
        "rewrites": dataclasses.asdict(find_rewrites(graph)),
        "parity": {parity.stage: {"max_abs": f"{parity.max_abs:.0e}", "l2": f"{parity.l2:.0e}"}},
        "parity_images": {"real": 0, "batches": list(BATCHES)},
        "preprocess_origin": preprocess_origin,
    }
