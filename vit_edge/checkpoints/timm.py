"""timm's VisionTransformer (ViT, DeiT, DINOv2, CLIP, SigLIP, hybrids); DeiT's and MAE's files use the same names.

Sources of the conventions: timm `models/vision_transformer.py` (VisionTransformer), `models/deit.py`,
`layers/attention_pool.py` (AttentionPoolLatent), `layers/mlp.py` (GluMlp).
"""

from collections.abc import Mapping
from typing import Any

from vit_edge.checkpoints.errors import CheckpointError
from vit_edge.checkpoints.fields import INTEGER, OBJECT, TEXT, TEXTS
from vit_edge.checkpoints.plan import LoadOptions, Plan, pick_heads, pick_image_size
from vit_edge.checkpoints.reading import Source
from vit_edge.checkpoints.rules import Copy, Rule, Split, copy
from vit_edge.checkpoints.stem import stem_rules
from vit_edge.checkpoints.timm_arguments import from_shapes, norm_eps, own_arguments, pair, pretrained_size
from vit_edge.config import Activation, FinalNorm, Pool, ViTConfig
from vit_edge.preprocessing import from_timm
from vit_edge.presets import Preset, find_preset
from vit_edge.runtime.preprocess import Preprocess

__all__ = ["head_rules", "interpret", "labels", "matches", "mlp_rules", "preprocessing", "settled_arguments"]

_DECISIVE = {"res_post_norm", "rope_rotate_half", "norm_eps", "act_layer"}  # do not show in the weights
_POOLS: Mapping[str, Pool] = {"token": "class", "avg": "mean", "map": "map"}
_ACTIVATIONS: Mapping[str, Activation] = {
    "gelu": "gelu",
    "gelu_tanh": "gelu_tanh",
    "quick_gelu": "quick_gelu",
    "relu": "relu",
}


def matches(source: Source) -> bool:
    """A timm config.json, or tensors under timm's names."""
    return "architecture" in source.config.values or "blocks.0.attn.qkv.weight" in source.tensors


def interpret(source: Source, options: LoadOptions) -> Plan:
    """Settle the architecture: the config's own arguments, else the named preset's, else the shapes'."""
    args, preset, notes = settled_arguments(source, options)
    heads, assumed, heads_notes = pick_heads(args["embed_dim"], args.get("num_heads"), options)
    config = _config(source, args, heads, options)
    preprocess, origin = preprocessing(source, config, options, preset)
    return Plan(
        config=config,
        rules=_rules(config, source),
        format="timm",
        name=preset.name if preset else source.path.stem,
        preprocess=preprocess,
        preprocess_origin=origin,
        labels=labels(source),
        notes=heads_notes + notes,
        heads_assumed=assumed,
    )


def settled_arguments(
    source: Source, options: LoadOptions, defaults: Mapping[str, Any] | None = None
) -> tuple[dict[str, Any], Preset | None, tuple[str, ...]]:
    """The constructor's arguments, the named preset, and what to tell the user about them.

    Later sources win: shapes, the class's `defaults`, the named architecture, the config's model_args. Where model_args
    are complete they are those of the plain class, and the name is a label.
    """
    name = options.arch or source.config.get("architecture", TEXT)
    preset = find_preset(name) if name else None
    own = own_arguments(source.config.inner("model_args"))
    if name is None and "norm_pre.weight" in source.tensors:
        raise CheckpointError(
            f"{source.path}: CLIP weights do not show their activation and norm epsilon: give --arch NAME"
        )
    complete = {"embed_dim", "depth", "num_heads"} <= set(own)
    named = dict(preset.args) if preset else {}
    used = {key: value for key, value in named.items() if not complete or key == "distilled"}
    seen = from_shapes(source)
    args = {**seen, **(defaults or {}), **used, **own}
    if "num_classes" not in own:
        args["num_classes"] = source.config.get("num_classes", INTEGER, seen["num_classes"])
    if preset and "img_size" not in own:  # a name says what was pre-trained, the table what is in the file
        args["img_size"] = pretrained_size(source) or named["img_size"]
    if "norm_layer" in own:
        args["norm_eps"] = norm_eps(source, own["norm_layer"])
    unused = sorted(key for key in _DECISIVE & set(named) if named[key] != args.get(key))
    notes = (f"model_args are complete, so what {name} adds is not used: {', '.join(unused)}",) if unused else ()
    return args, preset, notes


