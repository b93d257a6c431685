"""timm's Vision Transformers, and DeiT's and MAE's `.pth` files, which use the same names.

Sources of the conventions: timm `models/vision_transformer.py` (VisionTransformer), `models/deit.py`.
"""

from collections.abc import Mapping
from math import isqrt
from typing import Any

from vit_edge.checkpoints.errors import CheckpointError
from vit_edge.checkpoints.plan import LoadOptions, Plan, block_count, pick_heads, pick_image_size
from vit_edge.checkpoints.reading import Source
from vit_edge.checkpoints.rules import Copy, Rule, Split, copy
from vit_edge.config import FinalNorm, ViTConfig
from vit_edge.preprocessing import from_timm
from vit_edge.presets import Preset, find_preset
from vit_edge.runtime.preprocess import Preprocess

__all__ = ["interpret", "matches"]

_UNDERSTOOD = {  # constructor arguments that decide the function
    *("img_size", "patch_size", "in_chans", "num_classes", "embed_dim", "depth", "num_heads", "mlp_ratio", "qkv_bias"),
    *("init_values", "class_token", "global_pool", "fc_norm", "no_embed_class", "distilled"),
}
_TRAINING_ONLY = {
    *("drop_rate", "pos_drop_rate", "patch_drop_rate", "proj_drop_rate", "attn_drop_rate", "drop_path_rate"),
    *("weight_init", "fix_init", "dynamic_img_size", "dynamic_img_pad"),
}


def matches(source: Source) -> bool:
    """A timm config.json, or tensors under timm's names."""
    return "architecture" in source.config or "blocks.0.attn.qkv.weight" in source.tensors


def interpret(source: Source, options: LoadOptions) -> Plan:
    """Settle the architecture: the config's own arguments, else the named preset's, else the shapes'."""
    name = options.arch or source.config.get("architecture")
    preset = find_preset(name) if name else None
    own = dict(source.config.get("model_args") or {})
    unknown = sorted(set(own) - _UNDERSTOOD - _TRAINING_ONLY)
    if unknown:
        raise CheckpointError(f"{source.path}: model_args not covered: {', '.join(unknown)}")
    seen = _from_shapes(source)
    args = {**seen, **(preset.args if preset else {}), **own}
    if "num_classes" in source.config:
        args["num_classes"] = source.config["num_classes"]
    if preset and "img_size" not in own:  # a name says what was pre-trained, the table what is in the file
        args["img_size"] = _pretrained_size(source) or args["img_size"]
    heads, assumed, notes = pick_heads(args["embed_dim"], args.get("num_heads"), options)
    if args.get("res_post_norm") and {"embed_dim", "depth", "num_heads"} <= set(own):
        # complete arguments are those of a plain VisionTransformer, which is pre-norm; the name is a label then
        args["res_post_norm"] = False
        notes += (f"norm: pre-norm, as model_args describe a plain VisionTransformer; {name} alone has it behind",)
    config = _config(source, args, heads, options)
    preprocess, origin = _preprocess(source, config, options, preset)
    return Plan(
        config=config,
        rules=rules(config),
        format="timm",
        name=str(name or source.path.stem),
        preprocess=preprocess,
        preprocess_origin=origin,
        labels=_labels(source),
        notes=notes,
        heads_assumed=assumed,
    )


def rules(config: ViTConfig) -> list[Rule]:
    """timm's names to ours; only the packed qkv differs."""
    made = [Rule((token,), (token,), Copy()) for token in ("cls_token", "dist_token", "pos_embed")]
    for name in ("patch_embed.proj", "norm", "fc_norm", "head", "head_dist"):
        made += copy(name, name)
    for i in range(config.depth):
        block = f"blocks.{i}"
        for part in ("weight", "bias"):
            targets = tuple(f"{block}.attn.{layer}.{part}" for layer in "qkv")
            made.append(Rule((f"{block}.attn.qkv.{part}",), targets, Split()))
        for name in ("norm1", "attn.proj", "norm2", "mlp.fc1", "mlp.fc2"):
            made += copy(f"{block}.{name}", f"{block}.{name}")
        made += [Rule((f"{block}.{ls}.gamma",), (f"{block}.{ls}.gamma",), Copy()) for ls in ("ls1", "ls2")]
    return made


