"""From a configuration to the model it describes."""

from typing import TypeAlias

from vit_edge.config import ViTConfig
from vit_edge.model import ViT
from vit_edge.swin import Swin
from vit_edge.swin_config import SwinConfig
from vit_edge.wrapped import Wrapped

__all__ = ["Config", "Model", "build"]

Config: TypeAlias = ViTConfig | SwinConfig
Model: TypeAlias = ViT | Swin | Wrapped


def build(config: Config) -> ViT | Swin:
    """A model with random weights."""
    return Swin(config) if isinstance(config, SwinConfig) else ViT(config)
