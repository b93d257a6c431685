"""What outputs say: right or wrong against labels, near or far against another model's outputs.

Arrays of outputs are (n, classes) float32, logits or probabilities (`kind`). Rows are worked on in blocks, so that
float64 copies stay small.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from statistics import NormalDist
from typing import Literal

import numpy as np
import numpy.typing as npt

from vit_edge.runtime.prediction import softmax

__all__ = [
    "Accuracy",
    "Agreement",
    "Bin",
    "ClassLoss",
    "Confidences",
    "accuracy",
    "agreement",
    "class_losses",
    "confidences",
    "correct",
    "reliability",
    "wilson_interval",
]

Outputs = npt.NDArray[np.float32]
Labels = npt.NDArray[np.int64]
Kind = Literal["logits", "probabilities"]

BINS = 15  # C. Guo et al., "On Calibration of Modern Neural Networks", ICML 2017
_BLOCK = 512  # rows in float64 at a time


@dataclass(frozen=True, slots=True, kw_only=True)
class Bin:
    """Images whose confidence lies in (low, high]: how confident the model is on average, and how often right."""

    low: float
    high: float
    images: int
    confidence: float
    accuracy: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Accuracy:
    """One model against labels; shares and the calibration error in 0..1.

    Attributes:
        top1: Share of images whose label scores highest.
        top1_interval: Its 95 % interval (Wilson).
        top5: Share of images whose label is among the five highest; None for five classes or fewer.
        ece: Expected calibration error: the mean gap between confidence and accuracy over `bins`.
        bins: The bins of equal width that hold images.
    """

    top1: float
    top1_interval: tuple[float, float]
    top5: float | None
    ece: float
    bins: tuple[Bin, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Agreement:
    """A model against its baseline, without labels.

    Attributes:
        argmax: Share of images with the same highest class.
        relative_l2: Over all images: |model - baseline| / |baseline|, Euclidean norms of the outputs.
        relative_l2_median: Of the same ratio image by image.
        relative_l2_worst: The largest of them.
        sqnr_db: Signal to quantization noise ratio, 20 log10(1 / relative_l2); None for equal outputs.
        kl: Mean Kullback-Leibler divergence KL(baseline || model) of the class probabilities, in nats.
    """

    argmax: float
    relative_l2: float
    relative_l2_median: float
    relative_l2_worst: float
    sqnr_db: float | None
    kl: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassLoss:
    """How one class fares: images with that label, and how many of them either model gets right."""

    label: int
    images: int
    baseline_right: int
    model_right: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Confidences:
    """The winning class of every image.

    Attributes:
        predicted: (n,) int64; of equal scores the lower index.
        score: (n,) float64, its probability.
        margin: (n,) float64, how far its probability is above the next; 1 for a single class.
    """

    predicted: Labels
    score: npt.NDArray[np.float64]
    margin: npt.NDArray[np.float64]


def _blocks(n: int) -> Iterator[slice]:
    return (slice(start, start + _BLOCK) for start in range(0, n, _BLOCK))


def _probabilities(outputs: Outputs, kind: Kind) -> npt.NDArray[np.float64]:
    return softmax(outputs) if kind == "logits" else outputs.astype(np.float64)


def _log_probabilities(outputs: Outputs, kind: Kind) -> npt.NDArray[np.float64]:
    """log softmax of logits; probabilities that underflowed to 0 count as float32's smallest normal number."""
    x = outputs.astype(np.float64)
    if kind == "probabilities":
        logs: npt.NDArray[np.float64] = np.log(np.maximum(x, float(np.finfo(np.float32).tiny)))
        return logs
    x -= x.max(axis=1, keepdims=True)
    logs = x - np.log(np.exp(x).sum(axis=1, keepdims=True))
    return logs


def confidences(outputs: Outputs, kind: Kind = "logits") -> Confidences:
    """The winning class, its probability and its margin for every row of (n, classes) float32."""
    n = len(outputs)
    score, margin = np.empty(n), np.ones(n)
    for rows in _blocks(n):
        scores = _probabilities(outputs[rows], kind)
        if scores.shape[1] > 1:
            best = np.partition(scores, -2, axis=1)[:, -2:]
            margin[rows] = best[:, 1] - best[:, 0]
        score[rows] = scores.max(axis=1)
    return Confidences(predicted=outputs.argmax(axis=1).astype(np.int64), score=score, margin=margin)


