"""Decoding: from what a caller has (a path, bytes, an array, a PIL image) to upright RGB or grey pixels.

Every mode Pillow reads becomes what a person sees: transparency lies on white, 16-bit grey keeps its high
byte, CMYK becomes RGB, an animation gives its first frame. Colour profiles are ignored, as timm and
transformers do.
"""

from __future__ import annotations

import os
import struct
import threading
import warnings
import zlib
from io import BytesIO
from pathlib import Path
from typing import IO, TYPE_CHECKING, TypeAlias

import numpy as np
import numpy.typing as npt

from vit_edge.runtime.arguments import special_file, url_problem
from vit_edge.runtime.errors import InputError
from vit_edge.runtime.signatures import image_kind

if TYPE_CHECKING:
    from PIL import Image

ImageLike: TypeAlias = "str | os.PathLike[str] | bytes | Image.Image | npt.NDArray[np.uint8]"

_WARNINGS = threading.Lock()  # their filters belong to the whole process
MAX_PIXELS = 178_956_970  # where Pillow, too, speaks of a decompression bomb: 0.5 GB of RGB
SUFFIXES = frozenset({".jpg", ".jpeg", ".png", ".webp", ".bmp", ".gif", ".tif", ".tiff", ".ppm", ".pgm"})

# What Pillow's decoders raise on damaged files; UnidentifiedImageError is an OSError.
_DECODER_ERRORS = (
    OSError,
    SyntaxError,
    ValueError,
    EOFError,
    IndexError,
    KeyError,
    TypeError,
    OverflowError,
    struct.error,
    zlib.error,
)
_HIGH_BYTE_MODES = frozenset({"I", "I;16", "I;16L", "I;16B", "I;16N"})
_COLOUR_MODES = frozenset({"1", "L", "P", "PA", "LA", "RGB", "RGBA", "RGBa", "RGBX", "CMYK", "YCbCr", "HSV"})
_EXIF_ORIENTATION = 0x0112


def _check_pixels(image: Image.Image, name: str, max_pixels: int) -> None:
    if image.width * image.height > max_pixels:
        raise InputError(
            f"{name}: got an image of {image.width} x {image.height} pixels, "
            f"expected at most {max_pixels} pixels; make it smaller first"
        )


def _load(image: Image.Image, name: str) -> Image.Image:
    """Decode the pixels of an opened image, those of the first frame if there are several."""
    if image.width < 1 or image.height < 1:
        raise InputError(f"{name}: got an image of {image.width} x {image.height} pixels, expected at least 1 x 1")
    try:
        image.load()
    except _DECODER_ERRORS as error:
        if "closed" in str(error):
            raise InputError(f"{name}: got a closed image, expected an open one; close it afterwards") from error
        reason = " ".join(str(error).split())[:120]
        raise InputError(
            f"{name}: got an image that cannot be decoded ({reason}), expected a whole file; "
            "it is truncated or damaged, fetch it again"
        ) from error
    return image


def _unreadable(stream: IO[bytes], name: str) -> str:
    """What a file is that Pillow cannot open."""
    stream.seek(0)
    kind = image_kind(stream.read(16))
    if kind is not None:
        return f"got a truncated or damaged {kind} image, expected a whole one; fetch it again"
    if name.endswith(".onnx"):
        return "got a model, expected an image; the model comes first, then images"
    return "got data that is no readable image, expected JPEG, PNG, WebP, BMP, GIF, TIFF or PPM; check what it is"


def _open(stream: IO[bytes], name: str, max_pixels: int) -> Image.Image:
    from PIL import Image

    try:
        with _WARNINGS, warnings.catch_warnings():
            warnings.simplefilter("ignore", Image.DecompressionBombWarning)  # `max_pixels` is the limit here
            image = Image.open(stream)
    except Image.DecompressionBombError as error:
        raise InputError(
            f"{name}: got too large an image, expected at most {max_pixels} pixels; make it smaller first"
        ) from error
    except _DECODER_ERRORS as error:
        raise InputError(f"{name}: {_unreadable(stream, name)}") from error
    _check_pixels(image, name, max_pixels)
    return _load(image, name)


def _decode_file(path: Path, max_pixels: int) -> Image.Image:
    try:
        problem = special_file(path) or (None if path.stat().st_size else "is empty")
        if problem is not None:
            hint = "; find_images lists what it holds" if path.is_dir() else "; check the path"
            raise InputError(f"{path}: {problem}, expected an image file{hint}")
        with path.open("rb") as stream:
            return _open(stream, str(path), max_pixels)
    except OSError as error:
        raise InputError(
            f"{path}: cannot be read ({error.strerror}), expected an image file; check its permissions"
        ) from error


def _from_array(pixels: npt.NDArray[np.uint8]) -> Image.Image:
    from PIL import Image

    expected = "expected uint8 (H, W), (H, W, 1), (H, W, 3) RGB or (H, W, 4) RGBA"
    got = f"got an array of {pixels.dtype} {pixels.shape}"
    if pixels.dtype != np.uint8:
        raise InputError(f"{got}, {expected}; convert it to 0..255 first")
    if pixels.ndim not in (2, 3) or (pixels.ndim == 3 and pixels.shape[2] not in (1, 3, 4)):
        hint = "transpose it to channels last first" if pixels.ndim == 3 else "pass one image at a time"
        raise InputError(f"{got}, {expected}; {hint}")
    if pixels.size == 0:
        raise InputError(f"{got}, {expected} with at least one pixel; check how it was cut out")
    if pixels.ndim == 3 and pixels.shape[2] == 1:
        pixels = pixels[:, :, 0]
    return Image.fromarray(np.ascontiguousarray(pixels))


