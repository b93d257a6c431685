"""What each layer's quantization alone does to the outputs, and why."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from vit_edge.export.quantization.observation import Observation, TokenPeaks
from vit_edge.export.quantization.planning import SitePlan
from vit_edge.export.quantization.ranges import Range
from vit_edge.export.quantization.trial import compare, run

__all__ = ["Writer", "damages", "describe_shape", "describe_streams"]

Array = npt.NDArray[np.float32]
Writer = Callable[[ir.Model, Mapping[str, Range], Mapping[str, Array]], ir.Model]

_OUTLYING = 10.0  # max / p99.9: 85.6 in the real ViT-Tiny's one bad layer, 7.5 in the next
_FEW_CHANNELS, _FEW_TOKENS = 8, 0.05
_USUAL = 0.9


def damages(
    model: ir.Model,
    plans: Mapping[str, SitePlan],
    write: Writer,
    images: Sequence[Array],
    reference: Array,
) -> dict[str, float]:
    """Relative L2 of the outputs when one site is quantized, as it is, and everything else is float.

    Args:
        model: the float graph.
        plans: of every site, without remedies.
        write: puts the integer arithmetic of the scheme into a graph.
        images: (C, height, width) float32, normalised; 8 to 16 do.
        reference: the float graph's outputs for them.
    """
    found = {}
    for name, plan in plans.items():
        found[name] = compare(run(write(model, {name: plan.range}, {}), images), reference, classes=False).l2
    return found


@dataclass(frozen=True, slots=True)
class Shape:
    """Where a tensor's large values are.

    Attributes:
        largest: magnitude.
        p999: 99.9th percentile of magnitudes.
        usual: what nine in ten channels stay below.
        channels: the few channels that reach beyond half of the largest, where only few do.
        tokens: the same for places in the sequence.
    """

    largest: float
    p999: float
    usual: float
    channels: tuple[int, ...]
    tokens: tuple[int, ...]


def shape_of(seen: Observation) -> Shape:
    """Tell outlier channels from outlier tokens."""
    largest = float(seen.peak.max())
    channels = np.flatnonzero(seen.peak > largest / 2)
    tokens = np.flatnonzero(seen.token_peak > largest / 2)
    few_channels = len(channels) <= _FEW_CHANNELS
    few_tokens = len(tokens) <= max(1, _FEW_TOKENS * len(seen.token_peak)) and len(seen.token_peak) > 1
    return Shape(
        largest,
        seen.p999,
        float(np.quantile(seen.peak, _USUAL)),
        tuple(channels.tolist()) if few_channels else (),
        tuple(tokens.tolist()) if few_tokens else (),
    )


def describe_shape(seen: Observation) -> str:
    """In words, for people; empty where nothing is unusual."""
    shape = shape_of(seen)
    rare, alone = shape.largest >= _OUTLYING * shape.p999, shape.largest >= _OUTLYING * shape.usual
    if not rare and not (alone and shape.channels):
        return ""
    usual, what = (shape.p999, "the 99.9th percentile") if rare else (shape.usual, "nine in ten other channels")
    ratio = f"{shape.largest:.3g}, {shape.largest / max(usual, 1e-9):.0f} times {what}"
    if shape.tokens and not shape.channels:
        return f"outlier {_listed('token', shape.tokens)}: up to {ratio}"
    if shape.channels:
        where = f" in {_listed('token', shape.tokens)}" if shape.tokens else ""
        return f"outlier {_listed('channel', shape.channels)}{where}: up to {ratio}"
    return f"large values in many channels and tokens: up to {ratio}"


def _listed(word: str, numbers: Sequence[int]) -> str:
    return f"{word}{'s' if len(numbers) > 1 else ''} {', '.join(map(str, numbers))}"


def describe_streams(peaks: Mapping[str, TokenPeaks]) -> str:
    """Outlier tokens of the residual stream, in words; empty where there are none."""
    most = max(peaks.values(), key=lambda each: float(each.ratio.max()), default=None)
    if most is None or not most.outliers.any():
        return ""
    an_image = most.outliers.sum() / most.images
    if an_image > max(1.0, _FEW_TOKENS * len(most.ratio)):
        return ""
    where = np.flatnonzero(most.outliers >= most.images / 2)
    named = _listed("token", where.tolist()) if len(where) else f"{an_image:.1f} tokens an image, not always the same,"
    return (
        f"outliers in the residual stream: {named} up to {most.ratio.max():.0f} times the median token; "
        "the stream and its normalisation stay float"
    )
