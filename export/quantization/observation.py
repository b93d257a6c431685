"""What calibration images do to the tensors that are to be quantized: extremes of all, and a bounded sample of rows."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from vit_edge.export.model_file import open_graph

__all__ = ["Observation", "observe"]

Array = npt.NDArray[np.float32]

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


def observe(
    model: ir.Model,
    values: Sequence[str],
    images: Iterable[Array],
    count: int,
    *,
    progress: Callable[[int], None] = lambda done: None,
) -> tuple[dict[str, Observation], Array]:
    """Run a graph over images one at a time and look at some of its tensors.

    Args:
        model: not changed.
        values: the tensors' names; each is (1, ..., K).
        images: (C, height, width) float32, normalised.
        count: how many images there are.
        progress: called with the number of images done.

    Returns:
        What was seen by name, and the graph's outputs (count, ...).
    """
    session = open_graph(_with_outputs(model, values))
    name = session.get_inputs()[0].name
    rng = np.random.default_rng(0)
    seen: dict[str, Observation] = {}
    outputs, share = [], 0
    for done, image in enumerate(images, start=1):
        first, *tensors = session.run(None, {name: image[None]})
        outputs.append(first[0])
        flat = [tensor.reshape(-1, tensor.shape[-1]) for tensor in tensors]
        share = share or _rows_an_image(flat, count)
        for value, tensor in zip(values, flat, strict=True):
            _add(seen, value, tensor, rng, share)
        progress(done)
    for each in seen.values():
        each.rows = np.concatenate(each._kept)
        each._kept.clear()
    return seen, np.stack(outputs)


def _with_outputs(model: ir.Model, values: Sequence[str]) -> ir.Model:
    clone = model.clone()
    by_name: Mapping[str | None, ir.Value] = {value.name: value for node in clone.graph for value in node.outputs}
    clone.graph.outputs[:] = [clone.graph.outputs[0], *(by_name[value] for value in values)]
    return clone


def _rows_an_image(tensors: Sequence[Array], count: int) -> int:
    """So that the sample of all sites stays within its budget."""
    row_bytes = sum(4 * tensor.shape[1] for tensor in tensors)
    rows = min(_MOST_ROWS, max(_FEWEST_ROWS, _SAMPLE_BYTES // max(1, row_bytes)))
    return int(max(1, rows // count))


def _add(seen: dict[str, Observation], value: str, tensor: Array, rng: np.random.Generator, share: int) -> None:
    low, high = tensor.min(axis=0), tensor.max(axis=0)
    tokens = np.abs(tensor).max(axis=1)
    each = seen.get(value)
    if each is None:
        seen[value] = each = Observation(low, high, tokens, tensor[:0])
    else:
        np.minimum(each.low, low, out=each.low)
        np.maximum(each.high, high, out=each.high)
        np.maximum(each.token_peak, tokens, out=each.token_peak)
    chosen = rng.choice(len(tensor), size=min(share, len(tensor)), replace=False)
    each._kept.append(tensor[chosen])
