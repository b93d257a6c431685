"""The configuration of the convolutional stem of hybrid Vision Transformers."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from vit_edge.records import from_json, to_json
from vit_edge.runtime.errors import ConfigError

__all__ = ["BOTTLENECK", "GROUPS", "StemConfig"]

GROUPS = 32  # of every GroupNorm in the stem
BOTTLENECK = 4  # a block's inner width is its width / 4
_LARGEST = 8_192


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class StemConfig:
    """A ResNet in front of the patches: R50 has depths (3, 4, 9), R26 has (2, 2, 2, 2), R alone has none.

    Raises:
        ConfigError: depths and widths do not belong together, or groups do not divide a width.
    """

    width: int = 64  # of the 7x7 convolution in front
    depths: tuple[int, ...] = (3, 4, 9)  # blocks of each stage
    widths: tuple[int, ...] = (256, 512, 1024)  # channels of each stage
    norm_eps: float = 1e-5

    def __post_init__(self) -> None:
        if len(self.depths) != len(self.widths) or len(self.depths) > 4:
            raise ConfigError(f"a stem has one depth and one width a stage, up to 4, got {self.depths}, {self.widths}")
        if not all(1 <= depth <= 512 for depth in self.depths):
            raise ConfigError(f"stem depths must be 1..512, got {self.depths}")
        if not 0 < self.norm_eps < 1:
            raise ConfigError(f"norm_eps must be above 0 and below 1, got {self.norm_eps}")
        for width, multiple in ((self.width, GROUPS), *((width, GROUPS * BOTTLENECK) for width in self.widths)):
            if width % multiple or not 1 <= width <= _LARGEST:
                raise ConfigError(f"a stem width must be a multiple of {multiple} up to {_LARGEST}, got {width}")

    @property
    def channels(self) -> int:
        """Channels of the feature map."""
        return self.widths[-1] if self.widths else self.width

    @property
    def stride(self) -> int:
        """Pixels to one cell of the feature map: convolution and pooling halve, and every stage but the first."""
        return int(4 * 2 ** max(len(self.depths) - 1, 0))

    def map_size(self, image_size: tuple[int, int]) -> tuple[int, int]:
        """Height and width of the feature map."""
        return -(-image_size[0] // self.stride), -(-image_size[1] // self.stride)

    def to_dict(self) -> dict[str, Any]:
        """The JSON form; tuples become lists."""
        return to_json(self)

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> "StemConfig":
        """Read the JSON form.

        Raises:
            ConfigError: a key is unknown, or a value has the wrong type.
        """
        return from_json(cls, fields)
