"""Reads the preprocessing out of timm's `pretrained_cfg`."""

import math
from collections.abc import Mapping
from typing import Any

from vit_edge.preprocess_fields import Size, as_pair, per_channel, positive, refusal
from vit_edge.runtime.errors import ConfigError
from vit_edge.runtime.preprocess import Preprocess
from vit_edge.runtime.preprocess_spec import ResizeRule

# timm/data/config.py resolve_data_config
_DEFAULTS: dict[str, Any] = {
    "input_size": (3, 224, 224),
    "mean": (0.485, 0.456, 0.406),
    "std": (0.229, 0.224, 0.225),
    "interpolation": "bicubic",
    "crop_pct": 0.875,
    "crop_mode": "center",
}

_CROP_MODES: dict[str, ResizeRule] = {"center": "short_side", "squash": "exact", "border": "long_side"}


def from_timm(pretrained_cfg: Mapping[str, Any], size: Size | None = None) -> Preprocess:
    """Derive the preprocessing as timm `transforms_imagenet_eval` does.

    Args:
        pretrained_cfg: timm's `pretrained_cfg`, or a whole `config.json` that holds one. Fields that are absent
            or null take timm's defaults; `test_input_size` and `test_crop_pct` are not used.
        size: Model input size in place of the config's; `crop_pct` is kept.
    """
    config = pretrained_cfg.get("pretrained_cfg") or pretrained_cfg
    if not isinstance(config, Mapping):
        raise refusal("pretrained_cfg", config, "an object with named fields")
    given = {name: config.get(name) or default for name, default in _DEFAULTS.items()}
    input_size = given["input_size"]
    if not isinstance(input_size, list | tuple) or len(input_size) != 3 or input_size[0] not in (1, 3):
        raise refusal("input_size", input_size, "[channels (1 or 3), height, width]")
    resize = _CROP_MODES.get(str(given["crop_mode"]))
    if resize is None:
        raise refusal("crop_mode", given["crop_mode"], f"one of {', '.join(_CROP_MODES)}")
    height, width = as_pair(input_size[1:], "input_size") if size is None else as_pair(size)
    crop_pct = positive(given["crop_pct"], "crop_pct")
    if not 0.01 <= crop_pct <= 100:
        raise ConfigError(f"preprocessing: crop_pct is {crop_pct}, expected a fraction of the image, usually 0.8..1")
    target = (math.floor(height / crop_pct), math.floor(width / crop_pct))
    channels = int(input_size[0])
    mean = per_channel(given["mean"], channels, "mean")
    # timm resizes with its ResizeKeepRatio here, with torchvision's Resize otherwise.
    own_resize = resize == "long_side" or (resize == "short_side" and target[0] != target[1])
    return Preprocess(
        size=(height, width),
        resize=resize,
        resize_to=target,
        resize_rounding="half_even" if own_resize else "floor",
        interpolation=given["interpolation"],
        fill=tuple(round(255 * value) for value in mean) if resize == "long_side" else (0,) * channels,
        mean=mean,
        std=per_channel(given["std"], channels, "std"),
        channels=channels,
    )
