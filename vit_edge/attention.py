"""Multi-head self-attention, with rotary positions where the model has them.

Letters: B images, N tokens, D width, H heads, K = D / H width of a head.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from vit_edge.config import ViTConfig
from vit_edge.positions import rotary_tables

__all__ = ["Attention", "rotate"]


class Attention(nn.Module):
    """softmax(Q K^T / sqrt(K)) V for each head, mixed by `proj`."""

    cos: Tensor
    sin: Tensor

    def __init__(self, config: ViTConfig) -> None:
        super().__init__()
        self.heads = config.heads
        self.q = nn.Linear(config.width, config.width, bias=config.qkv_bias)
        self.k = nn.Linear(config.width, config.width, bias=config.qkv_bias)
        self.v = nn.Linear(config.width, config.width, bias=config.qkv_bias)
        self.norm = nn.LayerNorm(config.width, eps=config.norm_eps) if config.attention_norm else nn.Identity()
        self.proj = nn.Linear(config.width, config.width)
        self.rotary = config.rotary is not None
        if config.rotary is not None:
            cos, sin = rotary_tables(config.rotary, config.grid, config.head_width, config.prefix_tokens)
            self.register_buffer("cos", cos, persistent=False)  # (N, K)
            self.register_buffer("sin", sin, persistent=False)

    def forward(self, x: Tensor) -> Tensor:  # (B, N, D)
        B, N, D = x.shape
        q, k, v = (layer(x).view(B, N, self.heads, -1).transpose(1, 2) for layer in (self.q, self.k, self.v))
        if self.rotary:
            q, k = rotate(q, self.cos, self.sin), rotate(k, self.cos, self.sin)
        x = F.scaled_dot_product_attention(q, k, v)  # (B, H, N, K)
        return self.proj(self.norm(x.transpose(1, 2).reshape(B, N, D)))  # (B, N, D)


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Turn the pair (x_i, x_{i + K/2}) by its token's angle (Su et al. 2021, RoFormer, in the "half" layout).

    Args:
        x: (..., K).
        cos: broadcastable to x; 1 for tokens without a place in the image.
        sin: likewise; 0 for those.
    """
    half = x.shape[-1] // 2
    first, second = x[..., :half], x[..., half:]
    return x * cos + torch.cat([-second, first], dim=-1) * sin
