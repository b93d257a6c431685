"""From what users have (a preset's name, a timm or a Hugging Face config file) to one `Preprocess` record.

========  ==============================  =============  =============================  =================
name      mean, std                       interpolation  geometry                       used by
========  ==============================  =============  =============================  =================
imagenet  .485 .456 .406, .229 .224 .225  bilinear       short side size/0.875, centre  torchvision, DINO
half      .5 .5 .5, .5 .5 .5              bicubic        short side size/0.9, centre    AugReg ViT
clip      .481 .458 .408, .269 .261 .276  bicubic        short side size, centre        OpenAI CLIP
unit      0 0 0, 1 1 1                    bilinear       exactly size, no crop          inputs of 0..1
========  ==============================  =============  =============================  =================

The presets are timm pipelines: sizes are rounded as timm and torchvision round them. A grey model (one
channel) takes the mean of the three means and of the three stds.
"""

import dataclasses
import difflib
import json
from collections.abc import Mapping
from pathlib import Path
from statistics import fmean
from typing import Any

from vit_edge.preprocess_fields import Size, as_pair
from vit_edge.preprocess_huggingface import from_huggingface
from vit_edge.preprocess_timm import from_timm
from vit_edge.runtime.errors import ConfigError
from vit_edge.runtime.preprocess import Preprocess

__all__ = ["NAMES", "describe", "from_huggingface", "from_timm", "named", "read_option", "resolve"]

_PRESETS: dict[str, dict[str, Any]] = {
    "imagenet": {
        "mean": (0.485, 0.456, 0.406),
        "std": (0.229, 0.224, 0.225),
        "interpolation": "bilinear",
        "crop_pct": 0.875,
    },
    "half": {"mean": (0.5, 0.5, 0.5), "std": (0.5, 0.5, 0.5), "interpolation": "bicubic", "crop_pct": 0.9},
    "clip": {
        "mean": (0.48145466, 0.4578275, 0.40821073),
        "std": (0.26862954, 0.26130258, 0.27577711),
        "interpolation": "bicubic",
        "crop_pct": 1.0,
    },
    "unit": {
        "mean": (0.0, 0.0, 0.0),
        "std": (1.0, 1.0, 1.0),
        "interpolation": "bilinear",
        "crop_pct": 1.0,
        "crop_mode": "squash",
    },
}
NAMES = tuple(_PRESETS)

_MAX_CONFIG_BYTES = 1_000_000  # a checkpoint given in place of its config is refused before it is read
_HUGGINGFACE_FIELDS = (
    "image_processor_type",
    "feature_extractor_type",
    "image_processor",
    "image_mean",
    "do_resize",
)
_TIMM_FIELDS = ("pretrained_cfg", "input_size", "crop_pct")


def named(name: str, size: Size, channels: int = 3) -> Preprocess:
    """Return one of the presets of this module's table.

    Args:
        name: `imagenet`, `half`, `clip` or `unit`.
        size: The model's input, one side or (height, width).
        channels: 3 for RGB, 1 for grey.
    """
    if name not in _PRESETS:
        raise ConfigError(f"preprocessing: got {name!r}, expected one of {', '.join(NAMES)}")
    return from_timm({**_PRESETS[name], "input_size": (channels, *as_pair(size))})


def _read(path: Path) -> Mapping[str, Any]:
    advice = "expected a preprocessor_config.json or a timm config.json"
    try:
        if path.stat().st_size > _MAX_CONFIG_BYTES:
            raise ConfigError(f"{path}: got {path.stat().st_size} bytes, {advice}")
        values = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read ({error.strerror}), {advice}") from error
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{path}: is not JSON ({error}), {advice}") from error
    if not isinstance(values, Mapping):
        raise ConfigError(f"{path}: holds a JSON {type(values).__name__}, {advice}")
    return values


def _with_channels(spec: Preprocess, channels: int) -> Preprocess:
    """Return the specification for another number of channels: RGB can be made grey, not the reverse."""
    if spec.channels == channels:
        return spec
    if channels != 1:
        raise ConfigError(
            f"preprocessing: got one for {spec.channels} channel, expected one for {channels}; choose another"
        )
    mean, std, fill = (fmean(spec.mean),), (fmean(spec.std),), (round(fmean(spec.fill)),)
    return dataclasses.replace(spec, channels=1, mean=mean, std=std, fill=fill)


def resolve(option: str, size: Size, channels: int = 3) -> Preprocess:
    """Turn the command line's `--preprocess` into a specification.

    Args:
        option: A preset's name, or the path of a `preprocessor_config.json` or of a timm `config.json`; which of
            the two it is, is read from its content.
        size: The model's input, one side or (height, width). It wins over the file's.
        channels: How many channels the model takes.
    """
    config = read_option(option)
    if option in _PRESETS:
        return named(option, size, channels)
    if any(field in config for field in _HUGGINGFACE_FIELDS):
        return _with_channels(from_huggingface(config, size), channels)
    return _with_channels(from_timm(config, size), channels)


def read_option(option: str) -> Mapping[str, Any]:
    """What a preset's name or a config file says; whether it suits a model is seen by `resolve`.

    Raises:
        ConfigError: there is no such preset and no such file, or the file is of another kind.
    """
    if option in _PRESETS:
        return _PRESETS[option]
    path = Path(option)
    if not path.is_file():
        near = difflib.get_close_matches(option, NAMES, n=1)
        hint = f"did you mean {near[0]}? " if near else ""
        raise ConfigError(
            f"preprocessing: got {option!r}, {hint}expected one of {', '.join(NAMES)}, "
            "or the path of a preprocessor_config.json or of a timm config.json"
        )
    config = _read(path)
    if not any(field in config for field in _HUGGINGFACE_FIELDS + _TIMM_FIELDS):
        raise ConfigError(
            f"{path}: holds none of {', '.join(_HUGGINGFACE_FIELDS + _TIMM_FIELDS)}, expected a "
            "preprocessor_config.json or a timm config.json; a Hugging Face config.json says nothing about images"
        )
    return config


def _sides(size: tuple[int, int]) -> str:
    return f"{size[0]}x{size[1]}"


def describe(spec: Preprocess) -> str:
    """Return one line for a person; sizes are height x width."""
    target = _sides(spec.resize_to)
    resize = {
        "none": "no resize",
        "exact": f"resize to {target} {spec.interpolation}",
        "short_side": f"cover {target} {spec.interpolation}",
        "long_side": f"fit inside {target} {spec.interpolation}",
    }[spec.resize]
    if spec.resize == "short_side" and spec.resize_to[0] == spec.resize_to[1]:
        resize = f"short side {spec.resize_to[0]} {spec.interpolation}"
    short = spec.size[0] > spec.resize_to[0] or spec.size[1] > spec.resize_to[1]
    crop = "crop or pad" if short or spec.resize in ("none", "long_side") else "crop"
    whole = spec.resize == "exact" and spec.resize_to == spec.size
    parts = [resize] + [f"centre {crop} {_sides(spec.size)}"] * (not whole)
    for name, values in (("mean", spec.mean), ("std", spec.std)):
        parts.append(f"{name} {' '.join(f'{value:.4g}' for value in values)}")
    parts.append("RGB" if spec.channels == 3 else "grey")
    if not spec.exif:
        parts.append("EXIF orientation ignored")
    return ", ".join(parts)
