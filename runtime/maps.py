"""Maps as pictures: what a saliency or depth model says about an image, for the eye."""

from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import numpy.typing as npt

from vit_edge.runtime.errors import ConfigError

__all__ = ["map_pixels", "write_map"]


def map_pixels(values: npt.NDArray[np.float32]) -> npt.NDArray[np.uint8]:
    """Scale a map to grey levels: 0..1 to 0..255; a map outside 0..1 from its own minimum to its maximum.

    Args:
        values: (height, width) float32, finite.

    Returns:
        (height, width) uint8; a map that is the same everywhere and outside 0..1 is black.
    """
    low, high = float(values.min()), float(values.max())
    scaled = values.astype(np.float64)
    if low < 0 or high > 1:
        scaled = (scaled - low) / (high - low) if high > low else np.zeros_like(scaled)
    return np.rint(255 * scaled).astype(np.uint8)


def write_map(values: npt.NDArray[np.float32], path: Path) -> None:
    """Write a map as a greyscale PNG; the file appears whole or not at all.

    Args:
        values: (height, width) float32, finite.
        path: In a folder that exists.

    Raises:
        ConfigError: It cannot be written there.
    """
    from PIL import Image

    image = Image.fromarray(map_pixels(values))
    try:
        with TemporaryDirectory(prefix=f".{path.name}.", dir=path.parent) as folder:
            made = Path(folder) / path.name
            image.save(made, "PNG")
            made.replace(path)
    except OSError as error:
        raise ConfigError(f"{path}: cannot be written: {error.strerror or error}") from error
