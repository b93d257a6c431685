"""From a decoded image to the model's input, exactly as a `Preprocess` says.

The arithmetic follows the Pillow paths of timm, torchvision and transformers pixel by pixel, so that a model
sees the same numbers on a device as in the library it was trained with. Where those libraries differ (how the
long side is rounded, where a crop starts, where padding goes) the record says which rule holds.

In order: upright (EXIF) -> RGB or grey -> resize -> centre crop or pad -> x / 255 -> (x - mean) / std.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from vit_edge.runtime.errors import InputError
from vit_edge.runtime.images import MAX_PIXELS, to_mode
from vit_edge.runtime.preprocess_spec import Preprocess

if TYPE_CHECKING:
    from PIL import Image

__all__ = ["Preprocess", "centre_window", "crop_to_size", "normalise", "prepare", "resized_size"]


def resized_size(image_size: tuple[int, int], spec: Preprocess) -> tuple[int, int]:
    """Return the (height, width) that an image of `image_size` (height, width) has after the resize.

    With rounding `floor` the rules are those of torchvision `functional._compute_resized_output_size` and
    transformers `get_resize_output_image_size`, with `half_even` those of timm `ResizeKeepRatio.get_params`.
    A side never becomes less than one pixel.
    """
    height, width = image_size
    if spec.resize == "none":
        return image_size
    if spec.resize == "exact":
        return spec.resize_to
    if spec.resize_rounding == "floor":
        short = spec.resize_to[0]
        long = int(short * max(image_size) / min(image_size))
        return (long, short) if width <= height else (short, long)
    ratios = (height / spec.resize_to[0], width / spec.resize_to[1])
    ratio = min(ratios) if spec.resize == "short_side" else max(ratios)
    return max(1, round(height / ratio)), max(1, round(width / ratio))


def _resize(image: Image.Image, spec: Preprocess) -> Image.Image:
    from PIL import Image

    height, width = resized_size((image.height, image.width), spec)
    if height * width > MAX_PIXELS:
        raise InputError(
            f"got an image of {image.width} x {image.height} pixels, resized {width} x {height}, "
            f"expected at most {MAX_PIXELS} pixels; cut it to a less extreme shape first"
        )
    if (height, width) == (image.height, image.width):
        return image
    return image.resize((width, height), Image.Resampling[spec.interpolation.upper()])


def centre_window(length: int, target: int, spec: Preprocess) -> tuple[int, int, int]:
    """Place one side of an image centred on one side of the model's input.

    torchvision `center_crop` and timm `center_crop_or_pad` round the start of a crop half to even and pad
    with the smaller half first; transformers `image_transforms.center_crop` rounds the start down and pads
    with the larger half first.

    Args:
        length: The image's side in pixels.
        target: The model's side in pixels.
        spec: Gives the rounding rules.

    Returns:
        The first image pixel used, the place it goes to, and how many pixels are used.
    """
    excess = length - target
    if excess >= 0:
        return (excess // 2 if spec.crop_rounding == "floor" else round(excess / 2)), 0, target
    lack = -excess
    return 0, (lack // 2 if spec.pad_rounding == "floor" else (lack + 1) // 2), length


def crop_to_size(image: Image.Image, spec: Preprocess) -> npt.NDArray[np.uint8]:
    """Bring an image to the model's size.

    Args:
        image: Any size, any mode that `to_mode` takes.
        spec: The preprocessing.

    Returns:
        (H, W, C) uint8, 0..255, RGB or grey, C-contiguous.
    """
    resized = _resize(to_mode(image, spec.channels, exif=spec.exif), spec)
    pixels = np.asarray(resized).reshape(resized.height, resized.width, spec.channels)
    top, to_top, rows = centre_window(resized.height, spec.size[0], spec)
    left, to_left, columns = centre_window(resized.width, spec.size[1], spec)
    canvas = np.empty((*spec.size, spec.channels), np.uint8)  # (H, W, C)
    canvas[:] = spec.fill
    canvas[to_top : to_top + rows, to_left : to_left + columns] = pixels[top : top + rows, left : left + columns]
    return canvas


def normalise(pixels: npt.NDArray[np.uint8], spec: Preprocess) -> npt.NDArray[np.float32]:
    """Scale, shift and transpose pixels, in float32 as torchvision's `ToTensor` and `Normalize` do.

    Args:
        pixels: (N, H, W, C) uint8, 0..255, RGB or grey, of the model's size.
        spec: The preprocessing.

    Returns:
        (N, C, H, W) float32, normalised, C-contiguous.
    """
    expected = (*spec.size, spec.channels)
    if pixels.dtype != np.uint8 or pixels.ndim != 4 or pixels.shape[1:] != expected:
        raise InputError(
            f"got pixels of {pixels.dtype} {pixels.shape}, "
            f"expected uint8 (N, {', '.join(map(str, expected))}); use crop_to_size first"
        )
    mean = np.asarray(spec.mean, np.float32).reshape(-1, 1, 1)
    std = np.asarray(spec.std, np.float32).reshape(-1, 1, 1)
    # Transposing the bytes first is seven times faster than reading them crosswise into floats.
    planes = np.ascontiguousarray(pixels.transpose(0, 3, 1, 2)).astype(np.float32)  # (N, C, H, W)
    planes /= np.float32(255)
    planes -= mean
    planes /= std
    return planes


def prepare(image: Image.Image, spec: Preprocess) -> npt.NDArray[np.float32]:
    """Turn one image into the model's input.

    Args:
        image: Any size, any mode that `to_mode` takes.
        spec: The preprocessing.

    Returns:
        (C, H, W) float32, normalised, C-contiguous.
    """
    planes = normalise(crop_to_size(image, spec)[np.newaxis], spec)
    return planes.reshape(planes.shape[1:])
