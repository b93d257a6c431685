"""Parity as a gate: a graph computes what the PyTorch model computes, or there is no file.

Every stage is run in onnxruntime at batch 1, 2, 3 and 7, unoptimised and as users run it, and each image's outputs
are compared with the model's in float32 and in float64. An image must give the same outputs whatever its batch mates.
"""

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from onnxruntime import InferenceSession
from torch import nn

from vit_edge.export.errors import ExportError, ParityError, first_line
from vit_edge.runtime.errors import ModelFileError
from vit_edge.runtime.session import ORT_ERRORS, Optimization, one_line, open_session

__all__ = [
    "BATCHES",
    "TOLERANCES",
    "Reference",
    "StageParity",
    "Tolerance",
    "check_parity",
    "deviation",
    "reference",
    "run_double",
]

Array32 = npt.NDArray[np.float32]
Array64 = npt.NDArray[np.float64]

BATCHES = (1, 2, 3, 7)
OPTIMIZATION: tuple[Optimization, ...] = ("none", "all")  # of onnxruntime: as written, and as users run it


@dataclass(frozen=True, slots=True)
class Tolerance:
    """Per image: max|difference| / max|reference| and ||difference|| / ||reference||."""

    max_abs: float
    l2: float


# Measured on 50 real images, ViT-Tiny, logits up to 20: PyTorch's float32 against its float64 differs by 1.7e-6 of
# the largest logit (relative L2 1.9e-6), and so do ten float32 graphs in onnxruntime. The gate is about ten times
# that noise. Elementwise relative errors say nothing: near-zero logits are off by 7 % in PyTorch itself.
TOLERANCES: Mapping[str, Tolerance] = {
    "traced": Tolerance(2e-5, 2e-5),
    "simplified": Tolerance(2e-5, 2e-5),
    "file": Tolerance(2e-5, 2e-5),
    "adopted": Tolerance(2e-5, 2e-5),  # of a float32 graph; a quantized one brings its own
}


# Of the outputs over the images, relative to the largest: below it a graph that ignores the image would nearly pass.
_LEAST_SPREAD = 1e-4
_SAME = 1e-4  # of the largest output: two runs of one model differ by 1e-6, as sums are taken in another order


@dataclass(frozen=True, slots=True)
class Reference:
    """Images and what the source model says to them.

    images (n, C, height, width) float32, normalised; float32 and float64 outputs (n, classes), or (n, ...) of an
    adopted graph, of the same weights. `source` is the model's name in messages.
    """

    images: Array32
    single: Array32
    double: Array64
    source: str = "PyTorch"


@dataclass(frozen=True, slots=True)
class StageParity:
    """The worst deviations of one stage over all batches, optimisation levels and images.

    `images_compared` counts image runs; `batch_mates` is the largest change of an image's outputs, relative to its
    largest output, between the batches it was in.
    """

    stage: str
    max_abs: float
    l2: float
    batch_mates: float
    images_compared: int

    def __str__(self) -> str:
        return f"{self.stage}: max|Δ| {self.max_abs:.1e}, L2 {self.l2:.1e} of the outputs, {self.images_compared} runs"


@dataclass(frozen=True, slots=True)
class _ImageRun:
    """One image in one batch: its number, the graph's outputs for it and their deviation from the reference."""

    index: int
    output: Array32
    deviation: tuple[float, float]


def reference(model: nn.Module, images: Array32, *, probabilities: bool = False) -> Reference:
    """Run the PyTorch model in float32 and float64.

    Args:
        model: in eval mode.
        images: (n, C, height, width) float32, normalised; n is at least the largest of `BATCHES`.
        probabilities: the graph ends in a softmax.

    Raises:
        ExportError: outputs are not finite, or the same for all images, so that a comparison would prove nothing; or
            the model gives an image another answer the next time, or in other company.
    """
    single = run_model(model, images, probabilities=probabilities).astype(np.float32)
    _check_function(model, images, single, probabilities=probabilities)
    double = run_double(model, images, probabilities=probabilities)
    if not np.isfinite(double).all():
        raise ExportError("the PyTorch model's outputs are not finite")
    if double.std(axis=0).max() <= _LEAST_SPREAD * np.abs(double).max():
        raise ExportError(
            "the PyTorch model's outputs hardly depend on the image, so that no comparison would prove anything: "
            "untrained, or with a zero head? Load trained weights; if they are, give real images (--images)"
        )
    return Reference(images, single, double)