def decode(source: ImageLike, *, max_pixels: int = MAX_PIXELS) -> Image.Image:
    """Open and decode one image.

    Args:
        source: A path, the bytes of an image file, a PIL image, or an array of (H, W), (H, W, 1),
            (H, W, 3) or (H, W, 4) uint8, 0..255: grey, RGB or RGBA.
        max_pixels: Refuse images with more pixels than this, before decoding them.

    Returns:
        The decoded image in its own mode, not yet turned upright: `to_mode` does that.

    Raises:
        InputError: Nothing usable is there; the message says what was found.
    """
    from PIL import Image

    if isinstance(source, Image.Image):
        _check_pixels(source, "image", max_pixels)
        return _load(source, "image")
    if isinstance(source, np.ndarray):
        image = _from_array(source)
        _check_pixels(image, "array", max_pixels)
        return image
    if isinstance(source, bytes):
        if not source:
            raise InputError("got 0 bytes, expected the content of an image file; check where they come from")
        return _open(BytesIO(source), f"{len(source)} bytes", max_pixels)
    if isinstance(source, str | os.PathLike) and isinstance(os.fspath(source), str):
        problem = url_problem(os.fspath(source))
        if problem is not None:
            raise InputError(f"{source} {problem}")
        return _decode_file(Path(source), max_pixels)
    raise InputError(f"got a {type(source).__name__}, expected a path, bytes, a PIL image or a uint8 array")


def _orientation(image: Image.Image) -> int:
    """Return the EXIF orientation, 1 (upright) where it is absent or damaged."""
    try:
        value = image.getexif().get(_EXIF_ORIENTATION, 1)
    except _DECODER_ERRORS:  # a damaged EXIF block does not spoil the pixels
        return 1
    return value if isinstance(value, int) else 1


def _upright(image: Image.Image) -> Image.Image:
    from PIL import Image

    turn = Image.Transpose
    turns = {
        2: turn.FLIP_LEFT_RIGHT,
        3: turn.ROTATE_180,
        4: turn.FLIP_TOP_BOTTOM,
        5: turn.TRANSPOSE,
        6: turn.ROTATE_270,
        7: turn.TRANSVERSE,
        8: turn.ROTATE_90,
    }
    orientation = _orientation(image)
    return image.transpose(turns[orientation]) if orientation in turns else image


def _high_byte(image: Image.Image) -> Image.Image:
    """Turn 16-bit grey into 8-bit grey by its high byte: converting it with Pillow would clip it to white."""
    from PIL import Image

    values = np.asarray(image)
    low, high = int(values.min()), int(values.max())
    if low < 0 or high > 0xFFFF:
        raise InputError(f"got a grey image with values {low}..{high}, expected 0..65535; scale it first")
    return Image.fromarray((values >> 8).astype(np.uint8))


def _from_unit_range(image: Image.Image) -> Image.Image:
    from PIL import Image

    values = np.asarray(image)
    low, high = float(values.min()), float(values.max())
    if not (low >= 0 and high <= 1):  # also refuses NaN
        raise InputError(f"got a float image with values {low:g}..{high:g}, expected 0..1; scale it first")
    return Image.fromarray(np.rint(values * 255).astype(np.uint8))


def _on_white(image: Image.Image) -> Image.Image:
    from PIL import Image

    layer = image.convert("RGBA")
    return Image.alpha_composite(Image.new("RGBA", layer.size, (255, 255, 255, 255)), layer).convert("RGB")


def to_mode(image: Image.Image, channels: int, *, exif: bool = True) -> Image.Image:
    """Convert a decoded image to what a model's preprocessing starts from.

    Args:
        image: Any mode: grey, palette, 1-bit, 16-bit grey, CMYK, with or without transparency (put on white).
        channels: 3 for "RGB", 1 for "L".
        exif: Turn the image upright as its EXIF orientation says.

    Returns:
        A new image in mode "RGB" or "L"; the one passed in is left as it was.
    """
    _load(image, "image")
    upright = _upright(image) if exif else image
    if upright.mode in _HIGH_BYTE_MODES:
        upright = _high_byte(upright)
    elif upright.mode == "F":
        upright = _from_unit_range(upright)
    elif upright.mode not in _COLOUR_MODES:
        raise InputError(f"got an image in mode {upright.mode}, expected RGB, L or the like; convert it first")
    if upright.has_transparency_data:
        upright = _on_white(upright)
    converted = upright.convert("RGB" if channels == 3 else "L")
    if exif:
        converted.info.clear()  # else the orientation would be applied again by the next reader
    return converted


def find_images(folder: str | os.PathLike[str]) -> list[Path]:
    """List the image files in a folder and below it, by suffix, sorted by path; hidden files are left out.

    Raises:
        InputError: The folder does not exist or holds no image.
    """
    root = Path(folder)
    if not root.is_dir():
        raise InputError(f"{root}: no such folder, expected a folder with images; check the path")
    found = (path for path in root.rglob("*") if path.suffix.lower() in SUFFIXES and not path.name.startswith("."))
    images = sorted(path for path in found if path.is_file())
    if not images:
        suffixes = " ".join(sorted(suffix[1:] for suffix in SUFFIXES))
        raise InputError(f"{root}: no images found, expected files ending in {suffixes}; check the path")
    return images
