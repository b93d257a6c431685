"""The ResNet stem of timm's hybrid ViTs: its configuration from the weights, and the rules that fill it.

Source of the names: timm `models/vision_transformer_hybrid.py` (HybridEmbed, _resnetv2), `models/resnetv2.py`.
"""

from collections.abc import Sequence

from torch import Tensor

from vit_edge.checkpoints.errors import CheckpointError
from vit_edge.checkpoints.plan import block_count
from vit_edge.checkpoints.reading import Source
from vit_edge.checkpoints.rules import Rule, Shape, copy
from vit_edge.stem import standardise
from vit_edge.stem_config import StemConfig

__all__ = ["Standardise", "stem_channels", "stem_config", "stem_rules"]

_BACKBONE = "patch_embed.backbone."


class Standardise:
    """A kernel that is standardised at every use to a plain one."""

    def source_shapes(self, targets: Sequence[Shape]) -> list[Shape]:
        """The same shapes."""
        return list(targets)

    def apply(self, sources: Sequence[Tensor], targets: Sequence[Shape]) -> list[Tensor]:
        """The standardised kernels."""
        return [standardise(source) for source in sources]


def stem_config(source: Source) -> StemConfig | None:
    """Read the stem's sizes from the weights; None where the checkpoint has no stem.

    Raises:
        CheckpointError: the stem is of another kind.
    """
    names = [name for name in source.tensors if name.startswith(_BACKBONE)]
    if not names:
        return None
    root = f"{_root(source)}conv.weight"
    if root not in source.tensors:
        raise CheckpointError(f"{source.path}: stem {names[0]} is not covered: timm's ResNetV2 hybrids (vit_*_r*) are")
    stages = block_count(names, f"{_BACKBONE}stages.") if any(_BACKBONE + "stages." in name for name in names) else 0
    blocks = [f"{_BACKBONE}stages.{i}.blocks." for i in range(stages)]
    return StemConfig(
        width=source.shape(root, 4)[0],
        depths=tuple(block_count(names, prefix) for prefix in blocks),
        widths=tuple(source.shape(f"{prefix}0.conv3.weight", 4)[0] for prefix in blocks),
    )


def stem_channels(source: Source) -> int:
    """Channels of the image that the stem takes."""
    return source.shape(f"{_root(source)}conv.weight", 4)[1]


def _root(source: Source) -> str:
    """A stem with stages calls its front `stem`; one without is nothing else."""
    named = f"{_BACKBONE}stem."
    return named if f"{named}conv.weight" in source.tensors else _BACKBONE


def stem_rules(source: Source, config: StemConfig, target: str = "stem") -> list[Rule]:
    """timm's names to those of a `ResNetStem` that is called `target`."""
    made = _conv_norm(f"{_root(source)}conv", f"{_root(source)}norm", f"{target}.root")
    for i, depth in enumerate(config.depths):
        for j in range(depth):
            theirs, ours = f"{_BACKBONE}stages.{i}.blocks.{j}", f"{target}.stages.{i}.{j}"
            for number, name in enumerate(("reduce", "mix", "expand"), start=1):
                made += _conv_norm(f"{theirs}.conv{number}", f"{theirs}.norm{number}", f"{ours}.{name}")
            made += _conv_norm(f"{theirs}.downsample.conv", f"{theirs}.downsample.norm", f"{ours}.shortcut")
    return made


def _conv_norm(conv: str, norm: str, target: str) -> list[Rule]:
    return [Rule((f"{conv}.weight",), (f"{target}.conv.weight",), Standardise()), *copy(norm, f"{target}.norm")]
