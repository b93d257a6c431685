"""Export: checkpoint -> traced graph -> simplified graph -> verified file, with a parity gate behind every stage."""

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from vit_edge.checkpoints import Checkpoint
from vit_edge.export.description import describe
from vit_edge.export.divergence import first_divergence
from vit_edge.export.errors import ParityError
from vit_edge.export.heads import settle_heads
from vit_edge.export.model_file import save, staging_folder, write_manifest
from vit_edge.export.options import ExportOptions, settled
from vit_edge.export.parity import BATCHES, Reference, StageParity, check_parity, reference
from vit_edge.export.passes import AppendSoftmax
from vit_edge.export.pipeline import PREPARE, PassRecord, run_passes, simplification
from vit_edge.export.traceable import traceable
from vit_edge.export.tracing import trace
from vit_edge.model import ViT
from vit_edge.outputs import giving
from vit_edge.runtime.golden import golden_images
from vit_edge.runtime.images import decode
from vit_edge.runtime.manifest import Manifest
from vit_edge.runtime.preprocess import normalise, prepare

__all__ = ["ExportOptions", "ExportReport", "export"]

_HEADS_IMAGES = 32  # more change the comparison of head counts little


@dataclass(frozen=True, slots=True)
class ExportReport:
    """What was written and how it was checked."""

    path: Path
    manifest: Manifest
    parity: tuple[StageParity, ...]
    passes: tuple[PassRecord, ...]
    notes: tuple[str, ...]  # assumptions and choices to show


def _silent(step: str) -> None:
    pass


def export(
    checkpoint: Checkpoint,
    output: str | Path,
    options: ExportOptions | None = None,
    *,
    progress: Callable[[str], None] = _silent,
) -> ExportReport:
    """Write a verified model file, or raise and write nothing.

    Args:
        checkpoint: from `vit_edge.checkpoints.load_checkpoint`.
        output: the `.onnx` file; replaced only when everything has passed.
        options: see `ExportOptions`.
        progress: called with the name of each step as it begins.

    Raises:
        ExportError: the model cannot be traced or written.
        ParityError: a stage does not compute what the PyTorch model computes.
        ConfigError: an option does not fit the model.

    Example:
        >>> from vit_edge.checkpoints import load_checkpoint
        >>> export(load_checkpoint("vit_tiny"), "vit_tiny.onnx").parity[-1].max_abs  # doctest: +SKIP
        1.3e-06
    """
    options = settled(checkpoint, options or ExportOptions())
    assert options.output is not None
    checkpoint = dataclasses.replace(checkpoint, model=giving(checkpoint.model, options.output))
    output = Path(output)
    with staging_folder(output) as folder:
        progress("PyTorch reference in float32 and float64")
        images = _parity_images(options)
        model = checkpoint.model
        if checkpoint.heads_assumed and options.images and isinstance(model, ViT) and model.config.classes:
            checkpoint = dataclasses.replace(checkpoint, notes=(*checkpoint.notes, settle_heads(model, images)))
        probabilities = options.output == "probabilities"
        ref = reference(checkpoint.model, images[: max(BATCHES)], probabilities=probabilities)
        progress(f"tracing at opset {options.opset}")
        shape = (checkpoint.model.config.channels, *checkpoint.model.config.image_size)
        graph = trace(traceable(checkpoint.model, opset=options.opset), shape, opset=options.opset)
        graph, _ = run_passes(graph, ((AppendSoftmax(),) if probabilities else ()) + PREPARE)
        parity = [_gate("traced", graph, folder, checkpoint, ref, progress)]
        progress("simplifying")
        graph, passes = run_passes(graph, simplification(graph, options.opset))
        parity.append(_gate("simplified", graph, folder, checkpoint, ref, progress))
        path = save(graph, folder / output.name)
        manifest = write_manifest(path, describe(checkpoint, options, graph, parity, passes))
        parity.append(_gate("file", path, folder, checkpoint, ref, progress))
    return ExportReport(output, manifest, tuple(parity), tuple(passes), checkpoint.notes)


def _parity_images(options: ExportOptions) -> npt.NDArray[np.float32]:
    """Real images where given, else golden ones: at least as many as the largest batch."""
    spec = options.preprocess
    assert spec is not None
    chosen = options.images[:_HEADS_IMAGES]
    real = [prepare(decode(path), spec) for path in chosen]
    missing = max(BATCHES) - len(real)
    if missing <= 0:
        return np.stack(real)
    synthetic = normalise(golden_images(missing, *spec.size, spec.channels), spec)
    return np.concatenate([np.stack(real), synthetic]) if real else synthetic


def _gate(
    stage: str,
    graph: ir.Model | Path,
    folder: Path,
    checkpoint: Checkpoint,
    ref: Reference,
    progress: Callable[[str], None],
) -> StageParity:
    """Check one stage; a failure names the first tensor that differs."""
    progress(f"parity of the {stage} graph")
    path = graph if isinstance(graph, Path) else save(graph, folder / "stage")  # no output has this name
    try:
        return check_parity(path, ref, stage)
    except ParityError as error:
        if error.__cause__ is not None:  # it does not load or run: no tensor can be looked at
            raise
        first = first_divergence(path, checkpoint.model, ref.images[:1])
        where = (
            f"first diverging tensor: {first}"
            if first
            else "alone and unoptimised, all named tensors before the output agree"
        )
        raise ParityError(f"{error}; {where}") from error
