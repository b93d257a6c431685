"""Adopt: any ONNX image model -> a vit-edge model file, with the foreign file itself as the reference.

The graph stays as it is, at its own opset, but for its input (float NCHW as in all model files), outputs that are not
used, tokens that its head does not read, notes about shapes, and sizes that were baked in for one batch.
"""

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import onnx_ir as ir
from onnx_ir.passes.common import ClearMetadataAndDocStringPass, RemoveUnusedNodesPass

from vit_edge.export.adopted_manifest import golden, model_info, provenance
from vit_edge.export.adopted_output import OutputKind, output_info
from vit_edge.export.batch import dynamic_batch
from vit_edge.export.foreign import Choices, Foreign, read_foreign
from vit_edge.export.foreign_run import ForeignRunner, Noise, find_batch, own_noise
from vit_edge.export.model_file import refuse_own_source, save, staging_folder, write_manifest
from vit_edge.export.parity import BATCHES, TOLERANCES, Reference, StageParity, check_parity
from vit_edge.export.passes import FloatInput, ForgetShapes, HoistSelection, InferShapes, KeepOutput
from vit_edge.export.pipeline import PassRecord, run_passes
from vit_edge.runtime.errors import ConfigError
from vit_edge.runtime.golden import golden_images
from vit_edge.runtime.manifest import InputInfo, Manifest, OutputInfo
from vit_edge.runtime.minimum_runtime import minimum_runtime, oldest_ir
from vit_edge.runtime.predictor import Predictor
from vit_edge.runtime.preprocess import Preprocess, normalise

__all__ = ["AdoptOptions", "AdoptReport", "adopt"]


# Of a graph whose batch is dynamic; shapes are only needed in between.
_FINISH = (InferShapes(), HoistSelection(), RemoveUnusedNodesPass(), ForgetShapes(), ClearMetadataAndDocStringPass())


@dataclass(frozen=True, slots=True, kw_only=True)
class AdoptOptions:
    """How a foreign file is adopted.

    Attributes:
        preprocess: from the model's (height, width) and channels to what it was trained with.
        preprocess_origin: where it comes from, for the manifest.
        labels: from the number of classes to their names; None takes those of the file's own metadata.
        output_kind: None tells it from shapes and values.
        choices: what the file does not tell about its input and output.
        fix_batch: repair sizes that were baked in for one batch.
    """

    preprocess: Callable[[tuple[int, int], int], Preprocess]
    preprocess_origin: str = "given"
    labels: Callable[[int], tuple[str, ...]] | None = None
    output_kind: OutputKind | None = None
    choices: Choices = dataclasses.field(default_factory=Choices)
    fix_batch: bool = False


@dataclass(frozen=True, slots=True)
class AdoptReport:
    """What was written, what was repaired and how it was checked."""

    path: Path
    manifest: Manifest
    parity: StageParity
    repairs: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Source:
    """A foreign file, and what it says to the golden images, not optimised.

    A quantized file computes something else when it is optimised (integers in place of the floats that QDQ pairs
    describe): what it then says is the reference of that level, and of the golden outputs.
    """

    foreign: Foreign
    spec: Preprocess
    traced: int  # a batch size that it runs at
    ref: Reference
    noise: Noise | None  # of a quantized file
    optimised: Reference | None  # of a quantized file


def _silent(step: str) -> None:
    pass


def adopt(
    source: str | Path, output: str | Path, options: AdoptOptions, *, progress: Callable[[str], None] = _silent
) -> AdoptReport:
    """Write a verified model file, or raise and write nothing.

    Args:
        source: an .onnx with one image input, of any tool.
        output: the `.onnx` file; replaced only when everything has passed.
        options: see `AdoptOptions`.
        progress: called with the name of each step as it begins.

    Raises:
        ModelFileError: the source is damaged, not ONNX, or onnxruntime does not run it.
        ExportError: it is no image model that can be adopted, or its batch is not dynamic.
        ParityError: the adopted graph does not compute what the source computes.
        ConfigError: an option is missing or does not fit.

    Example:
        >>> from vit_edge.preprocessing import named
        >>> options = AdoptOptions(preprocess=lambda size, channels: named("imagenet", size, channels))
        >>> adopt("resnet50.onnx", "resnet50-edge.onnx", options).manifest.output.kind  # doctest: +SKIP
        'logits'
    """
    source, output = Path(source), Path(output)
    refuse_own_source(source, output)
    with staging_folder(output) as folder:
        progress("reading")
        foreign = read_foreign(source, options.choices)
        progress("reference: the file itself, not optimised")
        known = _source(foreign, options, folder)
        info = output_info(foreign.output, known.ref.single, options.output_kind, known.spec.size)
        labels = _labels(foreign, info, options)
        progress("batch")
        graph, passes, repairs = _graph(known, options, folder)
        progress("parity")
        path = save(graph, folder / output.name, _ir_version(foreign))
        parity = _check(path, known)
        manifest = Manifest(
            model=model_info(foreign, _notes(foreign, info, options)),
            input=InputInfo(name=foreign.input.name, mode="float", preprocess=known.spec),
            output=info,
            labels=labels,
            golden=golden(known.optimised or known.ref, known.noise.alone if known.noise else None),
            provenance=provenance(foreign, graph.graph, passes, repairs, parity, options.preprocess_origin),
            minimum_runtime=minimum_runtime(foreign.file, _ir_version(foreign)),
            session={},
            content_sha256="0" * 64,
        )
        manifest = write_manifest(path, manifest)
        progress("golden check of the file")
        Predictor(path)
    return AdoptReport(output, manifest, parity, repairs)


