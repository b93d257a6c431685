"""Which range of an activation the 256 levels of uint8 cover: the one with the least error behind the layer."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

__all__ = ["Range", "choose_range", "quantize_weight", "round_trip"]

Array = npt.NDArray[np.float32]

_SHRINK = np.geomspace(1.0, 0.05, 40)  # of the largest magnitude seen: how much is clipped away
_SEARCH_ROWS = 512


@dataclass(frozen=True, slots=True)
class Range:
    """Scale and zero point of q = round(x / scale) + zero_point, clipped to 0 ... levels - 1.

    `error` is the expected squared error of the layer's outputs that it causes, an output row.
    """

    scale: float
    zero_point: int
    error: float
    levels: int = 256


def _range(low: float, high: float, levels: int) -> tuple[float, int]:
    """Scale and zero point that cover low ... high; zero is always a level, as ONNX and padding need it."""
    low, high = min(low, 0.0), max(high, 0.0)
    scale = float(np.float32(max((high - low) / (levels - 1), 1e-12)))
    return scale, int(np.clip(round(-low / scale), 0, levels - 1))


def round_trip(x: Array, scale: float, zero_point: int, levels: int = 256) -> Array:
    """What is left of x after quantization, as QuantizeLinear rounds (half to even)."""
    q = np.clip(np.rint(x / np.float32(scale)) + zero_point, 0, levels - 1)
    made: Array = ((q - zero_point) * np.float32(scale)).astype(np.float32)
    return made


def choose_range(rows: Array, low: float, high: float, weight: Array, levels: int = 256) -> Range:
    """Search the range whose rounding and clipping disturb x W least.

    Errors of different channels are taken as independent, so that channel c counts with the squared length of row c
    of W: E|(Q(x) - x) W|^2 = sum over c of E(Q(x_c) - x_c)^2 |W_c|^2. Candidates cut the larger side first.

    Args:
        rows: a sample of x, (R, K).
        low: smallest value seen.
        high: largest value seen.
        weight: (K, N); rows of zeros leave their channel out of account.
        levels: of the integers, 256 or 65536.
    """
    importance = np.square(weight, dtype=np.float64).sum(axis=1)
    used = importance > 0
    sample = rows[:: max(1, len(rows) // _SEARCH_ROWS), used]
    best: Range | None = None
    for shrink in _SHRINK:
        bound = shrink * max(-low, high)
        scale, zero = _range(max(low, -bound), min(high, bound), levels)
        difference = round_trip(sample, scale, zero, levels) - sample
        error = float(np.square(difference).mean(axis=0, dtype=np.float64) @ importance[used])
        if best is None or error < best.error:
            best = Range(scale, zero, error, levels)
    assert best is not None
    return best


def quantize_weight(weight: Array) -> tuple[npt.NDArray[np.int8], Array]:
    """Symmetric int8, one scale an output channel, which covers its largest magnitude.

    Args:
        weight: (K, N).

    Returns:
        (K, N) int8 in -127 ... 127, and the scales (N,) float32.
    """
    peak = np.abs(weight).max(axis=0)
    scale = np.where(peak > 0, peak / 127, 1.0).astype(np.float32)
    return np.clip(np.rint(weight / scale), -127, 127).astype(np.int8), scale
