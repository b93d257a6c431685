"""Any PyTorch module that maps a batch of images to one tensor, dressed as one of our models."""

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn

from vit_edge.runtime.errors import ConfigError

__all__ = ["Wrapped", "WrappedConfig", "main_output"]


@dataclass(frozen=True, slots=True, kw_only=True)
class WrappedConfig:
    """What is known of a module from outside.

    Attributes:
        module: the class it is of.
        image_size: (height, width) that it takes.
        channels: 3 for RGB, 1 for grey.
        output_shape: of one image: (classes,), or (tokens, width).
    """

    module: str
    image_size: tuple[int, int]
    channels: int
    output_shape: tuple[int, ...]

    @property
    def classes(self) -> int:
        """How many scores an image gets; 0 where the output is no vector."""
        return self.output_shape[0] if len(self.output_shape) == 1 else 0

    @property
    def outputs(self) -> int:
        """How many numbers an image gives."""
        return math.prod(self.output_shape)

    @property
    def heads(self) -> None:
        """Not known from outside."""
        return None

    def to_dict(self) -> dict[str, Any]:
        """Return what JSON can hold."""
        return {name: list(v) if isinstance(v, tuple) else v for name, v in dataclasses.asdict(self).items()}


class Wrapped(nn.Module):
    """A module whose output is one tensor, whatever it was before.

    Hugging Face models return a record with `logits` (or, of a backbone, `last_hidden_state`); others a tuple or a
    dictionary. The first of these is taken, and the first entry of a tuple.
    """

    def __init__(self, module: nn.Module, config: WrappedConfig) -> None:
        super().__init__()
        self.module = module
        self.config = config

    def forward(self, images: Tensor) -> Tensor:
        """(B, C, height, width) -> (B, *output_shape)."""
        return main_output(self.module(images))


def main_output(output: object) -> Tensor:
    """The tensor among what a module returns.

    Raises:
        ConfigError: there is none.
    """
    if isinstance(output, Tensor):
        return output
    for name in ("logits", "last_hidden_state"):
        value = output.get(name) if isinstance(output, Mapping) else getattr(output, name, None)
        if isinstance(value, Tensor):
            return value
    if isinstance(output, tuple | list) and output and isinstance(output[0], Tensor):
        return output[0]
    keys = f" of {', '.join(map(str, list(output)[:5]))}" if isinstance(output, Mapping) and output else ""
    raise ConfigError(
        f"the module returns {type(output).__name__}{keys}, expected a tensor of (images, classes): "
        "wrap it in a module whose forward returns that tensor"
    )
