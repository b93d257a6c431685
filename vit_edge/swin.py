"""The Swin Transformer (Liu et al. 2021, "Hierarchical Vision Transformer using Shifted Windows").

Attention happens inside windows of the feature map; every second block shifts the windows by half their size, so that
neighbours exchange. Between stages, 2 x 2 cells merge into one of twice the width.

Letters in the shape comments: B images, C channels, h and w cells of the feature map down and across, D width of the
stage, W windows, N cells in a window, H heads, K = D / H. Module names are timm's, except that queries, keys and
values are three layers, and that the classifier is `head`.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from vit_edge.swin_config import StageSizes, SwinConfig
from vit_edge.window_positions import relative_index

__all__ = ["PatchEmbed", "PatchMerging", "Stage", "Swin", "SwinBlock", "SwinConfig", "WindowAttention", "shift_mask"]


class PatchEmbed(nn.Module):
    """Cut the image into patches and project each to the first stage's width."""

    def __init__(self, config: SwinConfig) -> None:
        super().__init__()
        self.proj = nn.Conv2d(config.channels, config.width, config.patch_size, stride=config.patch_size)
        self.norm = nn.LayerNorm(config.width, eps=config.merge_eps) if config.patch_norm else nn.Identity()

    def forward(self, images: Tensor) -> Tensor:  # (B, C, height, width)
        return self.norm(self.proj(images).permute(0, 2, 3, 1))  # (B, h, w, D)