def correct(outputs: Outputs, labels: Labels, k: int = 1) -> npt.NDArray[np.bool_]:
    """Is the label among the `k` highest outputs? (n,) bool; of equal outputs the lower index comes first."""
    own = outputs[np.arange(len(labels)), labels][:, None]  # (n, 1)
    before = np.arange(outputs.shape[1])[None, :] < labels[:, None]
    rank = (outputs > own).sum(axis=1) + ((outputs == own) & before).sum(axis=1)
    return rank < k  # type: ignore[no-any-return]


def wilson_interval(right: int, n: int) -> tuple[float, float]:
    """Wilson's 95 % score interval of the share right / n (E. B. Wilson, JASA 22:209-212, 1927)."""
    z = NormalDist().inv_cdf(0.975)
    centre, spread = (right + z * z / 2) / (n + z * z), right * (n - right) / n + z * z / 4
    half = z * float(np.sqrt(spread)) / (n + z * z)
    return max(centre - half, 0.0), min(centre + half, 1.0)


def reliability(score: npt.NDArray[np.float64], right: npt.NDArray[np.bool_]) -> tuple[Bin, ...]:
    """Sort images into `BINS` bins of equal width by confidence; empty bins are left out.

    Args:
        score: (n,) float64, 0..1.
        right: (n,) bool.
    """
    index = np.clip(np.ceil(score * BINS).astype(int) - 1, 0, BINS - 1)
    bins = []
    for each in np.unique(index).tolist():
        mine = index == each
        values = {"confidence": float(score[mine].mean()), "accuracy": float(right[mine].mean())}
        bins.append(Bin(low=each / BINS, high=(each + 1) / BINS, images=int(mine.sum()), **values))
    return tuple(bins)


def accuracy(outputs: Outputs, labels: Labels, kind: Kind = "logits") -> Accuracy:
    """Compare (n, classes) float32 outputs with (n,) int64 labels, n >= 1."""
    n, right = len(labels), correct(outputs, labels)
    bins = reliability(confidences(outputs, kind).score, right)
    return Accuracy(
        top1=float(right.mean()),
        top1_interval=wilson_interval(int(right.sum()), n),
        top5=float(correct(outputs, labels, 5).mean()) if outputs.shape[1] > 5 else None,
        ece=sum(each.images * abs(each.confidence - each.accuracy) for each in bins) / n,
        bins=bins,
    )


def agreement(baseline: Outputs, model: Outputs, kind: Kind = "logits") -> Agreement:
    """Compare two models' (n, classes) float32 outputs for the same images in the same order."""
    n = len(baseline)
    noise, signal, kl = np.empty(n), np.empty(n), np.empty(n)  # squared norms; nats
    for rows in _blocks(n):
        before, after = baseline[rows].astype(np.float64), model[rows].astype(np.float64)
        noise[rows], signal[rows] = ((after - before) ** 2).sum(axis=1), (before**2).sum(axis=1)
        logs = _log_probabilities(baseline[rows], kind)
        kl[rows] = (np.exp(logs) * (logs - _log_probabilities(model[rows], kind))).sum(axis=1)
    ratios = np.sqrt(noise / np.maximum(signal, np.finfo(np.float64).tiny))
    overall = float(np.sqrt(noise.sum() / max(signal.sum(), np.finfo(np.float64).tiny)))
    return Agreement(
        argmax=float((baseline.argmax(axis=1) == model.argmax(axis=1)).mean()),
        relative_l2=overall,
        relative_l2_median=float(np.median(ratios)),
        relative_l2_worst=float(ratios.max()),
        sqnr_db=-20 * float(np.log10(overall)) if overall > 0 else None,
        kl=max(float(kl.mean()), 0.0),  # rounding can leave -1e-17
    )


def class_losses(
    baseline_right: npt.NDArray[np.bool_], model_right: npt.NDArray[np.bool_], labels: Labels
) -> tuple[ClassLoss, ...]:
    """Every class that has images, the ones that lost most first.

    Args:
        baseline_right: (n,) bool.
        model_right: (n,) bool.
        labels: (n,) int64.
    """
    classes, index, images = np.unique(labels, return_inverse=True, return_counts=True)
    before = np.bincount(index, weights=baseline_right, minlength=len(classes)).astype(int)
    after = np.bincount(index, weights=model_right, minlength=len(classes)).astype(int)
    order = np.lexsort((classes, -(before - after)))
    return tuple(
        ClassLoss(
            label=int(classes[i]), images=int(images[i]), baseline_right=int(before[i]), model_right=int(after[i])
        )
        for i in order
    )
