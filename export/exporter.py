"""Export: checkpoint -> traced graph -> simplified graph -> verified file, with a parity gate behind every stage."""

import dataclasses
import importlib.metadata
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from vit_edge import __version__
from vit_edge.checkpoints import Checkpoint
from vit_edge.checkpoints.plan import Output
from vit_edge.export.divergence import first_divergence
from vit_edge.export.errors import ParityError
from vit_edge.export.heads import settle_heads
from vit_edge.export.model_file import save, staging_folder, write_manifest
from vit_edge.export.parity import BATCHES, Reference, StageParity, check_parity, reference
from vit_edge.export.passes import AppendSoftmax
from vit_edge.export.pipeline import PREPARE, PassRecord, run_passes, simplification
from vit_edge.export.traceable import ATTENTION_OPSET, traceable
from vit_edge.export.tracing import INPUT_NAME, OPSETS, trace
from vit_edge.runtime.errors import ConfigError, ModelFileError
from vit_edge.runtime.golden import GOLDEN_SET, golden_images
from vit_edge.runtime.images import decode
from vit_edge.runtime.manifest import Golden, InputInfo, Manifest, ModelInfo, OutputInfo
from vit_edge.runtime.preprocess import Preprocess, normalise, prepare

__all__ = ["ExportOptions", "ExportReport", "export"]

_GOLDEN_COUNT = 2
# Against float64, on the same machine and on others: onnxruntime's float32 was seen 1.7e-6 off, Arm and wasm 1.4e-6
# off x86. Five times that; a changed weight or another preprocessing moves the outputs by far more.
_GOLDEN_TOLERANCE = 1e-5
# The first onnxruntime whose CPU provider runs each opset
# (https://onnxruntime.ai/docs/reference/compatibility.html; Attention-23 came with 1.23).
_MINIMUM_RUNTIME = {17: "1.12", 18: "1.14", 19: "1.15", 20: "1.17", 21: "1.18", 22: "1.20", 23: "1.23", 24: "1.24"}
_HEADS_IMAGES = 32  # more change the comparison of head counts little
_LIBRARIES = ("torch", "onnx", "onnx-ir", "onnxscript", "onnxsim", "onnxruntime", "numpy")


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportOptions:
    """How a checkpoint is exported.

    Attributes:
        preprocess: what the model was trained with; None takes the checkpoint's own.
        preprocess_origin: where it comes from, for the manifest.
        labels: one name a class; None takes the checkpoint's own.
        output: None takes what the checkpoint's own model gives.
        opset: 23 and above have an attention operator; 17 to 22 run on older runtimes.
        images: real images for the parity gate, and for the test of an assumed number of heads.
    """

    preprocess: Preprocess | None = None
    preprocess_origin: str = "given"
    labels: tuple[str, ...] | None = None
    output: Output | None = None
    opset: int = ATTENTION_OPSET
    images: tuple[Path, ...] = ()


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
    options = _settled(checkpoint, options or ExportOptions())
    output = Path(output)
    with staging_folder(output) as folder:
        progress("PyTorch reference in float32 and float64")
        images = _parity_images(options)
        if checkpoint.heads_assumed and options.images:
            checkpoint = dataclasses.replace(
                checkpoint, notes=(*checkpoint.notes, settle_heads(checkpoint.model, images))
            )
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
        manifest = write_manifest(path, _manifest(checkpoint, options, graph, parity, passes))
        parity.append(_gate("file", path, folder, checkpoint, ref, progress))
    return ExportReport(output, manifest, tuple(parity), tuple(passes), checkpoint.notes)


def _settled(checkpoint: Checkpoint, options: ExportOptions) -> ExportOptions:
    """Options with the checkpoint's own values filled in."""
    if options.opset not in OPSETS:
        raise ConfigError(f"opset {options.opset}: expected {OPSETS.start} to {OPSETS.stop - 1}")
    config = checkpoint.model.config
    preprocess = options.preprocess or checkpoint.preprocess
    if preprocess is None:
        raise ConfigError("the checkpoint does not tell its preprocessing: it has to be given")
    if preprocess.size != config.image_size or preprocess.channels != config.channels:
        raise ConfigError(
            f"preprocessing gives {preprocess.channels} x {preprocess.size}, the model takes "
            f"{config.channels} x {config.image_size}"
        )
    labels = checkpoint.labels if options.labels is None else options.labels
    if labels and len(labels) != config.classes:
        raise ConfigError(f"got {len(labels)} labels, the model has {config.classes} classes")
    origin = options.preprocess_origin if options.preprocess else checkpoint.preprocess_origin
    return dataclasses.replace(
        options,
        preprocess=preprocess,
        preprocess_origin=origin,
        labels=labels,
        output=options.output or checkpoint.output,
    )


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
    path = graph if isinstance(graph, Path) else save(graph, folder / f"{stage}.onnx")
    try:
        return check_parity(path, ref, stage)
    except ParityError as error:
        if isinstance(error.__cause__, ModelFileError):  # it does not load: no tensor can be looked at
            raise
        first = first_divergence(path, checkpoint.model, ref.images[:1])
        where = f"first diverging tensor: {first}" if first else "no named tensor before the output differs"
        raise ParityError(f"{error}; {where}") from error


def _manifest(
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
        output=OutputInfo(name=str(graph.graph.outputs[0].name), kind=options.output, classes=config.classes),
        labels=options.labels,
        golden=_golden(checkpoint, options.preprocess, probabilities=options.output == "probabilities"),
        provenance=_provenance(checkpoint, options, graph, parity, passes),
        minimum_runtime=_MINIMUM_RUNTIME[options.opset],
        session={},
        content_sha256="0" * 64,
    )


def _golden(checkpoint: Checkpoint, spec: Preprocess, *, probabilities: bool) -> Golden:
    images = normalise(golden_images(_GOLDEN_COUNT, *spec.size, spec.channels), spec)
    outputs = reference(checkpoint.model, images, probabilities=probabilities).double.astype(np.float32)
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
        "attention": "Attention" if options.opset >= ATTENTION_OPSET else "decomposed",
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
