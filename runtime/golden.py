"""The golden check: a file's own synthetic images and what the model must say to them.

The images are made of 32-bit integer arithmetic alone, so that every language makes the same ones. All
operations are on unsigned 32-bit integers that wrap around; in JavaScript `a * b` is `Math.imul(a, b)`, every
result ends in `>>> 0`, and a division by a size is `Math.floor(a / b)`.

Set "golden-1": image `n` of `height` x `width` pixels with `channels` channels::

    mix(x):                                      # the finaliser of MurmurHash3
        x ^= x >> 16;  x *= 0x85EBCA6B
        x ^= x >> 13;  x *= 0xC2B2AE35
        x ^= x >> 16
        return x

    value(n, s, c, y, x) = mix(mix(mix(mix(mix(0x76697465 + n) + s) + c) + y) + x) >> 24     # 0..255

    CELLS = [2, 4, 8, 16]                        # scale s = 0..3: blocks, so many a side; s = 4: every pixel
    WEIGHTS = [6, 4, 3, 2, 1]                    # sum 16

    sum = 0
    for s in 0..4:
        row, column = y, x                                             for s = 4
        row, column = y * CELLS[s] / height, x * CELLS[s] / width      otherwise (rounded down)
        sum += WEIGHTS[(s + n) % 5] * value(n, s, c, row, column)
    pixel = clamp(128 + ((sum - 2040) >> 3), 0, 255)                   # signed, >> rounds down

The weights move with `n`: some images are coarse patches of colour, others mostly noise.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from vit_edge.runtime.errors import ModelFileError
from vit_edge.runtime.manifest import Manifest
from vit_edge.runtime.preprocess import normalise

__all__ = ["GOLDEN_SET", "GoldenReport", "check_golden", "golden_images"]

GOLDEN_SET = "golden-1"
_SEED = 0x76697465  # "vite"
_CELLS = (2, 4, 8, 16)
_WEIGHTS = (6, 4, 3, 2, 1)

UInt32 = npt.NDArray[np.uint32]


def _mix(x: UInt32) -> UInt32:
    """The finaliser of MurmurHash3; arrays of uint32 wrap around without a warning."""
    x = (x ^ (x >> np.uint32(16))) * np.uint32(0x85EBCA6B)
    x = (x ^ (x >> np.uint32(13))) * np.uint32(0xC2B2AE35)
    x ^= x >> np.uint32(16)
    return x


def _values(index: int, scale: int, channels: int, rows: UInt32, columns: UInt32) -> npt.NDArray[np.int32]:
    """`value(index, scale, c, y, x)` for all channels, rows and columns: (H, W, C) int32, 0..255."""
    key = _mix(np.full(channels, _SEED + index, np.uint32))
    key = _mix(np.add(key, scale, dtype=np.uint32))
    key = _mix(np.add(key, np.arange(channels, dtype=np.uint32), dtype=np.uint32))  # (C,)
    key = _mix(key + rows[:, None])  # (H, C)
    key = _mix(key[:, None, :] + columns[:, None])  # (H, W, C)
    values: npt.NDArray[np.int32] = (key >> np.uint32(24)).astype(np.int32)
    return values


def _image(index: int, height: int, width: int, channels: int) -> npt.NDArray[np.int32]:
    """Image `index`: (H, W, C) int32, 0..255."""
    y, x = np.arange(height, dtype=np.uint32), np.arange(width, dtype=np.uint32)
    total = _WEIGHTS[(4 + index) % 5] * _values(index, 4, channels, y, x)
    for scale, cells in enumerate(_CELLS):
        cell = np.arange(cells, dtype=np.uint32)
        blocks = _values(index, scale, channels, cell, cell)
        rows, columns = y * np.uint32(cells) // np.uint32(height), x * np.uint32(cells) // np.uint32(width)
        total += _WEIGHTS[(scale + index) % 5] * blocks[rows][:, columns]
    return np.clip(128 + ((total - 2040) >> 3), 0, 255, out=total)


def golden_images(
    count: int, height: int, width: int, channels: int, set_id: str = GOLDEN_SET
) -> npt.NDArray[np.uint8]:
    """The first images of a golden set, the same bits on every machine and in every language.

    Args:
        count: How many; image `i` does not depend on it.
        height: In pixels.
        width: In pixels.
        channels: 3 for colour, 1 for grey.
        set_id: Which algorithm; "golden-1" is the only one yet.

    Returns:
        (count, height, width, channels) uint8, 0..255.

    Raises:
        ModelFileError: The set is unknown here.
    """
    if set_id != GOLDEN_SET:
        raise ModelFileError(f"unknown golden set {set_id[:80]!r}, expected {GOLDEN_SET!r}: pip install -U vit-edge")
    images = np.empty((count, height, width, channels), np.uint8)
    for index in range(count):
        images[index] = _image(index, height, width, channels)
    return images


@dataclass(frozen=True, slots=True, kw_only=True)
class GoldenReport:
    """What the golden check found."""

    passed: bool
    worst: float  # max|difference| / max|expected| of the worst image; infinite for NaN or a wrong shape
    tolerance: float
    argmax_equal: bool  # in all images whose first two values lie further apart than twice the tolerance
    message: str


def _relative_error(got: npt.NDArray[np.float64], expected: npt.NDArray[np.float64]) -> float:
    """max|got - expected| / max|expected|; infinite where that is not a number."""
    scale, error = float(np.abs(expected).max()), float(np.abs(got - expected).max())
    if not np.isfinite(error):
        return float("inf")
    return error / scale if scale > 0 else (0.0 if error == 0 else float("inf"))


def _same_argmax(got: npt.NDArray[np.float64], expected: npt.NDArray[np.float64], tolerance: float) -> bool:
    if expected.size < 2:
        return True
    second, first = np.partition(expected, -2)[-2:]
    clear = first - second > 2 * tolerance * np.abs(expected).max()
    return not clear or int(got.argmax()) == int(expected.argmax())


def check_golden(manifest: Manifest, run: Callable[[npt.NDArray[np.float32]], npt.NDArray[np.float32]]) -> GoldenReport:
    """Run the golden images, one at a time, and compare with the outputs in the manifest.

    Args:
        manifest: The model file's manifest.
        run: The model: (1, C, H, W) float32, normalised -> (1, classes) float32.
    """
    spec, golden = manifest.input.preprocess, manifest.golden
    images = golden_images(golden.count, *spec.size, spec.channels, golden.set_id)
    errors, argmax_equal = [], True
    for index, values in enumerate(golden.outputs):
        expected = np.array(values, np.float64)
        got = run(normalise(images[index : index + 1], spec)).astype(np.float64)
        if got.shape != (1, expected.size):
            errors.append(float("inf"))
            continue
        errors.append(_relative_error(got[0], expected))
        argmax_equal = argmax_equal and _same_argmax(got[0], expected, golden.tolerance)
    worst = max(errors)
    passed = worst <= golden.tolerance and argmax_equal
    verdict = "passed" if passed else "failed"
    message = (
        f"golden check {verdict}: over {golden.count} images the outputs are at most {worst:.2g} off, "
        f"relative to the largest expected one ({golden.tolerance:.2g} is allowed)"
    )
    return GoldenReport(
        passed=passed,
        worst=worst,
        tolerance=golden.tolerance,
        argmax_equal=argmax_equal,
        message=message,
    )
