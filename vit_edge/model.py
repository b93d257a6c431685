"""The reference Vision Transformer (Dosovitskiy et al. 2021, "An Image is Worth 16x16 Words").

Letters in the shape comments: B images, C channels, P patches, N tokens (P and the tokens in front of them),
D width, H heads, K = D / H width of a head, M width of the MLP. Module names are timm's, which the field uses,
except that queries, keys and values are three layers: `q`, `k`, `v`.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from vit_edge.config import ViTConfig
from vit_edge.positions import sincos_positions

__all__ = ["Attention", "Block", "LayerScale", "Mlp", "PatchEmbed", "ViT"]

_ACTIVATIONS: dict[str, type[nn.Module]] = {"gelu": nn.GELU, "relu": nn.ReLU}


class PatchEmbed(nn.Module):
    """Cut the image into patches and project each to width D."""

    def __init__(self, config: ViTConfig) -> None:
        super().__init__()
        self.patches = config.grid[0] * config.grid[1]
        self.tiles = config.patches == "tiles"
        height, width = config.patch_size
        self.proj: nn.Module
        if self.tiles:  # a convolution whose stride is its kernel is the projection of every tile
            self.proj = nn.Conv2d(config.channels, config.width, (height, width), stride=(height, width))
        else:
            self.proj = nn.Linear(config.channels * height * width, config.width)

    def forward(self, images: Tensor) -> Tensor:  # (B, C, height, width)
        if self.tiles:
            return self.proj(images).flatten(2).transpose(1, 2)  # (B, P, D)
        return self.proj(images.reshape(images.shape[0], self.patches, -1))  # (B, P, D)


class Attention(nn.Module):
    """Multi-head self-attention: softmax(Q K^T / sqrt(K)) V for each head, mixed by `proj`."""

    def __init__(self, config: ViTConfig) -> None:
        super().__init__()
        self.heads = config.heads
        self.q = nn.Linear(config.width, config.width, bias=config.qkv_bias)
        self.k = nn.Linear(config.width, config.width, bias=config.qkv_bias)
        self.v = nn.Linear(config.width, config.width, bias=config.qkv_bias)
        self.proj = nn.Linear(config.width, config.width)

    def forward(self, x: Tensor) -> Tensor:  # (B, N, D)
        B, N, D = x.shape
        q, k, v = (layer(x).view(B, N, self.heads, -1).transpose(1, 2) for layer in (self.q, self.k, self.v))
        x = F.scaled_dot_product_attention(q, k, v)  # (B, H, N, K)
        return self.proj(x.transpose(1, 2).reshape(B, N, D))  # (B, N, D)


class Mlp(nn.Module):
    """D -> M -> D with an activation between; or a single D -> D layer followed by it."""

    def __init__(self, config: ViTConfig) -> None:
        super().__init__()
        self.fc1 = nn.Linear(config.width, config.mlp_width)
        self.act = _ACTIVATIONS[config.activation]()
        self.fc2 = nn.Linear(config.mlp_width, config.width) if config.mlp == "expand" else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:  # (B, N, D)
        return self.fc2(self.act(self.fc1(x)))  # (B, N, D), through (B, N, M)


class LayerScale(nn.Module):
    """A learned factor for each channel of a residual branch (Touvron et al. 2021, CaiT)."""

    def __init__(self, config: ViTConfig) -> None:
        super().__init__()
        self.gamma = nn.Parameter(torch.full((config.width,), 1e-5))

    def forward(self, x: Tensor) -> Tensor:  # (B, N, D)
        return x * self.gamma


def _norm(config: ViTConfig) -> nn.LayerNorm:
    over = config.width if config.norm_axes == "width" else (config.tokens, config.width)
    return nn.LayerNorm(over, eps=config.norm_eps)


class Block(nn.Module):
    """Attention and MLP, each with a residual; the norm stands before them (ViT), behind them, or behind the sum."""

    def __init__(self, config: ViTConfig) -> None:
        super().__init__()
        self.norm_place = config.norm_place
        self.norm1 = _norm(config)
        self.attn = Attention(config)
        self.ls1 = LayerScale(config) if config.layer_scale else nn.Identity()
        self.norm2 = _norm(config)
        self.mlp = Mlp(config)
        self.ls2 = LayerScale(config) if config.layer_scale else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:  # (B, N, D)
        if self.norm_place == "pre":
            x = x + self.ls1(self.attn(self.norm1(x)))
            return x + self.ls2(self.mlp(self.norm2(x)))
        if self.norm_place == "res_post":
            x = x + self.ls1(self.norm1(self.attn(x)))
            return x + self.ls2(self.norm2(self.mlp(x)))
        x = self.norm1(x + self.ls1(self.attn(x)))
        return self.norm2(x + self.ls2(self.mlp(x)))


class ViT(nn.Module):
    """Images to logits.

    Example:
        >>> model = ViT(ViTConfig.from_dict({"width": 192, "depth": 12, "heads": 3, "mlp_width": 768})).eval()
        >>> model(torch.zeros(2, 3, 224, 224)).shape
        torch.Size([2, 1000])
    """

    def __init__(self, config: ViTConfig) -> None:
        super().__init__()
        self.config = config
        D = config.width
        self.patch_embed = PatchEmbed(config)
        self.cls_token = nn.Parameter(torch.zeros(1, 1, D)) if config.class_token else None
        self.dist_token = nn.Parameter(torch.zeros(1, 1, D)) if config.distillation_token else None
        if config.positions == "sincos":
            self.register_buffer("pos_embed", sincos_positions(config.tokens, D), persistent=False)
        else:
            unplaced = config.prefix_tokens if config.positions == "learned_patches" else 0
            self.pos_embed = nn.Parameter(torch.zeros(1, config.tokens - unplaced, D))
        self.blocks = nn.Sequential(*(Block(config) for _ in range(config.depth)))
        self.norm = _norm(config) if config.final_norm == "tokens" else nn.Identity()
        self.fc_norm = nn.LayerNorm(D, eps=config.norm_eps) if config.final_norm == "pooled" else nn.Identity()
        self.head = nn.Linear(D, config.classes)
        self.head_dist = nn.Linear(D, config.classes) if config.distillation_head else None
        self.apply(_initialise)
        for table in (self.cls_token, self.dist_token, self.pos_embed):
            if isinstance(table, nn.Parameter):
                nn.init.trunc_normal_(table, std=0.02)

    def embed(self, images: Tensor) -> Tensor:
        """(B, C, height, width) float32, normalised -> (B, N, D): patches, tokens in front, positions."""
        x = self.patch_embed(images)  # (B, P, D)
        if self.config.positions == "learned_patches":
            x = x + self.pos_embed
        prefix = [token.expand(x.shape[0], -1, -1) for token in (self.cls_token, self.dist_token) if token is not None]
        x = torch.cat([*prefix, x], dim=1)  # (B, N, D)
        return x if self.config.positions == "learned_patches" else x + self.pos_embed

    def classify(self, x: Tensor) -> Tensor:
        """Tokens (B, N, D) after the last block -> logits (B, classes)."""
        if self.config.pool == "mean":
            return self.head(self.fc_norm(x[:, self.config.prefix_tokens :].mean(dim=1)))
        logits = self.head(self.fc_norm(x[:, 0]))
        if self.head_dist is None:
            return logits
        return (logits + self.head_dist(self.fc_norm(x[:, 1]))) / 2  # DeiT at inference: both heads, averaged

    def forward(self, images: Tensor) -> Tensor:
        """(B, C, height, width) float32, normalised -> logits (B, classes)."""
        return self.classify(self.norm(self.blocks(self.embed(images))))


def _initialise(module: nn.Module) -> None:
    if isinstance(module, nn.Linear | nn.Conv2d):
        nn.init.trunc_normal_(module.weight, std=0.02)
        if module.bias is not None:
            nn.init.zeros_(module.bias)
