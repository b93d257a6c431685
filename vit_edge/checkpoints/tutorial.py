"""The hand-written MNIST ViT of the tutorial ("MyViT"), with its quirks kept exactly.

Its patches are runs of pixels in scan order, LayerNorm normalises over tokens and width together, every head
projects only its own slice of the width (a block-diagonal W_Q, W_K, W_V), there is no W_O (the identity), the MLP
is one Linear and a ReLU, positions are the fixed sin/cos table, and the module ends in a softmax.
"""

from math import isqrt

from vit_edge.checkpoints.errors import CheckpointError
from vit_edge.checkpoints.plan import LoadOptions, Plan, stated_heads
from vit_edge.checkpoints.reading import Source
from vit_edge.checkpoints.rules import BlockDiagonal, Copy, Identity, Join, Rule, copy
from vit_edge.config import ViTConfig

__all__ = ["interpret", "matches"]


def matches(source: Source) -> bool:
    """The tutorial's attribute names."""
    return "linear_mapper.weight" in source.tensors and "msa.q_mappings.0.weight" in source.tensors


def interpret(source: Source, options: LoadOptions) -> Plan:
    """Read everything from the shapes: here each head has weights of its own, so their number shows too."""
    width, pixels = source.shape("linear_mapper.weight", 2)
    tokens = source.shape("ln1.weight", 2)[0]
    found = sum(name.startswith("msa.q_mappings.") and name.endswith(".weight") for name in source.tensors)
    heads = stated_heads(source, found, options)
    channels, side = _image(source, (tokens - 1) * pixels)
    patch = side // isqrt(tokens - 1)
    config = ViTConfig(
        image_size=(side, side),
        patch_size=(patch, patch),
        channels=channels,
        width=width,
        depth=1,
        heads=heads,
        mlp_width=width,
        classes=source.shape("mlp.0.weight", 2)[0],
        patches="scanlines",
        positions="sincos",
        norm_axes="tokens_and_width",
        norm_eps=1e-5,
        activation="relu",
        mlp="single",
        final_norm="none",
    )
    return Plan(
        config=config,
        rules=_rules(heads),
        format="tutorial",
        name="tutorial_28" if side == 28 else source.path.stem,
        output="probabilities",
    )


def _image(source: Source, numbers: int) -> tuple[int, int]:
    """Channels and side of the square image whose pixels the patches share out."""
    for channels in (1, 3):
        side = isqrt(numbers // channels)
        if numbers > 0 and channels * side * side == numbers:
            return channels, side
    raise CheckpointError(f"{source.path}: {numbers} numbers are not a square grey or RGB image")


def _rules(heads: int) -> list[Rule]:
    made = [Rule(("class_token",), ("cls_token",), Copy())]
    made += copy("linear_mapper", "patch_embed.proj") + copy("mlp.0", "head")
    made += copy("ln1", "blocks.0.norm1") + copy("ln2", "blocks.0.norm2") + copy("enc_mlp.0", "blocks.0.mlp.fc1")
    for layer in "qkv":
        for part, operation in (("weight", BlockDiagonal(heads)), ("bias", Join(heads))):
            sources = tuple(f"msa.{layer}_mappings.{head}.{part}" for head in range(heads))
            made.append(Rule(sources, (f"blocks.0.attn.{layer}.{part}",), operation))
    made.append(Rule((), ("blocks.0.attn.proj.weight", "blocks.0.attn.proj.bias"), Identity()))
    return made
