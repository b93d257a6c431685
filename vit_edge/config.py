"""The configuration of the reference Vision Transformer: one frozen record, one JSON form."""

import dataclasses
import types
from collections.abc import Mapping
from typing import Any, Literal, get_args, get_origin, get_type_hints

from vit_edge.runtime.errors import ConfigError

Activation = Literal["gelu", "relu"]
FinalNorm = Literal["tokens", "pooled", "none"]
Mlp = Literal["expand", "single"]
NormAxes = Literal["width", "tokens_and_width"]
NormPlace = Literal["pre", "post", "res_post"]
Patches = Literal["tiles", "scanlines"]
Pool = Literal["class", "mean"]
Positions = Literal["learned", "learned_patches", "sincos"]

_MAX_SIDE = 16_384


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
    classes: int = 1000
    class_token: bool = True
    distillation_token: bool = False  # DeiT: a second token in front of the patches
    distillation_head: bool = False  # its own classifier; the two heads' logits are averaged
    patches: Patches = "tiles"  # "scanlines": consecutive pixels in scan order, as a raw reshape gives
    positions: Positions = "learned"  # "learned_patches": no position on the class token (DeiT III)
    norm_place: NormPlace = "pre"  # "post": the original Transformer's; "res_post": x + norm(sublayer(x))
    norm_axes: NormAxes = "width"  # "tokens_and_width": nn.LayerNorm((N, D)), as some tutorials have it
    norm_eps: float = 1e-6
    activation: Activation = "gelu"  # the exact (erf) GELU
    mlp: Mlp = "expand"  # "single": one D -> D layer and the activation, nothing after it
    qkv_bias: bool = True
    layer_scale: bool = False
    pool: Pool = "class"
    final_norm: FinalNorm = "tokens"  # "pooled": after the pooling (timm's fc_norm)

    def __post_init__(self) -> None:
        for name in ("channels", "width", "depth", "heads", "mlp_width", "classes"):
            if getattr(self, name) < 1:
                raise ConfigError(f"{name} must be at least 1, got {getattr(self, name)}")
        _check_sizes(self.image_size, self.patch_size)
        if self.width % self.heads:
            raise ConfigError(f"{self.heads} heads do not divide width {self.width}: use {_divisors_text(self.width)}")
        if self.pool == "class" and not self.class_token:
            raise ConfigError("pool 'class' needs a class token: use pool 'mean' or class_token true")
        if self.distillation_token and (self.pool != "class" or self.positions == "learned_patches"):
            raise ConfigError("a distillation token needs pool 'class' and positions on all tokens")
        if self.distillation_head and not self.distillation_token:
            raise ConfigError("a distillation head needs a distillation token")
        if self.positions == "sincos" and self.width % 2:
            raise ConfigError(f"sin/cos positions need an even width, got {self.width}")
        if self.mlp == "single" and self.mlp_width != self.width:
            raise ConfigError(f"a single-layer MLP keeps width {self.width}, got mlp_width {self.mlp_width}")

    @property
    def grid(self) -> tuple[int, int]:
        """Patches down and across."""
        return self.image_size[0] // self.patch_size[0], self.image_size[1] // self.patch_size[1]

    @property
    def prefix_tokens(self) -> int:
        """Tokens in front of the patches: class and distillation token."""
        return int(self.class_token) + int(self.distillation_token)

    @property
    def tokens(self) -> int:
        """Length of the sequence the encoder sees."""
        return self.prefix_tokens + self.grid[0] * self.grid[1]

    @property
    def head_width(self) -> int:
        """Width of one attention head."""
        return self.width // self.heads

    def to_dict(self) -> dict[str, Any]:
        """The JSON form; tuples become lists."""
        return {k: list(v) if isinstance(v, tuple) else v for k, v in dataclasses.asdict(self).items()}

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> "ViTConfig":
        """Read the JSON form.

        Raises:
            ConfigError: a key is unknown or missing, or a value has the wrong type.
        """
        hints = get_type_hints(cls)
        unknown = sorted(set(fields) - set(hints))
        if unknown:
            raise ConfigError(f"unknown configuration keys: {', '.join(unknown)}")
        values = {key: _typed(key, value, hints[key]) for key, value in fields.items()}
        try:
            return cls(**values)
        except TypeError as error:
            raise ConfigError(f"incomplete configuration: {error}") from error


def valid_heads(width: int) -> list[int]:
    """All head counts that divide `width`, smallest first."""
    return [n for n in range(1, width + 1) if width % n == 0]


def _divisors_text(width: int) -> str:
    return ", ".join(str(n) for n in valid_heads(width) if width // n >= 8 or width < 8)


def _check_sizes(image: tuple[int, int], patch: tuple[int, int]) -> None:
    if len(image) != 2 or len(patch) != 2:
        raise ConfigError(f"image and patch size are (height, width), got {image} and {patch}")
    if not all(1 <= side <= _MAX_SIDE for side in (*image, *patch)):
        raise ConfigError(f"image and patch sides must be 1..{_MAX_SIDE}, got image {image}, patch {patch}")
    for side, step, axis in zip(image, patch, ("height", "width"), strict=True):
        if side % step:
            below, above = side // step * step, -(-side // step) * step
            near = f"{below} or {above}" if below else str(above)
            raise ConfigError(f"image {axis} {side} is not divisible by patch size {step}: use {near}")


def _typed(key: str, value: Any, hint: Any) -> Any:
    """Check one JSON value against its field's type."""
    if get_origin(hint) is tuple and isinstance(value, list | tuple):
        return tuple(_typed(key, item, int) for item in value)
    if get_origin(hint) is Literal:
        if value not in get_args(hint):
            raise ConfigError(f"{key} must be one of {', '.join(get_args(hint))}, got {value!r}")
        return value
    accepted: type | types.UnionType = int | float if hint is float else hint
    if get_origin(hint) is tuple or not isinstance(value, accepted) or isinstance(value, bool) != (hint is bool):
        raise ConfigError(f"{key} must be {getattr(hint, '__name__', hint)}, got {value!r}")
    return value
