"""What a file is by its first bytes, so that a message can say more than that it is not what was expected."""

__all__ = ["image_kind", "is_checkpoint"]

_IMAGES = (
    (b"\xff\xd8\xff", "JPEG"),
    (b"\x89PNG", "PNG"),
    (b"GIF8", "GIF"),
    (b"BM", "BMP"),
    (b"II*\0", "TIFF"),
    (b"MM\0*", "TIFF"),
    (b"P5", "PGM"),
    (b"P6", "PPM"),
)


def image_kind(head: bytes) -> str | None:
    """The image format that the first 16 bytes of a file are of, None where none is known."""
    if head[:4] == b"RIFF" and head[8:12] == b"WEBP":
        return "WebP"
    return next((kind for start, kind in _IMAGES if head.startswith(start)), None)


def is_checkpoint(head: bytes) -> bool:
    """Whether a file starts like safetensors, a zip (.pth, .npz) or a pickle (old .pth)."""
    return head[8:10] == b'{"' or head.startswith((b"PK\x03\x04", b"\x80\x02"))
