"""From the tokens of the last block to one vector an image.

Letters: B images, N tokens, D width, H heads, K = D / H width of a head.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from vit_edge.config import ViTConfig
from vit_edge.mlp import activation

__all__ = ["AttentionPool", "Pool"]


class AttentionPool(nn.Module):
    """One learned query attends to all tokens, then an MLP with a residual (SigLIP; timm's AttentionPoolLatent)."""

    def __init__(self, config: ViTConfig) -> None:
        super().__init__()
        D = config.width
        self.heads = config.heads
        self.latent = nn.Parameter(torch.zeros(1, 1, D))
        self.q, self.k, self.v = nn.Linear(D, D), nn.Linear(D, D), nn.Linear(D, D)
        self.proj = nn.Linear(D, D)
        self.norm = nn.LayerNorm(D, eps=config.norm_eps)
        self.fc1 = nn.Linear(D, config.mlp_width)
        self.act = activation(config.activation)
        self.fc2 = nn.Linear(config.mlp_width, D)

    def forward(self, x: Tensor) -> Tensor:  # (B, N, D)
        query = self.q(self.latent).expand(x.shape[0], -1, -1)  # (B, 1, D)
        q, k, v = (t.unflatten(2, (self.heads, -1)).transpose(1, 2) for t in (query, self.k(x), self.v(x)))
        pooled = F.scaled_dot_product_attention(q, k, v)  # (B, H, 1, K)
        y = self.proj(pooled.transpose(1, 2).flatten(2))  # (B, 1, D)
        y = y + self.fc2(self.act(self.fc1(self.norm(y))))
        return y[:, 0]  # (B, D)


class Pool(nn.Module):
    """The class token, the mean of the patches, both side by side, or attention pooling."""

    def __init__(self, config: ViTConfig) -> None:
        super().__init__()
        self.kind = config.pool
        self.prefix = config.prefix_tokens
        if config.pool == "map":
            self.attention = AttentionPool(config)

    def forward(self, x: Tensor) -> Tensor:  # (B, N, D)
        if self.kind == "none":
            return x  # (B, N, D)
        if self.kind == "class":
            return x[:, 0]  # (B, D)
        if self.kind == "map":
            return self.attention(x)  # (B, D)
        mean = x[:, self.prefix :].mean(dim=1)  # (B, D)
        return mean if self.kind == "mean" else torch.cat([x[:, 0], mean], dim=1)  # (B, D) or (B, 2 D)
