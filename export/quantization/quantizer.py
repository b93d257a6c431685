"""Quantize a model file: scheme -> quantized graph -> complete model file with its own tolerance and verdict."""

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import onnx_ir as ir

from vit_edge.accuracy import Evaluation, evaluate
from vit_edge.export.errors import QuantizationError
from vit_edge.export.model_file import refuse_own_source, staging_folder
from vit_edge.export.quantization.calibration import Calibration, ImageSet, Synthetic
from vit_edge.export.quantization.choosing import Choice
from vit_edge.export.quantization.costs import LayerCost, layer_costs
from vit_edge.export.quantization.four_bits import writer as four_bit_writer
from vit_edge.export.quantization.half import compute_half, store_half
from vit_edge.export.quantization.integer import write_dynamic, write_integer
from vit_edge.export.quantization.layerwise import Layerwise, Numbers, quantize_layers
from vit_edge.export.quantization.qdq import write_qdq
from vit_edge.export.quantization.recording import record_accuracy, write_file
from vit_edge.export.quantization.result import Made
from vit_edge.export.quantization.schemes import W8A16, Fp16, Int4, Int8, Int8Dynamic, Int8Qdq, Scheme, Target
from vit_edge.export.quantization.trial import Trial, compare, run
from vit_edge.runtime.errors import ConfigError
from vit_edge.runtime.manifest import Manifest
from vit_edge.runtime.predictor import Predictor

__all__ = ["Budget", "QuantizeReport", "quantize"]

Progress = Callable[[str], None]

_SYNTHETIC = 16  # images for schemes that need none
_ROUNDS = 3  # of keeping more float where the budget is exceeded
_TIGHTER = 0.7  # the target of the next round, of what the last one reached


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """Labelled images on which no more than `max_drop` points of top-1 may be lost."""

    data: Path
    max_drop: float


@dataclass(frozen=True, slots=True)
class QuantizeReport:
    """What was written, what was done to each layer, and how near it is.

    Attributes:
        path: the file.
        manifest: its manifest.
        layers: in the order of the graph; empty for fp16.
        trial: on the calibration images, against the float graph.
        reached: the scheme's target.
        found: about the residual stream; may be empty.
        images: what it was calibrated with, in words.
        evaluation: on labelled images, with a budget.
        bytes_before: of the float file.
    """

    path: Path
    manifest: Manifest
    layers: tuple[LayerCost, ...]
    trial: Trial
    reached: bool
    found: str
    images: str
    evaluation: Evaluation | None
    bytes_before: int


def quantize(
    model: str | Path,
    output: str | Path,
    scheme: Scheme | None = None,
    *,
    images: Sequence[Path] = (),
    budget: Budget | None = None,
    progress: Progress = lambda step: None,
) -> QuantizeReport:
    """Write a quantized model file, or raise and write nothing.

    Args:
        model: a float model file that vit-edge wrote.
        output: the `.onnx` file; replaced only when everything has passed.
        scheme: `Int8()` by default; see `vit_edge.export.quantization.schemes`.
        images: calibration images, without labels: 64 to 200 like those the model will see. `Int8Dynamic`, `Int4` and
            `Fp16` do without, worse.
        budget: labelled images that decide.
        progress: called with the name of each step as it begins.

    Raises:
        ModelFileError: the file is damaged, or computes something else here than where it was made.
        QuantizationError: the quantized model is not near enough, or exceeds the budget.
        ConfigError: the file is quantized already, or the images cannot be used.

    Example:
        >>> quantize("m.onnx", "m8.onnx", images=find_images(Path("photos"))).trial  # doctest: +SKIP
        Trial(agreement=0.99, l2=0.059, n=96)
    """
    model, output, scheme = Path(model), Path(output), scheme or Int8()
    source = Predictor(model).manifest  # content and golden outputs are checked: the baseline first
    _check(model, output, source, scheme, images)
    image_set = _image_set(source, images)
    with staging_folder(output) as folder:
        graph = ir.load(model)
        classes = source.output.kind in ("logits", "probabilities")
        maker = _maker(graph, scheme, image_set, classes=classes, progress=progress)
        staged = folder / output.name
        made, evaluation, target = maker(scheme.target, ()), None, scheme.target
        for number in range(_ROUNDS):
            progress("writing")
            manifest = write_file(staged, made, source, scheme, image_set)
            if budget is None:
                break
            progress("accuracy on the labelled images")
            evaluation = evaluate(staged, budget.data, baseline=model, max_drop=budget.max_drop)
            if _outcome(evaluation) != "fail":
                break
            if number + 1 == _ROUNDS or isinstance(scheme, Fp16):
                raise QuantizationError(f"{scheme.name} exceeds the budget: {_verdict(evaluation)}")
            target = _tighter(target, made.trial)
            made = maker(target, made.kept)
        if evaluation is not None:
            manifest = record_accuracy(staged, manifest, evaluation)
        Predictor(staged)  # as users will load it
        progress("time of each layer")
        costs = layer_costs(graph, made, next(iter(image_set.subset((0,)).images())))
        before = model.stat().st_size + (source.external_data.bytes if source.external_data else 0)
    what = f"{len(image_set)} images" if images else f"{_SYNTHETIC} synthetic images"
    return QuantizeReport(output, manifest, costs, made.trial, made.reached, made.found, what, evaluation, before)