def _check_function(model: nn.Module, images: Array32, outputs: Array32, *, probabilities: bool) -> None:
    """An image's answer depends on nothing but the image: no graph could be compared with a model otherwise."""
    largest = np.abs(outputs).max()
    again = run_model(model, images[:2], probabilities=probabilities)
    repeated = run_model(model, images[:2], probabilities=probabilities)
    if np.abs(again - repeated).max() > _SAME * largest:
        raise ExportError(
            "the PyTorch model is not deterministic: the same images give other outputs the second time "
            "(dropout or noise at inference, or a state that it keeps)"
        )
    alone = np.concatenate([run_model(model, image[None], probabilities=probabilities) for image in images[:2]])
    if np.abs(again - alone).max() > _SAME * largest:
        raise ExportError(
            "the PyTorch model mixes the images of a batch: an image alone gives other outputs "
            "(normalisation over the batch?)"
        )


def run_double(model: nn.Module, images: Array32, *, probabilities: bool) -> Array64:
    """The outputs of a model, computed in float64: (n, classes).

    Raises:
        ExportError: it has float32 written into its code.
    """
    usual = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)  # of tensors that are made on the way
    try:
        return run_model(copy.deepcopy(model).double(), images, probabilities=probabilities)
    except ExportError as error:
        raise ExportError(
            f"the model does not run in float64, with which exports are compared ({first_line(error.__cause__)}): "
            "does its code name a dtype? x.dtype works in both"
        ) from error
    finally:
        torch.set_default_dtype(usual)


def run_model(model: nn.Module, images: Array32, *, probabilities: bool) -> Array64:
    """The outputs of a model, computed in its own precision: (n, classes).

    Raises:
        ExportError: it does not run on these images.
    """
    parameter = next(model.parameters(), None)
    dtype = torch.get_default_dtype() if parameter is None else parameter.dtype
    try:
        with torch.no_grad():
            outputs = torch.cat([model(part.to(dtype)) for part in torch.from_numpy(images).split(4)])
            return (outputs.softmax(dim=-1) if probabilities else outputs).double().numpy()
    except Exception as error:  # a module may be a user's own code, which may raise anything
        raise ExportError(f"the PyTorch model does not run: {first_line(error)}") from error


def check_parity(
    path: Path,
    ref: Reference,
    stage: str,
    *,
    own_tolerance: Tolerance | None = None,
    levels: Sequence[Optimization] = OPTIMIZATION,
) -> StageParity:
    """Compare one stage's file with the reference.

    Args:
        path: the .onnx file of this stage.
        ref: from `reference`.
        stage: a key of `TOLERANCES`.
        own_tolerance: of a quantized graph, measured on itself, in place of the table's.
        levels: of onnxruntime's optimisation.

    Raises:
        ParityError: the outputs differ; the message has batch, optimisation level, image and numbers. It has a cause
            where the graph does not load or run at all.
    """
    tolerance = own_tolerance or TOLERANCES[stage]
    runs = [run for level in levels for run in _run_level(path, ref, stage, level, tolerance)]
    mates = _batch_mates(runs)
    if mates > tolerance.max_abs:
        raise ParityError(f"{stage} graph: an image's outputs change by {mates:.1e} with its batch mates")
    max_abs, l2 = (max(run.deviation[i] for run in runs) for i in range(2))
    return StageParity(stage, max_abs, l2, mates, len(runs))


