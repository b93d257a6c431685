"""What calibration images do to the tensors that are to be quantized: extremes of all, and a bounded sample of rows."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from vit_edge.export.model_file import open_graph

__all__ = ["Observation", "TokenPeaks", "observe"]

Array = npt.NDArray[np.float32]

OUTLYING = 10.0  # times the median token's peak
_SAMPLE_BYTES = 192 << 20  # of all sites together, whatever the number of images
_MOST_ROWS, _FEWEST_ROWS = 2048, 256


@dataclass(slots=True)
class Observation:
    """One tensor (..., K), over all images.

    Attributes:
        low: smallest value of each channel, (K,).
        high: largest value of each channel, (K,).
        token_peak: largest magnitude at each token's place, (T,); one entry where the tensor has no tokens.
        rows: tokens of all images, chosen at random, (R, K).
    """

    low: Array
    high: Array
    token_peak: Array
    rows: Array
    _kept: list[Array] = field(default_factory=list, repr=False)

    @property
    def peak(self) -> Array:
        """Largest magnitude of each channel, (K,)."""
        return np.maximum(-self.low, self.high)

    @property
    def p999(self) -> float:
        """The 99.9th percentile of all magnitudes, from the sample."""
        return float(np.quantile(np.abs(self.rows), 0.999))


@dataclass(slots=True)
class TokenPeaks:
    """The tokens of one tensor (1, T, K) that stand out, over all images.

    Attributes:
        ratio: the token's largest magnitude over that of the image's median token, its maximum over images, (T,).
        outliers: how often each place had `OUTLYING` times the median, (T,).
        images: how many images were seen.
    """

    ratio: Array
    outliers: npt.NDArray[np.int64]
    images: int = 0

    def add(self, peak: Array) -> None:
        """One more image: (T,)."""
        ratio = peak / max(float(np.median(peak)), 1e-9)
        np.maximum(self.ratio, ratio, out=self.ratio)
        self.outliers += ratio >= OUTLYING
        self.images += 1


def observe(
    model: ir.Model,
    values: Sequence[str],
    images: Iterable[Array],
    count: int,
    *,
    streams: Sequence[str] = (),
    progress: Callable[[int], None] = lambda done: None,
) -> tuple[dict[str, Observation], dict[str, TokenPeaks], Array]:
    """Run a graph over images one at a time and look at some of its tensors.

    Args:
        model: not changed.
        values: the tensors' names; each is (1, ..., K).
        images: (C, height, width) float32, normalised.
        count: how many images there are.
        streams: names of tensors, (1, T, K), of which only the tokens' peaks are wanted.
        progress: called with the number of images done.

    Returns:
        What was seen by name; the tokens of the streams; and the graph's outputs, (count, outputs).
    """
    session = open_graph(_with_outputs(model, [*values, *streams]))
    name = session.get_inputs()[0].name
    rng = np.random.default_rng(0)
    seen: dict[str, Observation] = {}
    peaks: dict[str, TokenPeaks] = {}
    outputs, share = [], 0
    for done, image in enumerate(images, start=1):
        first, *tensors = session.run(None, {name: image[None]})
        outputs.append(first.ravel())
        share = share or _rows_an_image(tensors[: len(values)], count)
        for value, tensor in zip(values, tensors, strict=False):
            _add(seen, value, tensor, rng, share)
        for value, tensor in zip(streams, tensors[len(values) :], strict=True):
            peak = _token_peak(tensor)
            peaks.setdefault(value, TokenPeaks(np.zeros_like(peak), np.zeros(len(peak), np.int64))).add(peak)
        progress(done)
    for each in seen.values():
        each.rows = np.concatenate(each._kept)
        each._kept.clear()
    return seen, peaks, np.stack(outputs)


def _token_peak(tensor: Array) -> Array:
    """Largest magnitude of each token of (1, T, K); of anything else, of the whole."""
    if tensor.ndim != 3 or tensor.shape[0] != 1:
        return np.array([np.abs(tensor).max()], np.float32)
    peak: Array = np.abs(tensor[0]).max(axis=1)
    return peak


def _with_outputs(model: ir.Model, values: Sequence[str]) -> ir.Model:
    clone = model.clone()
    by_name: Mapping[str | None, ir.Value] = {value.name: value for node in clone.graph for value in node.outputs}
    clone.graph.outputs[:] = [clone.graph.outputs[0], *(by_name[value] for value in values)]
    return clone


def _rows_an_image(tensors: Sequence[Array], count: int) -> int:
    """So that the sample of all sites stays within its budget."""
    row_bytes = sum(4 * tensor.shape[-1] for tensor in tensors)
    rows = min(_MOST_ROWS, max(_FEWEST_ROWS, _SAMPLE_BYTES // max(1, row_bytes)))
    return int(max(1, rows // count))


def _add(seen: dict[str, Observation], value: str, tensor: Array, rng: np.random.Generator, share: int) -> None:
    tokens, tensor = _token_peak(tensor), tensor.reshape(-1, tensor.shape[-1])
    low, high = tensor.min(axis=0), tensor.max(axis=0)
    each = seen.get(value)
    if each is None:
        seen[value] = each = Observation(low, high, tokens, tensor[:0])
    else:
        np.minimum(each.low, low, out=each.low)
        np.maximum(each.high, high, out=each.high)
        np.maximum(each.token_peak, tokens, out=each.token_peak)
    chosen = rng.choice(len(tensor), size=min(share, len(tensor)), replace=False)
    each._kept.append(tensor[chosen])
