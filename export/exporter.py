"""Export: checkpoint -> traced graph -> simplified graph -> verified file, with a parity gate behind every stage."""

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from vit_edge.checkpoints import Checkpoint
from vit_edge.export.description import describe
from vit_edge.export.divergence import first_divergence
from vit_edge.export.errors import ParityError
from vit_edge.export.heads import settle_heads
from vit_edge.export.model_file import check_place, refuse_own_source, save, staging_folder, write_manifest
from vit_edge.export.options import ExportOptions, check_opset, settled
from vit_edge.export.parity import BATCHES, Reference, StageParity, check_parity, reference
from vit_edge.export.passes import AppendSoftmax
from vit_edge.export.pipeline import PREPARE, PassRecord, run_passes, simplification
from vit_edge.export.source import Exportable, as_checkpoint, with_choices
from vit_edge.export.traceable import traceable
from vit_edge.export.tracing import trace
from vit_edge.model import ViT
from vit_edge.outputs import giving
from vit_edge.runtime.golden import golden_images
from vit_edge.runtime.images import decode
from vit_edge.runtime.manifest import Manifest
from vit_edge.runtime.preprocess import Preprocess, normalise, prepare

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
    source: Exportable,
    output: str | Path,
    options: ExportOptions | None = None,
    *,
    preprocess: Preprocess | str | None = None,
    labels: Sequence[str] | Path | None = None,
    progress: Callable[[str], None] = _silent,
) -> ExportReport:
    """Write a verified model file, or raise and write nothing.

    Args:
        source: a checkpoint from `vit_edge.checkpoints.load_checkpoint`; the path or `hf:` id of one; or any
            `torch.nn.Module` that maps (B, C, height, width) float32 to (B, classes), which is not changed.
        output: the `.onnx` file; replaced only when everything has passed.
        options: see `ExportOptions`.
        preprocess: in place of the options': a record, or what `vit_edge.preprocessing.resolve` takes. A module that
            does not tell its image size needs a record, as `vit_edge.preprocessing.named("imagenet", 224)` makes.
        labels: in place of the options': one name a class, or a file of them.
        progress: called with the name of each step as it begins.

    Raises:
        ExportError: the model cannot be traced or written.
        ParityError: a stage does not compute what the PyTorch model computes.
        ConfigError: an option does not fit the model.

    Example:
        >>> export("hf:timm/vit_tiny_patch16_224", "vit_tiny.onnx").parity[-1].max_abs  # doctest: +SKIP
        1.3e-06
        >>> export(net, "net.onnx", preprocess=named("imagenet", 224), labels=["cat", "dog"])  # doctest: +SKIP
    """
    if isinstance(source, str | Path):
        refuse_own_source(source, Path(output))
    check_opset((options or ExportOptions()).opset)
    check_place(Path(output))
    checkpoint = as_checkpoint(source, preprocess)
    options = settled(checkpoint, with_choices(options or ExportOptions(), checkpoint, preprocess, labels))
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
        traced = save(graph, folder / "traced")  # no output has this name
        parity = [_gate("traced", traced, checkpoint, ref, progress)]
        progress("simplifying")
        graph, passes = run_passes(graph, simplification(graph, options.opset))
        path = save(graph, folder / output.name)
        parity.append(_gate("simplified", path, checkpoint, ref, progress))
        manifest = write_manifest(path, describe(checkpoint, options, graph, parity, passes))
        parity.append(_gate("file", path, checkpoint, ref, progress))
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
    stage: str, path: Path, checkpoint: Checkpoint, ref: Reference, progress: Callable[[str], None]
) -> StageParity:
    """Check one stage; a failure names the first tensor that differs."""
    progress(f"parity of the {stage} graph")
    try:
        return check_parity(path, ref, stage)
    except ParityError as error:
        if error.__cause__ is not None:  # it does not load or run: no tensor can be looked at
            raise
        first = first_divergence(path, checkpoint.model, ref.images[:1])
        agree = "alone and unoptimised, all named tensors before the output agree"
        raise ParityError(f"{error}; " + (f"first diverging tensor: {first}" if first else agree)) from error
