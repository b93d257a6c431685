"""Position tables: the fixed sin/cos one, and resampling a learned one to another grid."""

import torch
import torch.nn.functional as F
from torch import Tensor

__all__ = ["resample_positions", "sincos_positions"]


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
