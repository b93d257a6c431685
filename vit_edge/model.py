"""The reference Vision Transformer (Dosovitskiy et al. 2021, "An Image is Worth 16x16 Words") and its relatives.

Letters in the shape comments: B images, C channels, P patches, N tokens (P and the tokens in front of them), D width.
Module names are timm's, which the field uses, except that queries, keys and values are three layers: `q`, `k`, `v`.
"""

import torch
from torch import Tensor, nn

from vit_edge.attention import Attention
from vit_edge.config import ViTConfig
from vit_edge.heads import Pool
from vit_edge.mlp import mlp
from vit_edge.positions import sincos_positions
from vit_edge.stem import ResNetStem

__all__ = ["Block", "LayerScale", "PatchEmbed", "ViT"]


class PatchEmbed(nn.Module):
    """Cut the image, or what a convolutional stem makes of it, into patches and project each to width D."""

    def __init__(self, config: ViTConfig) -> None:
        super().__init__()
        self.patches = config.grid[0] * config.grid[1]
        self.tiles = config.patches == "tiles"
        self.backbone = ResNetStem(config.stem, config.channels) if config.stem else nn.Identity()
        channels = config.stem.channels if config.stem else config.channels
        size, bias = config.patch_size, config.patch_bias
        self.proj: nn.Module
        if self.tiles:  # a convolution whose stride is its kernel is the projection of every tile
            self.proj = nn.Conv2d(channels, config.width, size, stride=size, bias=bias)
        else:
            self.proj = nn.Linear(channels * size[0] * size[1], config.width, bias=bias)

    def forward(self, images: Tensor) -> Tensor:  # (B, C, height, width)
        images = self.backbone(images)
        if self.tiles:
            return self.proj(images).flatten(2).transpose(1, 2)  # (B, P, D)
        return self.proj(images.reshape(images.shape[0], self.patches, -1))  # (B, P, D)


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
        self.mlp = mlp(config)
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
        self.reg_token = nn.Parameter(torch.zeros(1, config.registers, D)) if config.registers else None
        table = _positions(config)
        if isinstance(table, nn.Parameter):
            self.pos_embed = table
        else:
            self.register_buffer("pos_embed", table, persistent=False)
        self.norm_pre = _norm(config) if config.pre_norm else nn.Identity()
        self.blocks = nn.Sequential(*(Block(config) for _ in range(config.depth)))
        self.norm = _norm(config) if config.final_norm == "tokens" else nn.Identity()
        self.pool = Pool(config)
        self.fc_norm = nn.LayerNorm(D, eps=config.norm_eps) if config.final_norm == "pooled" else nn.Identity()
        self.head = nn.Linear(config.features, config.classes) if config.classes else nn.Identity()
        self.head_dist = nn.Linear(D, config.classes) if config.distillation_head else None
        self.apply(_initialise)

    def embed(self, images: Tensor) -> Tensor:
        """(B, C, height, width) float32, normalised -> (B, N, D): patches, tokens in front, positions."""
        x = self.patch_embed(images)  # (B, P, D)
        if self.config.positions == "learned_patches":
            x = x + self.pos_embed
        front = (self.cls_token, self.dist_token, self.reg_token)
        prefix = [token.expand(x.shape[0], -1, -1) for token in front if token is not None]
        x = torch.cat([*prefix, x], dim=1)  # (B, N, D)
        if self.config.positions in ("learned", "sincos"):
            x = x + self.pos_embed
        return self.norm_pre(x)

    def tokens(self, images: Tensor) -> Tensor:
        """(B, C, height, width) float32, normalised -> all tokens behind the last norm (B, N, D)."""
        return self.norm(self.blocks(self.embed(images)))

    def features(self, images: Tensor) -> Tensor:
        """(B, C, height, width) float32, normalised -> the pooled vector that the classifier reads (B, features)."""
        return self.fc_norm(self.pool(self.tokens(images)))

    def forward(self, images: Tensor) -> Tensor:
        """(B, C, height, width) float32, normalised -> logits (B, classes); features where there is no classifier."""
        if self.head_dist is None:
            return self.head(self.features(images))
        x = self.tokens(images)  # DeiT at inference: the logits of both heads, averaged
        return (self.head(self.fc_norm(x[:, 0])) + self.head_dist(self.fc_norm(x[:, 1]))) / 2


def _positions(config: ViTConfig) -> Tensor | None:
    """The learned table, as a parameter, or the fixed one; models with rotary positions alone have none."""
    if config.positions == "none":
        return None
    if config.positions == "sincos":
        return sincos_positions(config.tokens, config.width)
    unplaced = config.prefix_tokens if config.positions == "learned_patches" else 0
    return nn.Parameter(torch.zeros(1, config.tokens - unplaced, config.width))


def _initialise(module: nn.Module) -> None:
    if isinstance(module, nn.Linear | nn.Conv2d):
        nn.init.trunc_normal_(module.weight, std=0.02)
        if module.bias is not None:
            nn.init.zeros_(module.bias)
    elif isinstance(module, ViT):
        for table in (module.cls_token, module.dist_token, module.reg_token, module.pos_embed):
            if isinstance(table, nn.Parameter):
                nn.init.trunc_normal_(table, std=0.02)