def _source(foreign: Foreign, options: AdoptOptions, folder: Path) -> _Source:
    """Run the file itself on the golden images, each alone."""
    spec = options.preprocess(foreign.input.size, foreign.input.channels)
    if spec.size != foreign.input.size or spec.channels != foreign.input.channels:
        raise ConfigError(
            f"preprocessing gives {spec.channels} x {spec.size}, the file takes "
            f"{foreign.input.channels} x {foreign.input.size}"
        )
    if foreign.input.dtype == "uint8":  # mean and std are inside: (x / 255 - 0) / (1 / 255) gives the bytes
        mean, std = (0.0,) * spec.channels, (1 / 255,) * spec.channels
        spec = dataclasses.replace(spec, mean=mean, std=std)
    images = normalise(golden_images(max(BATCHES), *spec.size, spec.channels), spec)
    traced = find_batch(foreign, images[0])
    ref = _reference(ForeignRunner(foreign, traced), images)
    noise = own_noise(foreign, traced, images, folder)
    optimised = _reference(ForeignRunner(foreign, traced, "all"), images) if noise else None
    return _Source(foreign, spec, traced, ref, noise, optimised)


def _reference(run: ForeignRunner, images: npt.NDArray[np.float32]) -> Reference:
    outputs = run(images)
    return Reference(images, outputs, outputs.astype(np.float64), source="foreign file's")


def _check(path: Path, known: _Source) -> StageParity:
    """The adopted file gives what the foreign file gives; where that is quantized, at the same level."""
    if known.noise is None or known.optimised is None:
        return check_parity(path, known.ref, "adopted")
    tolerance = known.noise.together
    check_parity(path, known.ref, "adopted", own_tolerance=tolerance, levels=("none",))
    return check_parity(path, known.optimised, "adopted", own_tolerance=tolerance, levels=("all",))


def _graph(
    known: _Source, options: AdoptOptions, folder: Path
) -> tuple[ir.Model, tuple[PassRecord, ...], tuple[str, ...]]:
    """The graph as it is written, the passes applied, and what was repaired."""
    foreign, ref = known.foreign, known.ref
    shape = (known.spec.channels, *known.spec.size)
    adapt = (KeepOutput(foreign.output), ForgetShapes(), FloatInput(foreign.input.layout, shape))
    graph, passes = run_passes(foreign.graph.clone(), (*adapt, RemoveUnusedNodesPass()))
    graph, repairs = dynamic_batch(
        graph,
        known.traced,
        ref,
        known.noise.together if known.noise else TOLERANCES["adopted"],
        save=lambda each: save(each, folder / "candidate.onnx", _ir_version(foreign)),
        declared=foreign.input.batch,
        fix=options.fix_batch,
    )
    result = ir.Shape(["batch", *ref.single.shape[1:]])
    graph.graph.outputs[0].shape = result
    graph, finished = run_passes(graph, _FINISH)
    graph.graph.outputs[0].shape = result
    return graph, (*passes, *finished), repairs


def _ir_version(foreign: Foreign) -> int:
    return oldest_ir(foreign.file, functions=bool(foreign.graph.functions))


def _labels(foreign: Foreign, info: OutputInfo, options: AdoptOptions) -> tuple[str, ...]:
    if info.kind not in ("logits", "probabilities"):
        if options.labels is not None:
            raise ConfigError(f"labels are given, but the file gives {info.kind}, not classes")
        return ()
    if options.labels is not None:
        return options.labels(info.classes)
    return foreign.labels if len(foreign.labels) == info.classes else ()


def _notes(foreign: Foreign, info: OutputInfo, options: AdoptOptions) -> list[str]:
    """What the file did not say, and what it costs."""
    notes = []
    if info.kind == "logits" and options.output_kind is None:
        notes.append("output: taken for logits of classes; if it is an embedding, give --output features")
    if foreign.input.dtype == "uint8":
        notes.append("input: the file takes bytes and normalises them itself, so mean and std given are not used")
    if foreign.labels and len(foreign.labels) != info.classes and options.labels is None:
        notes.append(
            f"labels: the file's metadata have {len(foreign.labels)} names for {info.classes} outputs, not used"
        )
    if any(node.op_type.startswith("Dynamic") for node in foreign.nodes()):
        notes.append("quantization: scales are computed for the whole batch, so batch mates change an image's outputs")
    if any(domain not in ("", "ai.onnx") for domain in foreign.file.opsets):
        notes.append("runtime: operators outside the ONNX standard may need a newer onnxruntime than stated")
    return notes