def _check(model: Path, output: Path, source: Manifest, scheme: Scheme, images: Sequence[Path]) -> None:
    refuse_own_source(model, output)
    if source.model.precision != "fp32":
        raise ConfigError(f"{model}: is {source.model.precision} already; quantize the fp32 file it was made from")
    if not images and not isinstance(scheme, Int8Dynamic | Int4 | Fp16):
        raise ConfigError(
            f"{scheme.name} needs calibration images: give --calib DIR with 64 to 200 images like those the model "
            "will see, no labels needed. Without any there is --scheme int8-dynamic: its scales are found while it "
            "runs, so that it is slower and an answer depends on its batch mates (logits changed by 8.7 % on ViT-Tiny)"
        )
    opset = source.provenance.get("opset")
    if isinstance(scheme, W8A16) and isinstance(opset, int) and opset < 21:
        raise ConfigError(f"w8a16 needs opset 21 or newer, {model} has {opset}: export it with --opset 23")


def _image_set(source: Manifest, images: Sequence[Path]) -> ImageSet:
    spec = source.input.preprocess
    return Calibration.of(images, spec) if images else Synthetic(_SYNTHETIC, spec)


def _numbers(scheme: Scheme) -> Numbers:
    """How a scheme stores layers."""
    match scheme:
        case Int8():
            return Numbers(scheme.name, lambda seen: write_integer)
        case Int8Dynamic():
            return Numbers(scheme.name, lambda seen: write_dynamic)
        case Int8Qdq():
            return Numbers(scheme.name, lambda seen: write_qdq)
        case W8A16():
            return Numbers(scheme.name, lambda seen: write_qdq, levels=65536)
        case Int4():
            return Numbers(scheme.name, lambda seen: four_bit_writer(seen, scheme.block), mends=False)
        case _:
            raise AssertionError(scheme)


def _maker(
    graph: ir.Model, scheme: Scheme, images: ImageSet, *, classes: bool, progress: Progress
) -> Callable[[Target, Sequence[str]], Made]:
    """What makes a quantized graph for a target; what costs time is done once."""
    if isinstance(scheme, Fp16):
        return lambda target, kept: _half(graph, scheme, images, target, classes=classes, progress=progress)
    layers = quantize_layers(graph, images, _numbers(scheme), classes=classes, progress=progress)
    unknown = sorted(set(scheme.keep_float) - {site.name for site in layers.sites})
    if unknown:
        there = ", ".join(site.name for site in layers.sites)
        raise ConfigError(f"--keep-float {', '.join(unknown)}: no such layer; there are {there}")

    def make(target: Target, kept: Sequence[str]) -> Made:
        return _chosen(layers, layers.choose(target, {*kept, *scheme.keep_float}))

    return make


def _chosen(layers: Layerwise, choice: Choice) -> Made:
    return Made(
        layers.written(choice.kept),
        choice.trial,
        choice.reached,
        tuple(sorted(choice.kept)),
        layers.reports(choice.kept),
        layers.found,
    )


def _half(
    graph: ir.Model, scheme: Fp16, images: ImageSet, target: Target, *, classes: bool, progress: Progress
) -> Made:
    progress("half precision")
    made = compute_half(graph) if scheme.compute else store_half(graph)
    progress(f"{len(images)} images")
    trial = compare(run(made, images.images()), run(graph, images.images()), classes=classes)
    if not target.bearable(trial):
        raise QuantizationError(f"fp16 breaks this model: {trial}")
    return Made(made, trial, target.met(trial))


def _tighter(target: Target, trial: Trial) -> Target:
    """Less error than the last time, at the cost of more float layers."""
    return dataclasses.replace(
        target, l2=_TIGHTER * trial.l2, agreement=1.0, float_share=min(0.5, 2 * target.float_share + 0.02)
    )


def _outcome(evaluation: Evaluation) -> str:
    assert evaluation.comparison is not None
    assert evaluation.comparison.verdict is not None
    return evaluation.comparison.verdict.outcome


def _verdict(evaluation: Evaluation) -> str:
    assert evaluation.comparison is not None
    assert evaluation.comparison.verdict is not None
    return evaluation.comparison.verdict.message
