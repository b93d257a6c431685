"""Position tables: the fixed sin/cos one, rotary angles, and resampling a learned table to another grid."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from vit_edge.config import Rotary

__all__ = ["resample_positions", "rotary_tables", "sincos_positions"]


def sincos_positions(tokens: int, width: int) -> Tensor:
    """The fixed table of "Attention Is All You Need" (Vaswani et al. 2017, section 3.5).

    PE(pos, 2i) = sin(pos / 10000^(2i/D)) and PE(pos, 2i + 1) = cos(pos / 10000^(2i/D)), computed in float64.

    Returns:
        (1, tokens, width) float32.
    """
    position = torch.arange(tokens, dtype=torch.float64)[:, None]
    even = torch.arange(0, width, 2, dtype=torch.float64)  # 2i
    angle = position / 10000 ** (even / width)  # (tokens, width / 2)
    return torch.stack([angle.sin(), angle.cos()], dim=-1).reshape(1, tokens, width).float()


def resample_positions(table: Tensor, old: tuple[int, int], new: tuple[int, int], prefix: int) -> Tensor:
    """Resample a learned position table to another patch grid, as timm's `resample_abs_pos_embed` does.

    Bicubic with antialias, in float32; the first `prefix` rows (class and distillation token) stay as they are.

    Args:
        table: (1, prefix + old[0] * old[1], D) float32.
        old: patches down and across that the table was trained for.
        new: patches down and across that are wanted.
        prefix: rows that belong to no patch.

    Returns:
        (1, prefix + new[0] * new[1], D) float32.
    """
    if old == new:
        return table
    width = table.shape[2]
    grid = table[:, prefix:].float().reshape(1, *old, width).permute(0, 3, 1, 2)  # (1, D, h, w)
    grid = F.interpolate(grid, size=new, mode="bicubic", antialias=True)
    return torch.cat([table[:, :prefix], grid.permute(0, 2, 3, 1).reshape(1, -1, width)], dim=1)


def rotary_tables(rotary: Rotary, grid: tuple[int, int], head_width: int, prefix: int) -> tuple[Tensor, Tensor]:
    """Cosines and sines of every token's angles, in the "half" layout: the two halves of a head share their angles.

    EVA-02 (timm `RotaryEmbeddingCat`, `freq_bands`): angle = place * temperature^(-4 i / K), places 0..n-1 scaled to
    the grid of the pre-training. DINOv3 (timm `RotaryEmbeddingDinoV3`): angle = 2 pi * place / temperature^(4 i / K),
    places at patch centres in -1..1. Both: i = 0..K/4-1, rows first, then columns.

    Args:
        rotary: which scheme.
        grid: patches down and across.
        head_width: K, divisible by 4.
        prefix: tokens in front of the patches, which are not turned.

    Returns:
        cos and sin, (prefix + patches, K) float32.
    """
    bands = torch.arange(head_width // 4, dtype=torch.float32) * 4 / head_width
    axes = [torch.arange(side, dtype=torch.float32) for side in grid]
    if rotary.kind == "eva":
        reference = rotary.reference_grid or grid
        axes = [place / side * trained for place, side, trained in zip(axes, grid, reference, strict=True)]
        frequencies = 1.0 / rotary.temperature**bands
    else:
        axes = [2 * (place + 0.5) / side - 1 for place, side in zip(axes, grid, strict=True)]
        frequencies = 2 * math.pi / rotary.temperature**bands
    places = torch.stack(torch.meshgrid(*axes, indexing="ij"), dim=-1).reshape(-1, 2, 1)  # (P, 2, 1)
    angles = (places * frequencies).flatten(1).tile(2)  # (P, K)
    front = torch.zeros(prefix, head_width)  # an angle of 0 leaves a token as it is
    angles = torch.cat([front, angles])
    return angles.cos(), angles.sin()