def _config(source: Source, args: Mapping[str, Any], heads: int, options: LoadOptions) -> ViTConfig:
    patch = pair(args["patch_size"])  # one number in a preset
    distilled, class_token, registers = bool(args["distilled"]), bool(args["class_token"]), args["reg_tokens"]
    prefix = 0 if args["no_embed_class"] else int(class_token) + int(distilled) + registers
    if args["global_pool"] not in _POOLS:
        raise CheckpointError(f"{source.path}: global_pool {args['global_pool']!r} is not covered: token, avg, map are")
    pool = _POOLS[args["global_pool"]]
    pooled_norm = args["fc_norm"] if args["fc_norm"] is not None else pool == "mean"  # timm's rule
    final_norm: FinalNorm = "pooled" if pooled_norm else "tokens"
    stem, stride = args["stem"], args["stem"].stride if args["stem"] else 1
    cell = (patch[0] * stride, patch[1] * stride)
    known = pair(args["img_size"]) if "img_size" in args else None
    return ViTConfig(
        image_size=pick_image_size(source.shape("pos_embed", 2, 3)[-2] - prefix, cell, known, options),
        patch_size=patch,
        channels=args["in_chans"],
        width=args["embed_dim"],
        depth=args["depth"],
        heads=heads,
        mlp_width=_mlp_width(args),
        classes=args["num_classes"],
        class_token=class_token,
        distillation_token=distilled,
        distillation_head=distilled,
        registers=registers,
        stem=stem,
        patch_bias=not args["pre_norm"] if "pre_norm" in args else args["patch_bias"],
        positions="learned_patches" if args["no_embed_class"] else "learned",
        pre_norm=args["pre_norm"],
        norm_place="res_post" if args.get("res_post_norm") else "pre",
        norm_eps=args.get("norm_eps", 1e-6),
        activation=_activation(source, args),
        mlp="swiglu" if args["swiglu_mlp"] else "expand",
        qkv_bias=args["qkv_bias"],
        layer_scale=bool(args["init_values"]),
        pool=pool,
        final_norm=final_norm,
    )


def _mlp_width(args: Mapping[str, Any]) -> int:
    """timm's int(embed_dim * mlp_ratio), halved where gate and value are packed; else what the shapes show."""
    if "mlp_ratio" not in args:
        return int(args["mlp_width"])
    rows = int(args["embed_dim"] * args["mlp_ratio"])
    return rows // 2 if args["swiglu_mlp"] else rows


def _activation(source: Source, args: Mapping[str, Any]) -> Activation:
    name = args.get("act_layer", "gelu")
    if args["swiglu_mlp"]:
        return "gelu"  # a SwiGLU has no other activation
    if name not in _ACTIVATIONS:
        raise CheckpointError(f"{source.path}: act_layer {name!r} is not covered: {', '.join(_ACTIVATIONS)} are")
    return _ACTIVATIONS[name]


def _rules(config: ViTConfig, source: Source) -> list[Rule]:
    """timm's names to ours; what is packed there is in layers of its own here."""
    made = head_rules() + (stem_rules(source, config.stem, "patch_embed.backbone") if config.stem else [])
    for name in ("q", "proj", "norm"):
        made += copy(f"attn_pool.{name}", f"pool.attention.{name}")
    for name in ("fc1", "fc2"):
        made += copy(f"attn_pool.mlp.{name}", f"pool.attention.{name}")
    made.append(Rule(("attn_pool.latent",), ("pool.attention.latent",), Copy()))
    for part in ("weight", "bias"):
        both = tuple(f"pool.attention.{layer}.{part}" for layer in "kv")
        made.append(Rule((f"attn_pool.kv.{part}",), both, Split()))
    for i in range(config.depth):
        block = f"blocks.{i}"
        for part in ("weight", "bias"):
            targets = tuple(f"{block}.attn.{layer}.{part}" for layer in "qkv")
            made.append(Rule((f"{block}.attn.qkv.{part}",), targets, Split()))
        for name in ("norm1", "attn.proj", "norm2"):
            made += copy(f"{block}.{name}", f"{block}.{name}")
        made += mlp_rules(block, config)
        made += [Rule((f"{block}.{ls}.gamma",), (f"{block}.{ls}.gamma",), Copy()) for ls in ("ls1", "ls2")]
    return made


def head_rules() -> list[Rule]:
    """What stands in front of the blocks and behind them."""
    made = [Rule((name,), (name,), Copy()) for name in ("cls_token", "dist_token", "reg_token", "pos_embed")]
    for name in ("patch_embed.proj", "norm_pre", "norm", "fc_norm", "head", "head_dist"):
        made += copy(name, name)
    return made


def mlp_rules(block: str, config: ViTConfig) -> list[Rule]:
    """The MLP of one block; a packed SwiGLU has the gate in front of the value."""
    made = copy(f"{block}.mlp.fc2", f"{block}.mlp.fc2")
    if config.mlp != "swiglu":
        return made + copy(f"{block}.mlp.fc1", f"{block}.mlp.fc1")
    for part in ("weight", "bias"):
        both = tuple(f"{block}.mlp.{layer}.{part}" for layer in ("gate", "value"))
        made.append(Rule((f"{block}.mlp.fc1.{part}",), both, Split()))
    return made


def preprocessing(
    source: Source, config: ViTConfig, options: LoadOptions, preset: Preset | None
) -> tuple[Preprocess | None, str]:
    """The checkpoint's own preprocessing, else the preset's, and where it comes from."""
    size = options.image_size or config.image_size
    own = source.config.get("pretrained_cfg", OBJECT)
    if own:
        return from_timm(own, size), "the checkpoint's pretrained_cfg"
    if preset and preset.pretrained_cfg and config.channels == 3:
        return from_timm(preset.pretrained_cfg, size), f"the preset of {preset.name}"
    return None, ""


def labels(source: Source) -> tuple[str, ...]:
    """The class names in config.json; none where it has none."""
    for fields in (source.config, source.config.inner("pretrained_cfg")):
        names = fields.get("label_names", TEXTS, ())
        if names:
            described = fields.inner("label_descriptions")
            return tuple(described.get(name, TEXT, name) for name in names)
    return ()
