"""Named Swin Transformers: sizes from Liu et al. 2021 section 3.3, names and preprocessing from timm's default_cfgs.

The S3 variants (Chen et al. 2021, "Searching the Search Space of Vision Transformer") have windows a stage.
"""

import re
from typing import Any

__all__ = ["SWIN_FAMILIES", "swin_names", "swin_preset"]

SWIN_FAMILIES = ("swin_{tiny,small,base,large}_patch4_window{7,12}_{224,384}", "swin_s3_{tiny,small,base}_224")

_SIZES: dict[str, tuple[int, int, int]] = {  # width, depth of the third stage, heads of the first
    "tiny": (96, 6, 3),
    "small": (96, 18, 3),
    "base": (128, 18, 4),
    "large": (192, 18, 6),
}
_SEARCHED = {  # depth of the third stage, windows
    "tiny": (6, (7, 7, 14, 7)),
    "small": (18, (14, 14, 14, 7)),
    "base": (30, (7, 7, 14, 7)),
}
_IMAGENET = {"mean": [0.485, 0.456, 0.406], "std": [0.229, 0.224, 0.225], "interpolation": "bicubic"}


def swin_preset(name: str) -> tuple[dict[str, Any], dict[str, Any]] | None:
    """Look a Swin up by name; a tag behind a dot ("swin_tiny_patch4_window7_224.ms_in1k") is allowed.

    Returns:
        timm's constructor arguments and `pretrained_cfg`; None where no Swin has this name.
    """
    match = re.fullmatch(
        r"swin_(?:s3_)?(?P<size>[a-z]+)(?:_patch4_window(?P<window>7|12))?_(?P<image>[1-9][0-9]{1,3})(?:_in22k)?",
        name.split(".")[0],
    )
    if match is None or ("_s3_" in name) == bool(match["window"]):
        return None
    image = int(match["image"])
    known = _SEARCHED if match["window"] is None else _SIZES
    if match["size"] not in known or image % 32 or (match["window"] is None and image != 224):
        return None
    width, third, heads = _SIZES["tiny" if match["window"] is None else match["size"]]
    window: int | tuple[int, ...] = int(match["window"] or 7)
    if match["window"] is None:
        third, window = _SEARCHED[match["size"]]
    args = {
        "img_size": (image, image),
        "patch_size": (4, 4),
        "embed_dim": width,
        "depths": (2, 2, third, 2),
        "num_heads": tuple(heads * 2**i for i in range(4)),
        "window_size": window,
    }
    return args, {"input_size": [3, image, image], "crop_pct": 0.9 if image == 224 else 1.0, **_IMAGENET}


def swin_names() -> list[str]:
    """The names of the published models, for lists and suggestions."""
    made = [f"swin_{size}_patch4_window7_224" for size in _SIZES]
    made += [f"swin_{size}_patch4_window12_384" for size in ("base", "large")]
    return made + [f"swin_s3_{size}_224" for size in _SEARCHED]