def _run_level(
    path: Path, ref: Reference, stage: str, optimization: Optimization, tolerance: Tolerance
) -> list[_ImageRun]:
    """All batches at one optimisation level; the session is closed behind them, as two large models do not fit."""
    session = _open(path, stage, optimization)
    runs: list[_ImageRun] = []
    for batch in BATCHES:
        where = f"{stage} graph, batch {batch}, optimisation {optimization}"
        indices = _mixed(batch, len(ref.images))
        for index, output in zip(indices, _run(session, ref, indices, where), strict=True):
            pair, problem = _compare(output, ref, index, tolerance)
            if problem and batch > 1:
                alone = _run(session, ref, [index], where)[0]
                mixes = _compare(alone, ref, index, tolerance)[1] is None
                problem += "; alone it is right: the graph mixes the images of a batch" if mixes else ""
            if problem:
                raise ParityError(f"{where}, image {index}: {problem}")
            runs.append(_ImageRun(index, output, pair))
    return runs


def _open(path: Path, stage: str, optimization: Optimization) -> InferenceSession:
    try:
        return open_session(path, optimization=optimization)
    except ModelFileError as error:
        raise ParityError(f"{stage} graph: {error}") from error


def _run(session: InferenceSession, ref: Reference, indices: list[int], where: str) -> Array32:
    """The graph's outputs for some images, of the right shape and type."""
    try:
        outputs: Array32 = session.run(None, {session.get_inputs()[0].name: ref.images[indices]})[0]
    except ORT_ERRORS as error:
        raise ParityError(f"{where}: does not run: {one_line(error)}") from error
    expected = (len(indices), *ref.single.shape[1:])
    if outputs.shape != expected or outputs.dtype != np.float32:
        raise ParityError(f"{where}: gives {outputs.shape} {outputs.dtype}, expected {expected} float32")
    return outputs


def _mixed(batch: int, count: int) -> list[int]:
    """Other images at other places in every batch size."""
    return [(batch + 2 * i) % count if count % 2 else (batch + i) % count for i in range(batch)]


def deviation(got: npt.NDArray[np.floating], expected: npt.NDArray[np.floating]) -> tuple[float, float]:
    """max|got - expected| / max|expected| and the relative L2 norm of the difference; infinite for NaN."""
    difference = got.astype(np.float64) - expected.astype(np.float64)
    pair = np.abs(difference).max() / np.abs(expected).max(), np.linalg.norm(difference) / np.linalg.norm(expected)
    return (float(pair[0]), float(pair[1])) if np.isfinite(pair).all() else (np.inf, np.inf)


def _compare(
    output: Array32, ref: Reference, index: int, tolerance: Tolerance
) -> tuple[tuple[float, float], str | None]:
    """The larger deviations from float32 and float64, and what is wrong with them."""
    pairs = [deviation(output, expected[index]) for expected in (ref.single, ref.double)]
    max_abs, l2 = (max(values) for values in zip(*pairs, strict=True))
    problem = None
    if max_abs > tolerance.max_abs or l2 > tolerance.l2:
        problem = (
            f"max|Δ| {max_abs:.1e} and L2 {l2:.1e} of the {ref.source} outputs, "
            f"allowed {tolerance.max_abs:.0e} and {tolerance.l2:.0e}"
        )
    expected = ref.double[index].ravel()
    second, first = np.partition(expected, -2)[-2:] if expected.size > 1 else (-np.inf, expected[0])
    clear = first - second > 2 * tolerance.max_abs * np.abs(expected).max()
    if problem is None and clear and output.argmax() != expected.argmax():
        problem = f"class {output.argmax()}, {ref.source} says {expected.argmax()}"
    return (max_abs, l2), problem


def _batch_mates(runs: list[_ImageRun]) -> float:
    """The largest change of an image's outputs between two batches, relative to its largest output."""
    first: dict[int, Array32] = {}
    return max(deviation(run.output, first.setdefault(run.index, run.output))[0] for run in runs)
