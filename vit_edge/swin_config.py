"""The configuration of a Swin Transformer, and the sizes of its feature maps and windows that follow from it."""

import dataclasses
from collections.abc import Mapping
from typing import Any, Literal

from vit_edge.records import from_json, to_json
from vit_edge.runtime.errors import ConfigError

__all__ = ["Borders", "Size", "StageSizes", "SwinConfig"]

Borders = Literal["timm", "huggingface"]
Size = tuple[int, int]  # (height, width)

# What a hostile file may make us build; no published Swin comes near.
_LARGEST = {"channels": 1_024, "width": 4_096}
_MAX_CLASSES = 1 << 24
_MAX_STAGES = 8
_MAX_SIDE = 16_384
_MAX_MASK = 1 << 27  # numbers in the mask of one stage


@dataclasses.dataclass(frozen=True, slots=True)
class StageSizes:
    """One stage: its feature map, its windows, and by how much every second block shifts them, in cells."""

    map: Size
    window: Size
    shift: Size  # of the shifted blocks; (0, 0) where one window holds the map

    @property
    def padded(self) -> Size:
        """The map's size after padding to whole windows."""
        return (
            -(-self.map[0] // self.window[0]) * self.window[0],
            -(-self.map[1] // self.window[1]) * self.window[1],
        )

    @property
    def windows(self) -> Size:
        """Windows down and across."""
        return self.padded[0] // self.window[0], self.padded[1] // self.window[1]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class SwinConfig:
    """Everything that decides which function a set of Swin weights computes.

    Raises:
        ConfigError: sizes are not positive, patches do not tile the image, or heads do not divide a stage's width.
    """

    image_size: Size = (224, 224)  # (height, width) in pixels
    patch_size: Size = (4, 4)
    channels: int = 3
    width: int  # of the first stage; each next one is twice as wide and half as large
    depths: tuple[int, ...]  # blocks of each stage
    heads: tuple[int, ...]  # of each stage
    window_size: tuple[Size, ...]  # of each stage; clipped to the feature map where that is smaller
    mlp_ratio: float = 4.0
    classes: int = 1000  # 0: no classifier, the model gives the pooled features
    qkv_bias: bool = True
    patch_norm: bool = True
    norm_eps: float = 1e-5
    merge_eps: float = 1e-5  # of the norms in patch embedding and merging; transformers fixes them
    borders: Borders = "timm"  # whose rules hold where windows do not tile a map: see `Swin`

    def __post_init__(self) -> None:
        for name, largest in _LARGEST.items():
            if not 1 <= getattr(self, name) <= largest:
                raise ConfigError(f"{name} must be 1..{largest}, got {str(getattr(self, name))[:80]}")
        if not 0 <= self.classes <= _MAX_CLASSES:
            raise ConfigError(f"classes must be 0..{_MAX_CLASSES}, got {str(self.classes)[:80]}")
        if not all(0 < eps < 1 for eps in (self.norm_eps, self.merge_eps)) or not 0 < self.mlp_ratio <= 64:
            raise ConfigError(f"norm_eps must be in 0..1 and mlp_ratio in 0..64, got {self.norm_eps}, {self.mlp_ratio}")
        self._check_stages()
        self._check_image()
        if max(s.padded[0] * s.padded[1] * s.window[0] * s.window[1] for s in self.stages) > _MAX_MASK:
            raise ConfigError(f"image {self.image_size} or windows {self.window_size} are too large")

    def _check_stages(self) -> None:
        lengths = len(self.depths), len(self.heads), len(self.window_size)
        if len(set(lengths)) > 1 or not 1 <= len(self.depths) <= _MAX_STAGES:
            raise ConfigError(f"depths, heads and window_size have one value a stage, got {lengths} values")
        for depth, heads, window, width in zip(self.depths, self.heads, self.window_size, self.widths, strict=True):
            if not 1 <= depth <= 512 or not all(1 <= side <= 128 for side in window):
                raise ConfigError(f"depths must be 1..512 and window sides 1..128, got {depth} and {window}")
            if heads < 1 or width % heads:
                raise ConfigError(f"{heads} heads do not divide the stage's width {width}")

    def _check_image(self) -> None:
        for side, step, axis in zip(self.image_size, self.patch_size, ("height", "width"), strict=True):
            if not (1 <= side <= _MAX_SIDE and 1 <= step <= _MAX_SIDE):
                raise ConfigError(f"image and patch sides must be 1..{_MAX_SIDE}, got image {side}, patch {step}")
            if side % step:
                below, above = side // step * step, -(-side // step) * step
                near = f"{below} or {above}" if below else str(above)
                raise ConfigError(f"image {axis} {side} is not divisible by patch size {step}: use {near}")

    @property
    def grid(self) -> Size:
        """Patches down and across."""
        return self.image_size[0] // self.patch_size[0], self.image_size[1] // self.patch_size[1]

    @property
    def outputs(self) -> int:
        """Numbers that the model gives for one image."""
        return self.classes or self.widths[-1]

    @property
    def widths(self) -> tuple[int, ...]:
        """Channels of each stage."""
        return tuple(self.width * 2**i for i in range(len(self.depths)))

    @property
    def stages(self) -> tuple[StageSizes, ...]:
        """The sizes of each stage."""
        return tuple(self._stage(i, window) for i, window in enumerate(self.window_size))

    def _stage(self, i: int, wanted: Size) -> StageSizes:
        """timm's SwinTransformerBlock._calc_window_shift clips each side, transformers' SwinLayer both at once."""
        down, across = -(-self.grid[0] // 2**i), -(-self.grid[1] // 2**i)
        if self.borders == "huggingface":
            if min(down, across) > min(wanted):
                return StageSizes((down, across), wanted, (wanted[0] // 2, wanted[1] // 2))
            return StageSizes((down, across), (min(down, across),) * 2, (0, 0))
        window = min(down, wanted[0]), min(across, wanted[1])
        shift = wanted[0] // 2 if down > window[0] else 0, wanted[1] // 2 if across > window[1] else 0
        return StageSizes((down, across), window, shift)

    def to_dict(self) -> dict[str, Any]:
        """The JSON form; tuples become lists."""
        return to_json(self)

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> "SwinConfig":
        """Read the JSON form.

        Raises:
            ConfigError: a key is unknown or missing, or a value has the wrong type.
        """
        return from_json(cls, fields)
