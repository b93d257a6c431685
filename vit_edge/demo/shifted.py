"""Images for the demo's quantization: the ten digits that ship with the package, moved by some pixels."""

from collections.abc import Iterator
from importlib import resources
from pathlib import Path

import numpy as np
from PIL import Image

__all__ = ["write_shifted"]

_FAR = 2  # pixels; the strokes stay inside the image


def write_shifted(calibration: Path, test: Path) -> None:
    """Write 130 images without labels, and 120 others in one folder per digit.

    Args:
        calibration: the folder of the first.
        test: the folder of the second.
    """
    for digit in range(10):
        with resources.as_file(resources.files("vit_edge.demo") / "digits" / f"{digit}.png") as path:
            pixels = np.asarray(Image.open(path))
        for name, moved, odd in _moved(pixels):
            folder = test / str(digit) if odd else calibration
            folder.mkdir(parents=True, exist_ok=True)
            Image.fromarray(moved).save(folder / f"{digit}{name}.png")


def _moved(pixels: np.ndarray) -> Iterator[tuple[str, np.ndarray, bool]]:
    """Name, image, and whether the two shifts add up to an odd number."""
    for down in range(-_FAR, _FAR + 1):
        for right in range(-_FAR, _FAR + 1):
            yield f"{down:+}{right:+}", np.roll(pixels, (down, right), axis=(0, 1)), bool((down + right) % 2)
