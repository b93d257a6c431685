"""The record that says exactly what happens between a decoded image and the model's input."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, Literal, get_args

from vit_edge.runtime.errors import ConfigError

ResizeRule = Literal["none", "exact", "short_side", "long_side"]
Interpolation = Literal["nearest", "bilinear", "bicubic", "lanczos", "box", "hamming"]
Rounding = Literal["floor", "half_even"]
PadRounding = Literal["floor", "ceil"]

MAX_SIDE = 16384  # bounds what a damaged or hostile manifest can make the runtime allocate

_CHOICES: dict[str, tuple[str, ...]] = {
    "resize": get_args(ResizeRule),
    "resize_rounding": get_args(Rounding),
    "interpolation": get_args(Interpolation),
    "crop_rounding": get_args(Rounding),
    "pad_rounding": get_args(PadRounding),
}


def _require(holds: bool, field: str, got: object, expected: str) -> None:
    if not holds:
        raise ConfigError(f"preprocessing: {field} is {str(got)[:80]}, expected {expected}; correct this field")


def _is_integer(value: object, low: int, high: int) -> bool:
    return type(value) is int and low <= value <= high


def _is_number(value: object) -> bool:
    return type(value) in (int, float) and -1e12 < value < 1e12  # type: ignore[operator]  # false for NaN


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Preprocess:
    """The whole specification of an image model's preprocessing.

    Attributes:
        size: Height and width of the model's input.
        resize: `none` keeps the image; `exact` resizes to `resize_to` whatever the aspect ratio;
            `short_side` keeps the aspect ratio and covers `resize_to`; `long_side` keeps it and fits inside.
        resize_to: Height and width the resize aims at, before the crop; equals `size` if `resize` is `none`.
        resize_rounding: How the long side is rounded when the aspect ratio is kept: `floor` as torchvision's
            `Resize` and transformers do (`short_side` with a square target only), `half_even` as timm's
            `ResizeKeepRatio` does.
        interpolation: The name of Pillow's filter.
        antialias: Always true: Pillow widens the filter when it shrinks an image.
        crop_rounding: Where a centre crop starts when the excess is odd.
        pad_rounding: How much padding goes before the image when it is odd.
        fill: Colour of the padding, one whole number of 0..255 a channel.
        mean: Subtracted after the division by 255, one value a channel.
        std: Divided by after the subtraction, one value a channel.
        channels: 3 for RGB (in this order), 1 for grey.
        exif: Turn the image upright as its EXIF orientation says.
    """

    size: tuple[int, int]
    resize: ResizeRule
    resize_to: tuple[int, int]
    resize_rounding: Rounding = "floor"
    interpolation: Interpolation
    antialias: bool = True
    crop_rounding: Rounding = "half_even"
    pad_rounding: PadRounding = "floor"
    fill: tuple[int, ...]
    mean: tuple[float, ...]
    std: tuple[float, ...]
    channels: int = 3
    exif: bool = True

    def __post_init__(self) -> None:
        for name, choices in _CHOICES.items():
            value = getattr(self, name)
            _require(isinstance(value, str) and value in choices, name, value, f"one of {', '.join(choices)}")
        for name in ("size", "resize_to"):
            value = getattr(self, name)
            is_pair = isinstance(value, tuple) and len(value) == 2
            good = is_pair and all(_is_integer(side, 1, MAX_SIDE) for side in value)
            _require(good, name, value, f"(height, width), whole numbers of 1..{MAX_SIDE}")
        known = type(self.channels) is int and self.channels in (1, 3)
        _require(known, "channels", self.channels, "1 (grey) or 3 (RGB)")
        _require(self.antialias is True, "antialias", self.antialias, "true: Pillow has nothing else")
        _require(isinstance(self.exif, bool), "exif", self.exif, "true or false")
        self._check_per_channel()
        self._check_geometry()

    def _check_per_channel(self) -> None:
        for name in ("fill", "mean", "std"):
            value = getattr(self, name)
            good = isinstance(value, tuple) and len(value) == self.channels and all(map(_is_number, value))
            _require(good, name, value, f"{self.channels} finite numbers, one a channel")
        good = all(_is_integer(value, 0, 255) for value in self.fill)
        _require(good, "fill", self.fill, "whole numbers of 0..255")
        # The lower bound keeps 1 / std within float32.
        _require(all(value > 1e-12 for value in self.std), "std", self.std, "numbers above 0 (1e-12)")
        for name in ("mean", "std"):  # so that 0 and 0.0 give the same JSON
            object.__setattr__(self, name, tuple(float(value) for value in getattr(self, name)))

    def _check_geometry(self) -> None:
        target, rounding = self.resize_to, self.resize_rounding
        if self.resize == "none":
            _require(target == self.size, "resize_to", target, f"{self.size}, the size, as resize is none")
        if self.resize == "short_side" and rounding == "floor":
            expected = "a square with resize short_side and resize_rounding floor"
            _require(target[0] == target[1], "resize_to", target, expected)
        if self.resize == "long_side":
            _require(rounding == "half_even", "resize_rounding", rounding, "half_even with resize long_side")

    def with_size(self, size: tuple[int, int]) -> Preprocess:
        """Return the same preprocessing for another model size; the resize target grows in proportion.

        Where the library's own config is at hand, `vit_edge.preprocessing` derives the target as that library
        does (timm from `size / crop_pct`), which may differ by a pixel.
        """
        if size == self.size:
            return self
        (height, width), (high, wide), (to_high, to_wide) = size, self.size, self.resize_to
        if self.resize == "short_side" and self.resize_rounding == "floor":
            side = to_high * max(size) // max(self.size)
            return dataclasses.replace(self, size=size, resize_to=(side, side))
        return dataclasses.replace(self, size=size, resize_to=(to_high * height // high, to_wide * width // wide))

    def to_dict(self) -> dict[str, Any]:
        """Return the specification as JSON values; `from_dict` is its inverse."""
        values = dataclasses.asdict(self)
        return {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Preprocess:
        """Build a specification from what `to_dict` gave, trusting nothing.

        Raises:
            ConfigError: A key is missing or unknown, or a value has a wrong type or is out of its range.
        """
        if not isinstance(values, Mapping):
            got = type(values).__name__
            raise ConfigError(f"preprocessing: got a {got}, expected an object with named fields")
        known = {field.name for field in dataclasses.fields(cls)}
        unknown = sorted(str(key)[:80] for key in values if key not in known)
        missing = sorted(known - values.keys())
        for problem, names in (("unknown", unknown), ("missing", missing)):
            if names:
                raise ConfigError(
                    f"preprocessing: {problem} {', '.join(names)}, "
                    f"expected exactly {', '.join(sorted(known))}; "
                    "write it with to_dict"
                )
        fields: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value for name, value in values.items()
        }
        return cls(**fields)
