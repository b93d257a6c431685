"""Reads the preprocessing out of a Hugging Face `preprocessor_config.json`.

A step that cannot be reproduced exactly is a `ConfigError` naming the field: wrong preprocessing never raises
later, it only costs accuracy.
"""

import math
from collections.abc import Mapping
from typing import Any, TypeAlias

from vit_edge.preprocess_fields import Size, as_pair, number, per_channel, positive, refusal
from vit_edge.runtime.preprocess import Preprocess
from vit_edge.runtime.preprocess_spec import Interpolation, ResizeRule

Geometry: TypeAlias = tuple[ResizeRule, tuple[int, int], tuple[int, int]]  # rule, its target, model size

_HALF = (0.5, 0.5, 0.5)
_IMAGENET_MEAN, _IMAGENET_STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
_CLIP_MEAN, _CLIP_STD = (0.48145466, 0.4578275, 0.40821073), (0.26862954, 0.26130258, 0.27577711)

_SQUARE = {"height": 224, "width": 224}
_VIT: dict[str, Any] = {"size": _SQUARE, "resample": 2, "image_mean": _HALF, "image_std": _HALF}
_CLIP: dict[str, Any] = {
    "size": {"shortest_edge": 224},
    "crop_size": _SQUARE,
    "do_center_crop": True,
    "resample": 3,
    "image_mean": _CLIP_MEAN,
    "image_std": _CLIP_STD,
}
# What a processor's class says where its file says nothing: transformers/models/*/image_processing_pil_*.py
_PROCESSORS: dict[str, dict[str, Any]] = {
    "ViT": _VIT,
    "Beit": {**_VIT, "crop_size": _SQUARE, "resample": 3},
    "DeiT": {
        **_VIT,
        "size": {"height": 256, "width": 256},
        "crop_size": _SQUARE,
        "do_center_crop": True,
        "resample": 3,
    },
    "Siglip": {**_VIT, "resample": 3},
    "DINOv3ViT": {**_VIT, "image_mean": _IMAGENET_MEAN, "image_std": _IMAGENET_STD},
    "CLIP": _CLIP,
    "Bit": _CLIP,
    "ConvNext": {**_VIT, "size": {"shortest_edge": 384}, "crop_pct": 0.875, "resample": 3},
}
# Processors whose steps no field of their files reveals.
_REFUSED = ("EfficientNet", "ImageGPT", "Levit", "MobileViT", "Perceiver", "PoolFormer", "Siglip2")
_REFUSED_STEPS = (
    "do_pad", "do_flip_channel_order", "do_grayscale", "do_crop_margin", "do_thumbnail", "do_align_long_axis",
    "do_color_quantize", "do_image_splitting", "do_pan_and_scan", "rescale_offset", "include_top",
)  # fmt: skip
# The place in this list is Pillow's code.
_RESAMPLE: tuple[Interpolation, ...] = ("nearest", "lanczos", "bilinear", "bicubic", "box", "hamming")


