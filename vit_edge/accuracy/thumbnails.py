"""Small pictures inside a page: data URIs that need no file and no network."""

from base64 import b64encode
from io import BytesIO
from pathlib import Path

from vit_edge.runtime.images import decode, to_mode

__all__ = ["thumbnail"]

_SIDE = 176  # pixels: 88 of CSS on a sharp screen


def thumbnail(path: Path) -> str:
    """An image file as a JPEG data URI, upright, at most 176 pixels a side.

    Raises:
        InputError: It cannot be read.
    """
    image = to_mode(decode(path), 3)
    image.thumbnail((_SIDE, _SIDE))
    data = BytesIO()
    image.save(data, "JPEG", quality=80)
    return "data:image/jpeg;base64," + b64encode(data.getvalue()).decode("ascii")