def _from_shapes(source: Source) -> dict[str, Any]:
    """What the tensors themselves tell, in timm's argument names."""
    names = source.tensors
    if "head.weight" not in names:
        raise CheckpointError(f"{source.path}: no classifier (head.weight): it is a backbone, not a classifier")
    width, channels, *patch = source.shape("patch_embed.proj.weight")
    prefix = ("cls_token" in names) + ("dist_token" in names)
    positions = source.shape("pos_embed")[-2]
    return {
        "embed_dim": width,
        "in_chans": channels,
        "patch_size": tuple(patch),
        "depth": block_count(list(names), "blocks."),
        "mlp_width": source.shape("blocks.0.mlp.fc1.weight")[0],
        "num_classes": source.shape("head.weight")[0],
        "qkv_bias": any(name.endswith(".attn.qkv.bias") for name in names),
        "init_values": 1.0 if any(name.endswith(".ls1.gamma") for name in names) else None,
        "class_token": "cls_token" in names,
        "distilled": "dist_token" in names,
        "no_embed_class": prefix > 0 and isqrt(positions) ** 2 == positions,
        "global_pool": "avg" if "fc_norm.weight" in names or "cls_token" not in names else "token",
        "fc_norm": "fc_norm.weight" in names,
    }


def _config(source: Source, args: Mapping[str, Any], heads: int, options: LoadOptions) -> ViTConfig:
    patch = _pair(args["patch_size"])
    distilled, class_token = bool(args["distilled"]), bool(args["class_token"])
    prefix = 0 if args["no_embed_class"] else int(class_token) + int(distilled)
    mean_pool = args["global_pool"] == "avg"
    if args["global_pool"] not in ("token", "avg"):
        raise CheckpointError(f"{source.path}: global_pool {args['global_pool']!r} is not covered: token or avg are")
    pooled_norm = args["fc_norm"] if args["fc_norm"] is not None else mean_pool  # timm's rule
    final_norm: FinalNorm = "pooled" if pooled_norm else "tokens"
    mlp_width = int(args["embed_dim"] * args["mlp_ratio"]) if "mlp_ratio" in args else args["mlp_width"]
    return ViTConfig(
        image_size=pick_image_size(
            source.shape("pos_embed")[-2] - prefix,
            patch,
            _pair(args["img_size"]) if "img_size" in args else None,
            options,
        ),
        patch_size=patch,
        channels=args["in_chans"],
        width=args["embed_dim"],
        depth=args["depth"],
        heads=heads,
        mlp_width=mlp_width,
        classes=args["num_classes"],
        class_token=class_token,
        distillation_token=distilled,
        distillation_head=distilled,
        positions="learned_patches" if args["no_embed_class"] else "learned",
        qkv_bias=args["qkv_bias"],
        norm_place="res_post" if args.get("res_post_norm") else "pre",
        layer_scale=bool(args["init_values"]),
        pool="mean" if mean_pool else "class",
        final_norm=final_norm,
    )


def _pair(size: Any) -> tuple[int, int]:
    return (int(size), int(size)) if isinstance(size, int) else (int(size[0]), int(size[1]))


def _pretrained_size(source: Source) -> tuple[int, int] | None:
    size = (source.config.get("pretrained_cfg") or {}).get("input_size")
    return (int(size[1]), int(size[2])) if size else None


def _preprocess(
    source: Source, config: ViTConfig, options: LoadOptions, preset: Preset | None
) -> tuple[Preprocess | None, str]:
    size = options.image_size or config.image_size
    own = source.config.get("pretrained_cfg")
    if own:
        return from_timm(own, size), "the checkpoint's pretrained_cfg"
    if preset and preset.pretrained_cfg and config.channels == 3:
        return from_timm(preset.pretrained_cfg, size), f"the preset of {preset.name}"
    return None, ""


def _labels(source: Source) -> tuple[str, ...]:
    cfg = source.config.get("pretrained_cfg") or {}
    names = source.config.get("label_names") or cfg.get("label_names") or ()
    described = source.config.get("label_descriptions") or cfg.get("label_descriptions") or {}
    return tuple(str(described.get(name, name)) for name in names)
