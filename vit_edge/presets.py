"""Named architectures: timm's names, torchvision's names, the tutorial's and a tiny one for tests.

A preset carries what the weights do not show: the number of heads, and the preprocessing that the family was
trained with. Sizes: Dosovitskiy et al. 2021 table 1 (base, large, huge), Touvron et al. 2021 table 1 (tiny, small);
preprocessing: timm's `default_cfgs` of vision_transformer.py and deit.py, torchvision's `ViT_*_Weights`.
"""

import difflib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from vit_edge.runtime.errors import ConfigError

__all__ = ["FAMILIES", "Preset", "find_preset"]

_SIZES = {  # width, depth, heads
    "tiny": (192, 12, 3),
    "small": (384, 12, 6),
    "base": (768, 12, 12),
    "large": (1024, 24, 16),
    "huge": (1280, 32, 16),
}
_TORCHVISION = {"b": "base", "l": "large", "h": "huge"}

_HALF = {"mean": [0.5, 0.5, 0.5], "std": [0.5, 0.5, 0.5]}
_IMAGENET = {"mean": [0.485, 0.456, 0.406], "std": [0.229, 0.224, 0.225]}

FAMILIES = (
    "vit_{tiny,small,base,large,huge}_patch{8,14,16,32}[_rpn]_{224,384}",
    "deit_{tiny,small,base}[_distilled]_patch16_{224,384}",
    "deit3_{small,medium,base,large,huge}_patch{14,16}_{224,384}",
    "vit_{b,l,h}_{14,16,32} (torchvision)",
    "tutorial_28",
    "test",
)


@dataclass(frozen=True, slots=True)
class Preset:
    """An architecture by name.

    `args` uses timm's constructor names (embed_dim, depth, num_heads, ...); `pretrained_cfg` is in timm's form.
    """

    name: str
    args: Mapping[str, Any]
    pretrained_cfg: Mapping[str, Any] = field(default_factory=dict)


def find_preset(name: str) -> Preset:
    """Look an architecture up by name; a tag behind a dot ("vit_tiny_patch16_224.augreg_in21k") is allowed.

    Raises:
        ConfigError: no family has this name; near names and the families are listed.
    """
    plain = name.split(".")[0]
    preset = _timm(plain) or _torchvision(plain) or _FIXED.get(plain)
    if preset is None:
        near = difflib.get_close_matches(plain, _EXAMPLES, n=3)
        hint = f"did you mean {', '.join(near)}? " if near else ""
        raise ConfigError(f"unknown architecture {name!r}: {hint}known families: {'; '.join(FAMILIES)}")
    return preset


def _timm(name: str) -> Preset | None:
    match = re.fullmatch(
        r"(?P<family>vit|deit|deit3)_(?P<size>[a-z]+)(?P<distilled>_distilled)?_patch(?P<patch>\d+)"
        r"(?P<rpn>_rpn)?_(?P<image>\d+)",
        name,
    )
    sizes = {**_SIZES, "medium": (512, 12, 8)}
    if match is None or match["size"] not in sizes or (match["distilled"] and match["family"] != "deit"):
        return None
    if match["rpn"] and match["family"] != "vit":
        return None
    family, patch, image = match["family"], int(match["patch"]), int(match["image"])
    if image % patch:
        return None
    width, depth, heads = sizes[match["size"]]
    args: dict[str, Any] = {"img_size": image, "patch_size": patch, "embed_dim": width, "depth": depth}
    args["num_heads"] = heads
    if match["distilled"]:
        args["distilled"] = True
    if match["rpn"]:
        args.update(qkv_bias=False, class_token=False, global_pool="avg", res_post_norm=True)
    if family == "deit3":
        args.update(no_embed_class=True, init_values=1e-6)
    colours = _HALF if family == "vit" else _IMAGENET
    crop = 0.9 if image == 224 else 1.0
    cfg = {"input_size": [3, image, image], "interpolation": "bicubic", "crop_pct": crop, **colours}
    return Preset(name, args, cfg)


def _torchvision(name: str) -> Preset | None:
    match = re.fullmatch(r"vit_([blh])_(14|16|32)", name)
    if match is None:
        return None
    width, depth, heads = _SIZES[_TORCHVISION[match[1]]]
    args = {"img_size": 224, "patch_size": int(match[2]), "embed_dim": width, "depth": depth, "num_heads": heads}
    cfg = {"input_size": [3, 224, 224], "interpolation": "bilinear", "crop_pct": 0.875, **_IMAGENET}
    return Preset(name, args, cfg)


_FIXED = {
    "tutorial_28": Preset("tutorial_28", {"img_size": 28, "patch_size": 4, "embed_dim": 8, "depth": 1, "num_heads": 2}),
    "test": Preset(
        "test",
        {"img_size": 32, "patch_size": 8, "embed_dim": 32, "depth": 2, "num_heads": 2, "num_classes": 10},
        {"input_size": [3, 32, 32], "interpolation": "bicubic", "crop_pct": 1.0, **_HALF},
    ),
}

_EXAMPLES = [
    *(f"vit_{size}_patch{patch}_{image}" for size in _SIZES for patch in (8, 14, 16, 32) for image in (224, 384)),
    *(f"deit_{size}{kind}_patch16_224" for size in ("tiny", "small", "base") for kind in ("", "_distilled")),
    *(f"deit3_{size}_patch16_224" for size in ("small", "medium", "base", "large")),
    *(f"vit_{letter}_{patch}" for letter in "blh" for patch in (14, 16, 32)),
    *_FIXED,
]
