"""The configuration of the reference Vision Transformer: one frozen record, one JSON form."""

import dataclasses
from collections.abc import Mapping
from typing import Any, Literal

from vit_edge.records import from_json, to_json
from vit_edge.runtime.errors import ConfigError
from vit_edge.stem_config import StemConfig

Activation = Literal["gelu", "gelu_tanh", "quick_gelu", "relu"]
FinalNorm = Literal["tokens", "pooled", "none"]
Mlp = Literal["expand", "single", "swiglu"]
NormAxes = Literal["width", "tokens_and_width"]
NormPlace = Literal["pre", "post", "res_post"]
Patches = Literal["tiles", "scanlines"]
Pool = Literal["class", "mean", "class_and_mean", "map", "none"]
Positions = Literal["learned", "learned_patches", "sincos", "none"]

# What a hostile file may make us build; no published ViT comes near.
_MAX_SIDE = 16_384
_MAX_TOKENS = 65_536
_LARGEST = {"channels": 1_024, "width": 16_384, "depth": 512, "heads": 16_384, "mlp_width": 1 << 18}
_MAX_CLASSES = 1 << 24
_MAX_REGISTERS = 1_024


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Rotary:
    """Rotary positions: queries and keys are turned by angles that grow with the place of their patch.

    Raises:
        ConfigError: the temperature is not positive.
    """

    kind: Literal["eva", "dinov3"]  # the formulas stand at `positions.rotary_tables`
    temperature: float
    reference_grid: tuple[int, int] | None = None  # "eva": the grid of the pre-training, which places are scaled to

    def __post_init__(self) -> None:
        if not self.temperature > 0:
            raise ConfigError(f"rotary temperature must be above 0, got {self.temperature}")
        if self.reference_grid and not all(1 <= side <= _MAX_SIDE for side in self.reference_grid):
            raise ConfigError(f"rotary reference grid must be 1..{_MAX_SIDE}, got {self.reference_grid}")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ViTConfig:
    """Everything that decides which function a set of weights computes.

    Raises:
        ConfigError: sizes are not positive, patches do not tile the image, heads do not divide the width,
            or options contradict each other.
    """

    image_size: tuple[int, int] = (224, 224)  # (height, width) in pixels
    patch_size: tuple[int, int] = (16, 16)
    channels: int = 3
    width: int
    depth: int
    heads: int  # not visible in the weights: a wrong number loads, runs and is silently wrong
    mlp_width: int
    classes: int = 1000  # 0: no classifier, the model gives the pooled features
    class_token: bool = True
    distillation_token: bool = False  # DeiT: a second token in front of the patches
    distillation_head: bool = False  # its own classifier; the two heads' logits are averaged
    registers: int = 0  # tokens in front of the patches that the head never reads (Darcet et al. 2023)
    stem: StemConfig | None = None  # a ResNet in front of the patches (the hybrids of Dosovitskiy et al.)
    patches: Patches = "tiles"  # "scanlines": consecutive pixels in scan order, as a raw reshape gives
    patch_bias: bool = True
    remainder: bool = False  # allows pixels below and right of the last whole patch, which the model never sees
    positions: Positions = "learned"  # "learned_patches": none on the tokens in front (DeiT III)
    rotary: Rotary | None = None
    pre_norm: bool = False  # a LayerNorm in front of the first block (CLIP)
    norm_place: NormPlace = "pre"  # "post": the original Transformer's; "res_post": x + norm(sublayer(x))
    norm_axes: NormAxes = "width"  # "tokens_and_width": nn.LayerNorm((N, D)), as some tutorials have it
    norm_eps: float = 1e-6
    activation: Activation = "gelu"  # the exact (erf) GELU; a "swiglu" MLP has its own
    mlp: Mlp = "expand"  # "single": one D -> D layer and the activation, nothing after it
    mlp_norm: bool = False  # a LayerNorm inside the MLP, in front of its last layer (EVA-02)
    qkv_bias: bool = True
    attention_norm: bool = False  # a LayerNorm inside attention, in front of its projection (EVA-02)
    layer_scale: bool = False
    pool: Pool = (
        "class"  # "class_and_mean": side by side (DINOv2); "map": attention pooling (SigLIP); "none": all tokens
    )
    final_norm: FinalNorm = "tokens"  # "pooled": after the pooling (timm's fc_norm)

    def __post_init__(self) -> None:
        for name, largest in _LARGEST.items():
            if not 1 <= getattr(self, name) <= largest:
                raise ConfigError(f"{name} must be 1..{largest}, got {str(getattr(self, name))[:80]}")
        if not 0 <= self.classes <= _MAX_CLASSES or not 0 <= self.registers <= _MAX_REGISTERS:
            raise ConfigError(f"classes and registers out of range: {self.classes} and {self.registers}")
        if not 0 < self.norm_eps < 1:
            raise ConfigError(f"norm_eps must be above 0 and below 1, got {self.norm_eps}")
        _check_sizes(self.image_size, self.patch_size, self.stem, remainder=self.remainder)
        if self.tokens > _MAX_TOKENS:
            raise ConfigError(f"{self.tokens} tokens are more than {_MAX_TOKENS}: image {self.image_size} is too large")
        if self.width % self.heads:
            raise ConfigError(f"{self.heads} heads do not divide width {self.width}: use {_divisors_text(self.width)}")
        self._check_options()

    def _check_options(self) -> None:
        if self.pool in ("class", "class_and_mean") and not self.class_token:
            raise ConfigError(f"pool {self.pool!r} needs a class token: use pool 'mean' or class_token true")
        if self.distillation_token and (self.pool not in ("class", "none") or self.positions == "learned_patches"):
            raise ConfigError("a distillation token needs pool 'class' and positions on all tokens")
        if self.distillation_head and not self.distillation_token:
            raise ConfigError("a distillation head needs a distillation token")
        if self.positions == "sincos" and self.width % 2:
            raise ConfigError(f"sin/cos positions need an even width, got {self.width}")
        if self.mlp == "single" and self.mlp_width != self.width:
            raise ConfigError(f"a single-layer MLP keeps width {self.width}, got mlp_width {self.mlp_width}")

        if self.remainder and (self.patches != "tiles" or self.stem):
            raise ConfigError("pixels can remain only where the patches are tiles of the image itself")
        if self.rotary and (self.width // self.heads) % 4:
            raise ConfigError(f"rotary positions need heads of a width divisible by 4, got {self.head_width}")
        if self.final_norm == "pooled" and self.pool in ("class_and_mean", "none"):
            raise ConfigError(f"a norm behind the pooling and pool {self.pool!r} do not go together")
        if self.pool == "none" and self.classes:
            raise ConfigError("pool 'none' gives tokens: it needs classes 0")

    @property
    def grid(self) -> tuple[int, int]:
        """Patches down and across."""
        height, width = self.stem.map_size(self.image_size) if self.stem else self.image_size
        return height // self.patch_size[0], width // self.patch_size[1]

    @property
    def prefix_tokens(self) -> int:
        """Tokens in front of the patches: class and distillation token, registers."""
        return int(self.class_token) + int(self.distillation_token) + self.registers

    @property
    def features(self) -> int:
        """Width of the vector that the classifier reads."""
        return 2 * self.width if self.pool == "class_and_mean" else self.width

    @property
    def tokens(self) -> int:
        """Length of the sequence the encoder sees."""
        return self.prefix_tokens + self.grid[0] * self.grid[1]

    @property
    def outputs(self) -> int:
        """Numbers that the model gives for one image."""
        if self.pool == "none":
            return self.tokens * self.width
        return self.classes or self.features

    @property
    def head_width(self) -> int:
        """Width of one attention head."""
        return self.width // self.heads

    def to_dict(self) -> dict[str, Any]:
        """The JSON form; tuples become lists."""
        return to_json(self)

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> "ViTConfig":
        """Read the JSON form.

        Raises:
            ConfigError: a key is unknown or missing, or a value has the wrong type.
        """
        return from_json(cls, fields)


def valid_heads(width: int) -> list[int]:
    """All head counts that divide `width`, smallest first."""
    return [n for n in range(1, width + 1) if width % n == 0]


def _divisors_text(width: int) -> str:
    return ", ".join(str(n) for n in valid_heads(width) if width // n >= 8 or width < 8)


def _check_sizes(image: tuple[int, int], patch: tuple[int, int], stem: StemConfig | None, *, remainder: bool) -> None:
    if len(image) != 2 or len(patch) != 2:
        raise ConfigError(f"image and patch size are (height, width), got {image} and {patch}")
    if not all(1 <= side <= _MAX_SIDE for side in (*image, *patch)):
        raise ConfigError(f"image and patch sides must be 1..{_MAX_SIDE}, got image {image}, patch {patch}")
    for side, cells, axis in zip(image, patch, ("height", "width"), strict=True):
        step = cells * (stem.stride if stem else 1)
        if side % step and not (remainder and side > step):
            below, above = side // step * step, -(-side // step) * step
            near = f"{below} or {above}" if below else str(above)
            raise ConfigError(f"image {axis} {side} is not divisible by patch size {step}: use {near}")
