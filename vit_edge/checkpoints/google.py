"""Google's JAX checkpoints as `.npz` (google-research/vision_transformer and big_vision).

Kernels are (in, out); attention kernels carry the heads as an axis of their own, so here, and only here, the
number of heads can be read from the weights.
"""

from vit_edge.checkpoints.plan import LoadOptions, Plan, block_count, pick_image_size, stated_heads
from vit_edge.checkpoints.reading import Source
from vit_edge.checkpoints.rules import ConvKernel, Copy, HeadsIn, HeadsOut, Operation, Rule, Transpose
from vit_edge.config import ViTConfig

__all__ = ["interpret", "matches"]

_BLOCK = "Transformer/encoderblock_"


def matches(source: Source) -> bool:
    """The names of a flattened JAX tree."""
    return any(name.startswith(f"{_BLOCK}0/") for name in source.tensors)


def interpret(source: Source, options: LoadOptions) -> Plan:
    """Read everything from the shapes; preprocessing comes from `--arch` or from the user."""
    attention, norm2, mlp = _module_names(source)
    height, width_px, channels, width = source.shape("embedding/kernel", 4)
    heads = stated_heads(source, source.shape(f"{_BLOCK}0/{attention}/query/kernel", 3)[1], options)
    table = _position_name(source)
    config = ViTConfig(
        image_size=pick_image_size(source.shape(table, 2, 3)[-2] - 1, (height, width_px), None, options),
        patch_size=(height, width_px),
        channels=channels,
        width=width,
        depth=block_count(list(source.tensors), _BLOCK),
        heads=heads,
        mlp_width=source.shape(f"{_BLOCK}0/{mlp}/Dense_0/kernel", 2)[1],
        classes=source.shape("head/kernel", 2)[1],
    )
    return Plan(
        config=config,
        rules=_rules(config, table, attention, norm2, mlp),
        format="google",
        name=options.arch or source.path.stem,
    )


def _module_names(source: Source) -> tuple[str, str, str]:
    """Flax numbers submodules over all kinds (2020's layout) or for each kind (big_vision's)."""
    if f"{_BLOCK}0/MultiHeadDotProductAttention_1/query/kernel" in source.tensors:
        return "MultiHeadDotProductAttention_1", "LayerNorm_2", "MlpBlock_3"
    return "MultiHeadDotProductAttention_0", "LayerNorm_1", "MlpBlock_0"


def _position_name(source: Source) -> str:
    plain = "pos_embedding"
    return plain if plain in source.tensors else "Transformer/posembed_input/pos_embedding"


def _layer(source: str, target: str, kernel: Operation, bias: Operation | None = None) -> list[Rule]:
    return [
        Rule((f"{source}/kernel",), (f"{target}.weight",), kernel),
        Rule((f"{source}/bias",), (f"{target}.bias",), bias or Copy()),
    ]


def _norm(source: str, target: str) -> list[Rule]:
    parts = {"scale": "weight", "bias": "bias"}
    return [Rule((f"{source}/{theirs}",), (f"{target}.{ours}",), Copy()) for theirs, ours in parts.items()]


def _rules(config: ViTConfig, table: str, attention: str, norm2: str, mlp: str) -> list[Rule]:
    made = [Rule(("cls",), ("cls_token",), Copy()), Rule((table,), ("pos_embed",), Copy())]
    made += _layer("embedding", "patch_embed.proj", ConvKernel()) + _layer("head", "head", Transpose())
    made += _norm("Transformer/encoder_norm", "norm")
    for i in range(config.depth):
        theirs, ours = f"{_BLOCK}{i}", f"blocks.{i}"
        made += _norm(f"{theirs}/LayerNorm_0", f"{ours}.norm1") + _norm(f"{theirs}/{norm2}", f"{ours}.norm2")
        for name in ("query", "key", "value"):
            split = HeadsOut(config.heads)
            made += _layer(f"{theirs}/{attention}/{name}", f"{ours}.attn.{name[0]}", split, split)
        made += _layer(f"{theirs}/{attention}/out", f"{ours}.attn.proj", HeadsIn(config.heads))
        made += _layer(f"{theirs}/{mlp}/Dense_0", f"{ours}.mlp.fc1", Transpose())
        made += _layer(f"{theirs}/{mlp}/Dense_1", f"{ours}.mlp.fc2", Transpose())
    return made
