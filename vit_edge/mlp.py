"""What stands behind attention in a block: D -> M -> D, in the forms that ViTs use.

Letters: B images, N tokens, D width, M hidden width.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from vit_edge.config import Activation, ViTConfig

__all__ = ["Mlp", "SwiGlu", "activation", "mlp"]


class QuickGelu(nn.Module):
    """x * sigmoid(1.702 x): OpenAI CLIP's approximation of GELU."""

    def forward(self, x: Tensor) -> Tensor:
        return x * torch.sigmoid(1.702 * x)


def activation(name: Activation) -> nn.Module:
    """The activation of that name; "gelu" is the exact (erf) one."""
    if name == "gelu_tanh":
        return nn.GELU(approximate="tanh")
    return {"gelu": nn.GELU, "relu": nn.ReLU, "quick_gelu": QuickGelu}[name]()


class Mlp(nn.Module):
    """D -> M -> D with an activation between; or a single D -> D layer followed by it."""

    def __init__(self, config: ViTConfig) -> None:
        super().__init__()
        self.fc1 = nn.Linear(config.width, config.mlp_width)
        self.act = activation(config.activation)
        self.norm = nn.LayerNorm(config.mlp_width, eps=config.norm_eps) if config.mlp_norm else nn.Identity()
        self.fc2 = nn.Linear(config.mlp_width, config.width) if config.mlp == "expand" else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:  # (B, N, D)
        return self.fc2(self.norm(self.act(self.fc1(x))))  # (B, N, D), through (B, N, M)


class SwiGlu(nn.Module):
    """silu(x W_gate) * (x W_value), then M -> D (Shazeer 2020, "GLU Variants Improve Transformer")."""

    def __init__(self, config: ViTConfig) -> None:
        super().__init__()
        self.gate = nn.Linear(config.width, config.mlp_width)
        self.value = nn.Linear(config.width, config.mlp_width)
        self.norm = nn.LayerNorm(config.mlp_width, eps=config.norm_eps) if config.mlp_norm else nn.Identity()
        self.fc2 = nn.Linear(config.mlp_width, config.width)

    def forward(self, x: Tensor) -> Tensor:  # (B, N, D)
        return self.fc2(self.norm(F.silu(self.gate(x)) * self.value(x)))  # (B, N, D), through (B, N, M)


def mlp(config: ViTConfig) -> nn.Module:
    """The block's MLP in the form that the configuration names."""
    return SwiGlu(config) if config.mlp == "swiglu" else Mlp(config)
