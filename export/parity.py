"""Parity as a gate: a graph computes what the PyTorch model computes, or there is no file.

Every stage is run in onnxruntime at batch 1, 2, 3 and 7, unoptimised and as users run it, and each image's outputs
are compared with the model's in float32 and in float64. An image must give the same outputs whatever its batch mates.
"""

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from vit_edge.export.errors import ExportError, ParityError
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
}


@dataclass(frozen=True, slots=True)
class Reference:
    """Images and what the PyTorch model says to them.

    images (n, C, height, width) float32, normalised; float32 and float64 outputs (n, classes) of the same weights.
    """

    images: Array32
    single: Array32
    double: Array64


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


def reference(model: nn.Module, images: Array32, *, probabilities: bool = False) -> Reference:
    """Run the PyTorch model in float32 and float64.

    Args:
        model: in eval mode.
        images: (n, C, height, width) float32, normalised; n is at least the largest of `BATCHES`.
        probabilities: the graph ends in a softmax.

    Raises:
        ExportError: outputs are not finite, or the same for all images, so that a comparison would prove nothing.
    """

    def run(module: nn.Module, x: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            outputs = torch.cat([module(part) for part in x.split(4)])
        return outputs.softmax(dim=-1) if probabilities else outputs

    x = torch.from_numpy(images)
    single = run(model, x).numpy()
    double = run(copy.deepcopy(model).double(), x.double()).numpy()
    if not np.isfinite(double).all():
        raise ExportError("the PyTorch model's outputs are not finite")
    if double.std(axis=0).max() <= 1e-6 * np.abs(double).max():
        raise ExportError("the PyTorch model's outputs do not depend on the image (untrained, zero head?)")
    return Reference(images, single, double)


def check_parity(path: Path, ref: Reference, stage: str) -> StageParity:
    """Compare one stage's file with the reference.

    Args:
        path: the .onnx file of this stage.
        ref: from `reference`.
        stage: a key of `TOLERANCES`.

    Raises:
        ParityError: the outputs differ; the message has batch, optimisation level, image and numbers.
    """
    tolerance = TOLERANCES[stage]
    seen: list[tuple[int, Array32]] = []
    worst = np.zeros(2)
    for optimization in OPTIMIZATION:
        try:
            session = open_session(path, optimization=optimization)
        except ModelFileError as error:
            raise ParityError(f"{stage} graph: {error}") from error
        name = session.get_inputs()[0].name
        for batch in BATCHES:
            where = f"{stage} graph, batch {batch}, optimisation {optimization}"
            indices = _mixed(batch, len(ref.images))
            try:
                outputs = session.run(None, {name: ref.images[indices]})[0]
            except ORT_ERRORS as error:
                raise ParityError(f"{where}: does not run: {one_line(error)}") from error
            if outputs.shape != (batch, ref.single.shape[1]) or outputs.dtype != np.float32:
                expected = f"({batch}, {ref.single.shape[1]}) float32"
                raise ParityError(f"{where}: gives {outputs.shape} {outputs.dtype}, expected {expected}")
            for index, output in zip(indices, outputs, strict=True):
                worst = np.maximum(worst, _compare(output, ref, index, tolerance, where))
                seen.append((index, output))
    mates = _batch_mates(seen)
    if mates > tolerance.max_abs:
        raise ParityError(f"{stage} graph: an image's outputs change by {mates:.1e} with its batch mates")
    return StageParity(stage, float(worst[0]), float(worst[1]), mates, len(seen))


def _mixed(batch: int, count: int) -> list[int]:
    """Other images at other places in every batch size."""
    return [(batch + 2 * i) % count if count % 2 else (batch + i) % count for i in range(batch)]


def deviation(got: npt.NDArray[np.floating], expected: npt.NDArray[np.floating]) -> tuple[float, float]:
    """max|got - expected| / max|expected| and the relative L2 norm of the difference; infinite for NaN."""
    difference = got.astype(np.float64) - expected.astype(np.float64)
    pair = np.abs(difference).max() / np.abs(expected).max(), np.linalg.norm(difference) / np.linalg.norm(expected)
    return (float(pair[0]), float(pair[1])) if np.isfinite(pair).all() else (np.inf, np.inf)


def _compare(output: Array32, ref: Reference, index: int, tolerance: Tolerance, where: str) -> tuple[float, float]:
    """Against float32 and float64; the larger deviations come back."""
    pairs = [deviation(output, expected[index]) for expected in (ref.single, ref.double)]
    max_abs, l2 = (max(values) for values in zip(*pairs, strict=True))
    if max_abs > tolerance.max_abs or l2 > tolerance.l2:
        raise ParityError(
            f"{where}, image {index}: max|Δ| {max_abs:.1e} and L2 {l2:.1e} of the PyTorch outputs, "
            f"allowed {tolerance.max_abs:.0e} and {tolerance.l2:.0e}"
        )
    expected = ref.double[index]
    second, first = np.partition(expected, -2)[-2:] if expected.size > 1 else (-np.inf, expected[0])
    clear = first - second > 2 * tolerance.max_abs * np.abs(expected).max()
    if clear and output.argmax() != expected.argmax():
        raise ParityError(f"{where}, image {index}: class {output.argmax()}, PyTorch says {expected.argmax()}")
    return max_abs, l2


def _batch_mates(seen: list[tuple[int, Array32]]) -> float:
    """The largest change of an image's outputs between two batches, relative to its largest output."""
    first: dict[int, Array32] = {}
    changes = [deviation(output, first.setdefault(index, output))[0] for index, output in seen]
    return max(changes)