class PatchMerging(nn.Module):
    """2 x 2 cells become one: joined to 4 D, normalised, projected to 2 D. Odd maps get a row or column of zeros."""

    def __init__(self, width: int, eps: float) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(4 * width, eps=eps)
        self.reduction = nn.Linear(4 * width, 2 * width, bias=False)

    def forward(self, x: Tensor) -> Tensor:  # (B, h, w, D)
        x = _pad(x, (x.shape[1] + x.shape[1] % 2, x.shape[2] + x.shape[2] % 2))
        h, w, D = x.shape[1:]
        x = x.view(-1, h // 2, 2, w // 2, 2, D).permute(0, 1, 3, 4, 2, 5)  # (B, h/2, w/2, right?, below?, D)
        return self.reduction(self.norm(x.reshape(-1, h // 2, w // 2, 4 * D)))  # (B, h/2, w/2, 2 D)


class WindowAttention(nn.Module):
    """Multi-head self-attention in each window: softmax(Q K^T / sqrt(K) + bias + mask) V.

    The bias depends on head and offset between the two cells only. The mask keeps apart cells that the cyclic shift
    has brought into one window although they are no neighbours.
    """

    mask: Tensor | None
    relative_index: Tensor

    def __init__(self, width: int, heads: int, sizes: StageSizes, mask: Tensor | None, *, qkv_bias: bool) -> None:
        super().__init__()
        self.heads = heads
        self.scale = (width // heads) ** -0.5
        self.q = nn.Linear(width, width, bias=qkv_bias)
        self.k = nn.Linear(width, width, bias=qkv_bias)
        self.v = nn.Linear(width, width, bias=qkv_bias)
        self.proj = nn.Linear(width, width)
        rows = (2 * sizes.window[0] - 1) * (2 * sizes.window[1] - 1)
        self.relative_position_bias_table = nn.Parameter(torch.zeros(rows, heads))
        nn.init.trunc_normal_(self.relative_position_bias_table, std=0.02)
        self.register_buffer("relative_index", relative_index(sizes.window).flatten(), persistent=False)  # (N * N)
        self.register_buffer("mask", mask, persistent=False)  # (W, 1, N, N) or None

    def forward(self, x: Tensor) -> Tensor:  # (B, W, N, D)
        W, N, D = x.shape[1:]
        q, k, v = (f(x).view(-1, W, N, self.heads, D // self.heads).transpose(2, 3) for f in (self.q, self.k, self.v))
        scores = (q * self.scale) @ k.transpose(3, 4)  # (B, W, H, N, N)
        bias = self.relative_position_bias_table.index_select(0, self.relative_index)  # (N * N, H)
        scores = scores + bias.view(N, N, -1).permute(2, 0, 1)
        if self.mask is not None:
            scores = scores + self.mask
        x = scores.softmax(dim=-1) @ v  # (B, W, H, N, K)
        return self.proj(x.transpose(2, 3).reshape(-1, W, N, D))


class Mlp(nn.Module):
    """D -> M -> D with a GELU between."""

    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.fc1 = nn.Linear(width, hidden)
        self.fc2 = nn.Linear(hidden, width)

    def forward(self, x: Tensor) -> Tensor:  # (B, h, w, D)
        return self.fc2(F.gelu(self.fc1(x)))


class SwinBlock(nn.Module):
    """Window attention and MLP, each with a norm before it and a residual."""

    def __init__(self, config: SwinConfig, stage: int, mask: Tensor | None, *, shifted: bool) -> None:
        super().__init__()
        self.sizes = config.stages[stage]
        self.shift = self.sizes.shift if shifted else (0, 0)
        self.pad_first = config.borders == "huggingface"
        width = config.widths[stage]
        self.norm1 = nn.LayerNorm(width, eps=config.norm_eps)
        self.attn = WindowAttention(width, config.heads[stage], self.sizes, mask, qkv_bias=config.qkv_bias)
        self.norm2 = nn.LayerNorm(width, eps=config.norm_eps)
        self.mlp = Mlp(width, int(width * config.mlp_ratio))

    def _attend(self, x: Tensor) -> Tensor:  # (B, h, w, D): shift, pad, cut, attend, and everything back
        (h, w), padded = self.sizes.map, self.sizes.padded
        down, across = self.shift
        x = _pad(x, padded) if self.pad_first else x
        x = _roll(x, -down, -across)
        x = _pad(x, padded)
        x = _join(self.attn(_cut(x, self.sizes)), self.sizes)  # (B, padded, padded, D)
        x = x if self.pad_first else x[:, :h, :w]
        return _roll(x, down, across)[:, :h, :w]

    def forward(self, x: Tensor) -> Tensor:  # (B, h, w, D)
        x = x + self._attend(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class Stage(nn.Module):
    """Blocks at one resolution; merging in front of them, but for the first stage."""

    def __init__(self, config: SwinConfig, stage: int) -> None:
        super().__init__()
        merges = stage > 0
        self.downsample = PatchMerging(config.widths[stage - 1], config.merge_eps) if merges else nn.Identity()
        sizes = config.stages[stage]
        mask = shift_mask(sizes) if any(sizes.shift) and config.depths[stage] > 1 else None  # one for all its blocks
        blocks = (
            SwinBlock(config, stage, mask if i % 2 else None, shifted=i % 2 == 1) for i in range(config.depths[stage])
        )
        self.blocks = nn.Sequential(*blocks)

    def forward(self, x: Tensor) -> Tensor:  # (B, h, w, D) of the stage before
        return self.blocks(self.downsample(x))  # (B, h, w, D) of this stage


class Swin(nn.Module):
    """Images to logits.

    Where windows do not tile a map (`config.borders`), timm shifts and then pads, and clips a window that is larger
    than the map side by side; transformers pads and then shifts, and shifts neither side when one of them is clipped.

    Example:
        >>> config = SwinConfig(width=96, depths=(2, 2, 6, 2), heads=(3, 6, 12, 24), window_size=((7, 7),) * 4)
        >>> Swin(config).eval()(torch.zeros(2, 3, 224, 224)).shape
        torch.Size([2, 1000])
    """

    def __init__(self, config: SwinConfig) -> None:
        super().__init__()
        self.config = config
        self.patch_embed = PatchEmbed(config)
        self.layers = nn.Sequential(*(Stage(config, i) for i in range(len(config.depths))))
        self.norm = nn.LayerNorm(config.widths[-1], eps=config.norm_eps)
        self.head = nn.Linear(config.widths[-1], config.classes) if config.classes else nn.Identity()
        self.apply(_initialise)

    def forward(self, images: Tensor) -> Tensor:
        """(B, C, height, width) float32, normalised -> logits (B, classes), or features (B, D)."""
        x = self.norm(self.layers(self.patch_embed(images)))  # (B, h, w, D)
        return self.head(x.mean(dim=(1, 2)))


def shift_mask(sizes: StageSizes) -> Tensor:
    """What a shifted block adds to the scores: 0 for cells of the same region of the image, else -100.

    Returns:
        (W, 1, N, N) float32.
    """
    regions = [
        (torch.arange(side) >= side - window).long() + (torch.arange(side) >= side - shift).long()
        if shift
        else torch.zeros(side, dtype=torch.long)
        for side, window, shift in zip(sizes.padded, sizes.window, sizes.shift, strict=True)
    ]
    region = 3 * regions[0][:, None] + regions[1][None, :]  # (h, w)
    cells = _cut(region[None, :, :, None], sizes)[0, :, :, 0]  # (W, N)
    apart = cells[:, None, :] != cells[:, :, None]  # (W, N, N)
    return torch.where(apart, -100.0, 0.0)[:, None]


def _pad(x: Tensor, size: tuple[int, int]) -> Tensor:
    """Zeros below and on the right of (B, h, w, D), up to `size`."""
    below, right = size[0] - x.shape[1], size[1] - x.shape[2]
    return F.pad(x, (0, 0, 0, right, 0, below)) if below or right else x


def _roll(x: Tensor, down: int, across: int) -> Tensor:
    """Cyclic shift of (B, h, w, D)."""
    return torch.roll(x, (down, across), dims=(1, 2)) if down or across else x


def _cut(x: Tensor, sizes: StageSizes) -> Tensor:
    """(B, h, w, D) into windows (B, W, N, D)."""
    (rows, columns), (height, width) = sizes.windows, sizes.window
    x = x.reshape(-1, rows, height, columns, width, x.shape[3]).transpose(2, 3)
    return x.reshape(-1, rows * columns, height * width, x.shape[5])


def _join(x: Tensor, sizes: StageSizes) -> Tensor:
    """Windows (B, W, N, D) back into (B, h, w, D)."""
    x = x.reshape(-1, *sizes.windows, *sizes.window, x.shape[3]).transpose(2, 3)
    return x.reshape(-1, *sizes.padded, x.shape[5])


def _initialise(module: nn.Module) -> None:
    if isinstance(module, nn.Linear | nn.Conv2d):
        nn.init.trunc_normal_(module.weight, std=0.02)
        if module.bias is not None:
            nn.init.zeros_(module.bias)
