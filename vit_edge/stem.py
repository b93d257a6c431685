"""The convolutional stem of hybrid Vision Transformers (Dosovitskiy et al. 2021, "Hybrid Architecture").

A ResNet with group normalisation turns the image into a feature map; the ViT then cuts that map into patches.
Published weights are standardised at every use (weight standardisation, Qiao et al. 2019). That is a constant, so
`standardise` does it once, when a checkpoint is loaded, and the convolutions here are plain ones.

Letters in the shape comments: B images, C channels, h and w height and width of the feature map at that place.
Conventions: timm `models/resnetv2.py` (ResNetV2 with Bottleneck, create_resnetv2_stem), `layers/padding.py`.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from vit_edge.stem_config import BOTTLENECK, GROUPS, StemConfig

__all__ = ["Bottleneck", "ConvNorm", "ResNetStem", "StemConfig", "pad_same", "standardise"]


def standardise(weight: Tensor, eps: float = 1e-8) -> Tensor:
    """Give each output channel's kernel mean 0 and variance 1, as timm's `StdConv2dSame` does at every call.

    Args:
        weight: (out, in, height, width) float32, as trained.
        eps: added to the variance; timm's hybrids have 1e-8.

    Returns:
        (out, in, height, width) float32, computed in float64.
    """
    variance, mean = torch.var_mean(weight.double(), dim=(1, 2, 3), correction=0, keepdim=True)
    return ((weight.double() - mean) / (variance + eps).sqrt()).float()


def pad_same(x: Tensor, kernel: int, stride: int) -> Tensor:
    """Zeros around the map, so that it shrinks to ceil(side / stride): TensorFlow's "SAME", the odd one behind."""
    missing = [max((-(-side // stride) - 1) * stride + kernel - side, 0) for side in x.shape[-2:]]
    if not any(missing):
        return x
    height, width = missing
    return F.pad(x, (width // 2, width - width // 2, height // 2, height - height // 2))


class ConvNorm(nn.Module):
    """Convolution with "same" padding, then group normalisation."""

    def __init__(self, channels: int, width: int, kernel: int, stride: int, eps: float) -> None:
        super().__init__()
        self.kernel, self.stride = kernel, stride
        self.conv = nn.Conv2d(channels, width, kernel, stride=stride, bias=False)
        self.norm = nn.GroupNorm(GROUPS, width, eps=eps)

    def forward(self, x: Tensor) -> Tensor:  # (B, C, h, w)
        return self.norm(self.conv(pad_same(x, self.kernel, self.stride)))  # (B, width, h / stride, w / stride)


class Bottleneck(nn.Module):
    """1x1 to a quarter of the width, 3x3, 1x1 back; added to the input, which the first of a stage converts."""

    def __init__(self, channels: int, width: int, stride: int, eps: float, *, convert: bool) -> None:
        super().__init__()
        inner = width // BOTTLENECK
        self.reduce = ConvNorm(channels, inner, 1, 1, eps)
        self.mix = ConvNorm(inner, inner, 3, stride, eps)
        self.expand = ConvNorm(inner, width, 1, 1, eps)
        self.shortcut = ConvNorm(channels, width, 1, stride, eps) if convert else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:  # (B, C, h, w)
        y = F.relu(self.reduce(x))  # (B, width / 4, h, w)
        y = F.relu(self.mix(y))  # (B, width / 4, h / stride, w / stride)
        return F.relu(self.expand(y) + self.shortcut(x))  # (B, width, h / stride, w / stride)


class ResNetStem(nn.Module):
    """Images to a feature map.

    Example:
        >>> stem = ResNetStem(StemConfig(depths=(3, 4, 9), widths=(256, 512, 1024)), channels=3)
        >>> stem(torch.zeros(2, 3, 224, 224)).shape
        torch.Size([2, 1024, 14, 14])
    """

    def __init__(self, config: StemConfig, channels: int = 3) -> None:
        super().__init__()
        self.config = config
        self.root = ConvNorm(channels, config.width, 7, 2, config.norm_eps)
        stages, channels = [], config.width
        for i, (depth, width) in enumerate(zip(config.depths, config.widths, strict=True)):
            stride = 1 if i == 0 else 2
            first = Bottleneck(channels, width, stride, config.norm_eps, convert=True)
            others = [Bottleneck(width, width, 1, config.norm_eps, convert=False) for _ in range(depth - 1)]
            stages.append(nn.Sequential(first, *others))
            channels = width
        self.stages = nn.Sequential(*stages)
        self.apply(_initialise)

    def forward(self, images: Tensor) -> Tensor:
        """(B, C, height, width) float32, normalised -> (B, config.channels, *config.map_size)."""
        x = F.relu(self.root(images))  # (B, width, height / 2, width / 2)
        x = F.max_pool2d(pad_same(x, 3, 2), 3, stride=2)  # zeros change no maximum behind a ReLU
        return self.stages(x)


def _initialise(module: nn.Module) -> None:
    if isinstance(module, nn.Conv2d):
        nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
