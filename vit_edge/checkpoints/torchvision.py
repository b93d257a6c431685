"""torchvision's VisionTransformer (`torchvision/models/vision_transformer.py`): a bare state_dict."""

from vit_edge.checkpoints.plan import LoadOptions, Plan, block_count, pick_heads, pick_image_size
from vit_edge.checkpoints.reading import Source
from vit_edge.checkpoints.rules import Copy, Rule, Split, copy
from vit_edge.config import ViTConfig
from vit_edge.presets import find_preset

__all__ = ["interpret", "matches"]

_LAYER = "encoder.layers.encoder_layer_"


def matches(source: Source) -> bool:
    """torchvision's layer names."""
    return f"{_LAYER}0.self_attention.in_proj_weight" in source.tensors


def interpret(source: Source, options: LoadOptions) -> Plan:
    """Read the shapes; heads and preprocessing come from `--arch` or from the user."""
    preset = find_preset(options.arch) if options.arch else None
    width, channels, *patch = source.shape("conv_proj.weight", 4)
    heads, assumed, notes = pick_heads(width, preset.args["num_heads"] if preset else None, options)
    first = f"{_LAYER}0.mlp."
    names = ("0", "3") if f"{first}0.weight" in source.tensors else ("linear_1", "linear_2")
    config = ViTConfig(
        image_size=pick_image_size(
            source.shape("encoder.pos_embedding", 2, 3)[-2] - 1, (patch[0], patch[1]), None, options
        ),
        patch_size=(patch[0], patch[1]),
        channels=channels,
        width=width,
        depth=block_count(list(source.tensors), _LAYER),
        heads=heads,
        mlp_width=source.shape(f"{first}{names[0]}.weight", 2)[0],
        classes=source.shape("heads.head.weight", 2)[0],
    )
    return Plan(
        config=config,
        rules=_rules(config, names),
        format="torchvision",
        name=options.arch or source.path.stem,
        notes=notes,
        heads_assumed=assumed,
    )


def _rules(config: ViTConfig, mlp: tuple[str, str]) -> list[Rule]:
    made = [Rule(("class_token",), ("cls_token",), Copy()), Rule(("encoder.pos_embedding",), ("pos_embed",), Copy())]
    made += copy("conv_proj", "patch_embed.proj") + copy("encoder.ln", "norm") + copy("heads.head", "head")
    layers = {"ln_1": "norm1", "self_attention.out_proj": "attn.proj", "ln_2": "norm2"}
    layers |= {f"mlp.{mlp[0]}": "mlp.fc1", f"mlp.{mlp[1]}": "mlp.fc2"}
    for i in range(config.depth):
        for part in ("weight", "bias"):
            targets = tuple(f"blocks.{i}.attn.{layer}.{part}" for layer in "qkv")
            made.append(Rule((f"{_LAYER}{i}.self_attention.in_proj_{part}",), targets, Split()))
        for theirs, ours in layers.items():
            made += copy(f"{_LAYER}{i}.{theirs}", f"blocks.{i}.{ours}")
    return made