def _class_defaults(config: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """Return the processor's short name and what its class says by default."""
    full = config.get("image_processor_type") or config.get("feature_extractor_type")
    if full is None:  # old files of ViTFeatureExtractor have no type; one with a crop may be DeiT's or CLIP's
        plain = not config.get("do_center_crop") and config.get("crop_size") is None
        return ("ViT", {"resample": 2}) if plain else ("", {})
    name = str(full)
    for ending in ("Fast", "Pil", "ImageProcessor", "FeatureExtractor"):
        name = name.removesuffix(ending)
    if name in _REFUSED:
        raise refusal("image_processor_type", full, "a processor that only resizes, crops and normalises")
    return name, _PROCESSORS.get(name, {})


def _settings(config: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """Fill in the defaults and refuse what is incomplete or cannot be reproduced."""
    name, defaults = _class_defaults(config)
    switches = {"do_resize": True, "do_rescale": True, "do_normalize": True, "do_center_crop": False}
    given = {**switches, **defaults, **{field: value for field, value in config.items() if value is not None}}
    for step in _REFUSED_STEPS:
        if given.get(step):
            raise refusal(step, given[step], "false")
    if "crop_pct" in given and name != "ConvNext":
        raise refusal("crop_pct", given["crop_pct"], "no such field but with ConvNextImageProcessor")
    for step in switches:
        if not isinstance(given[step], bool):
            raise refusal(step, given[step], "true or false")
    needed = ["size", "resample"] * given["do_resize"] + ["image_mean", "image_std"] * given["do_normalize"]
    needed += ["crop_size"] * given["do_center_crop"]
    if not defaults and "crop_size" in given:
        needed.append("do_center_crop")
        given = {**given, "do_center_crop": config.get("do_center_crop")}
    for field in needed:
        if given.get(field) is None:
            raise refusal(field, "absent", "a value: no default is known for this type of processor")
    return name, given


def _target(size: object, name: str) -> tuple[ResizeRule, tuple[int, int]]:
    """Read the many forms of transformers' `size`, as `get_size_dict` in image_processing_utils does."""
    if type(size) is int and name in _PROCESSORS:
        keeps_ratio = "shortest_edge" in _PROCESSORS[name]["size"]
        size = {"shortest_edge": size} if keeps_ratio else {"height": size, "width": size}
    if isinstance(size, Mapping):
        edges = {key: value for key, value in size.items() if value is not None}
        if set(edges) == {"height", "width"}:
            return "exact", as_pair((edges["height"], edges["width"]))
        if set(edges) == {"shortest_edge"}:
            return "short_side", as_pair((edges["shortest_edge"],) * 2)
    raise refusal("size", size, '{"height": .., "width": ..} or {"shortest_edge": ..}')


def _crop_size(value: object) -> tuple[int, int]:
    sides = (value.get("height"), value.get("width")) if isinstance(value, Mapping) else value
    return as_pair(sides, "crop_size")


def _convnext(given: Mapping[str, Any], size: Size | None) -> Geometry:
    """ConvNextImageProcessor.resize: below 384 short side and crop, else squashed."""
    rule, target = _target(given["size"], "ConvNext")
    side, other = target if size is None else as_pair(size)
    if rule != "short_side" or side != other or given["do_center_crop"] or not given["do_resize"]:
        raise refusal("size", given["size"], "shortest_edge, a square model and no other crop with ConvNext")
    if side >= 384:
        return "exact", (side, side), (side, side)
    short = int(side / positive(given["crop_pct"], "crop_pct"))
    return "short_side", (short, short), (side, side)


def _geometry(given: Mapping[str, Any], name: str, size: Size | None) -> Geometry:
    """Return the resize rule, its target and the model's size."""
    crop = _crop_size(given["crop_size"]) if given["do_center_crop"] else None
    if not given["do_resize"]:
        if crop is None:
            raise refusal("do_resize", False, "true, or a centre crop: a model has one input size")
        model = crop if size is None else as_pair(size)
        return "none", model, model
    rule, target = _target(given["size"], name)
    if crop is None:
        if rule == "short_side":
            raise refusal("size", given["size"], "height and width, or a centre crop: a model has one input size")
        model = target if size is None else as_pair(size)
        return "exact", model, model
    if size is None:
        return rule, target, crop
    height, width = as_pair(size)
    if rule == "exact":
        return rule, (target[0] * height // crop[0], target[1] * width // crop[1]), (height, width)
    short = target[0] * max(height, width) // max(crop)
    return rule, (short, short), (height, width)


def _mean_and_std(given: Mapping[str, Any]) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return mean and std for pixels of 0..1."""
    mean: tuple[float, ...] = (0.0, 0.0, 0.0)
    std: tuple[float, ...] = (1.0, 1.0, 1.0)
    if given["do_normalize"]:
        grey = isinstance(given["image_mean"], list | tuple) and len(given["image_mean"]) == 1
        mean = per_channel(given["image_mean"], 1 if grey else 3, "image_mean")
        std = per_channel(given["image_std"], len(mean), "image_std")
    if not given["do_rescale"]:  # the mean and std are then for pixels of 0..255
        return tuple(value / 255 for value in mean), tuple(value / 255 for value in std)
    factor = given.get("rescale_factor", 1 / 255)
    if not math.isclose(number(factor, "rescale_factor"), 1 / 255, rel_tol=1e-6):
        raise refusal("rescale_factor", factor, "1/255")
    return mean, std


def from_huggingface(preprocessor_config: Mapping[str, Any], size: Size | None = None) -> Preprocess:
    """Derive the preprocessing as the Pillow back end of a transformers image processor does.

    Args:
        preprocessor_config: The content of `preprocessor_config.json`, of an image processor or of an older
            feature extractor. Absent fields take the defaults of the processor's class, where it is known.
        size: Model input size in place of the config's. With a crop, the resize target grows in proportion; a
            `shortest_edge` follows the longer side of `size`.
    """
    config = preprocessor_config.get("image_processor") or preprocessor_config  # nested in processor_config.json
    if not isinstance(config, Mapping):
        raise refusal("image_processor", config, "an object with named fields")
    name, given = _settings(config)
    rule, target, model = _convnext(given, size) if name == "ConvNext" else _geometry(given, name, size)
    mean, std = _mean_and_std(given)
    resample = given.get("resample", 2)
    if not isinstance(resample, int) or not 0 <= resample < len(_RESAMPLE):  # Pillow's enum is an int, too
        raise refusal("resample", resample, "one of Pillow's codes 0..5")
    # TorchvisionBackend.center_crop pads as torchvision does, image_transforms.center_crop does not.
    fast = str(config.get("image_processor_type")).endswith("Fast")
    return Preprocess(
        size=model,
        resize=rule,
        resize_to=target,
        interpolation=_RESAMPLE[resample],
        crop_rounding="floor",
        pad_rounding="floor" if fast else "ceil",
        fill=(0,) * len(mean),
        mean=mean,
        std=std,
        channels=len(mean),
    )
