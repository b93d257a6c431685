"""timm's constructor arguments: from a config.json, and from the shapes of the weights."""

import re
from math import isqrt
from typing import Any

from vit_edge.checkpoints.errors import CheckpointError
from vit_edge.checkpoints.fields import FLAG, INTEGER, NUMBER, PAIR, TEXT, Fields, Kind
from vit_edge.checkpoints.plan import block_count
from vit_edge.checkpoints.reading import Source
from vit_edge.checkpoints.stem import stem_channels, stem_config

__all__ = ["from_shapes", "norm_eps", "own_arguments", "pair", "pretrained_size"]

_UNDERSTOOD: dict[str, Kind[Any]] = {  # arguments that decide the function
    **dict.fromkeys(("img_size", "patch_size", "ref_feat_shape"), PAIR),
    **dict.fromkeys(("in_chans", "num_classes", "embed_dim", "depth", "num_heads"), INTEGER),
    **dict.fromkeys(("reg_tokens", "num_reg_tokens"), INTEGER),
    **dict.fromkeys(("mlp_ratio", "init_values", "rope_temperature"), NUMBER),
    **dict.fromkeys(("qkv_bias", "class_token", "fc_norm", "no_embed_class", "distilled", "pre_norm"), FLAG),
    **dict.fromkeys(("qkv_fused", "swiglu_mlp", "scale_mlp", "scale_attn_inner", "use_fc_norm"), FLAG),
    **dict.fromkeys(("use_rot_pos_emb", "use_abs_pos_emb", "use_post_norm", "rope_rotate_half"), FLAG),
    **dict.fromkeys(("global_pool", "act_layer", "norm_layer", "mlp_layer", "rope_type"), TEXT),
}
_NULL_HAS_MEANING = {
    "init_values",
    "fc_norm",
    "use_fc_norm",
}  # no LayerScale; a norm behind the pool where it is a mean
_TRAINING_ONLY = {
    *("drop_rate", "pos_drop_rate", "patch_drop_rate", "proj_drop_rate", "attn_drop_rate", "drop_path_rate"),
    *("weight_init", "fix_init", "dynamic_img_size", "dynamic_img_pad", "strict_img_size", "head_init_scale"),
}
_INPUT_SIZE: Kind[tuple[int, int]] = Kind(
    "[channels, height, width]",
    lambda size: PAIR.read(size[1:]) if isinstance(size, list) and len(size) == 3 else None,
)


def own_arguments(given: Fields) -> dict[str, Any]:
    """The arguments that config.json's model_args hold.

    Raises:
        CheckpointError: one of them is not covered, or of the wrong kind.
    """
    unknown = sorted(set(given.values) - set(_UNDERSTOOD) - _TRAINING_ONLY)
    if unknown:
        raise CheckpointError(f"{given.where}: not covered: {', '.join(unknown)}")
    values = {name: given.get(name, kind) for name, kind in _UNDERSTOOD.items() if name in given.values}
    return {name: value for name, value in values.items() if value is not None or name in _NULL_HAS_MEANING}


def norm_eps(source: Source, norm_layer: str) -> float:
    """The epsilon of a norm_layer: its own, else that of timm's LayerNorm.

    Raises:
        CheckpointError: it is no LayerNorm.
    """
    if "layernorm" not in norm_layer.lower():
        raise CheckpointError(f"{source.path}: norm_layer {norm_layer[:80]!r} is not covered: LayerNorm is")
    match = re.search(r"eps=([0-9.e-]{1,12})", norm_layer)
    try:
        return float(match[1]) if match else 1e-6
    except ValueError as error:
        raise CheckpointError(f"{source.path}: norm_layer {norm_layer[:80]!r} has no readable eps") from error


def pretrained_size(source: Source) -> tuple[int, int] | None:
    """Height and width in the config's pretrained_cfg."""
    return source.config.inner("pretrained_cfg").get("input_size", _INPUT_SIZE)


def pair(size: int | tuple[int, int]) -> tuple[int, int]:
    """Presets have one number where both sides are equal."""
    return (size, size) if isinstance(size, int) else size


def from_shapes(source: Source) -> dict[str, Any]:
    """What the tensors themselves tell."""
    names = source.tensors
    width, channels, *patch = source.shape("patch_embed.proj.weight", 4)
    stem = stem_config(source)
    registers = source.shape("reg_token", 2, 3)[-2] if "reg_token" in names else 0
    prefix = ("cls_token" in names) + ("dist_token" in names) + registers
    positions = source.shape("pos_embed", 2, 3)[-2] if "pos_embed" in names else 0
    return {
        "embed_dim": width,
        "in_chans": stem_channels(source) if stem else channels,
        "stem": stem,
        "patch_size": tuple(patch),
        "patch_bias": "patch_embed.proj.bias" in names,
        "depth": block_count(list(names), "blocks."),
        **_mlp(source),
        "num_classes": source.shape("head.weight", 2)[0] if "head.weight" in names else 0,
        "qkv_bias": any(name.endswith((".attn.qkv.bias", ".attn.q_bias", ".attn.q_proj.bias")) for name in names),
        "init_values": 1.0 if any(name.endswith((".ls1.gamma", ".gamma_1")) for name in names) else None,
        "class_token": "cls_token" in names,
        "distilled": "dist_token" in names,
        "reg_tokens": registers,
        "no_embed_class": prefix > 0 and isqrt(positions) ** 2 == positions,
        "use_abs_pos_emb": "pos_embed" in names,
        "pre_norm": "norm_pre.weight" in names,
        "global_pool": _pool(source),
        "fc_norm": "fc_norm.weight" in names,
        "qkv_fused": "blocks.0.attn.q_proj.weight" not in names,
        "scale_attn_inner": "blocks.0.attn.norm.weight" in names,
    }


def _mlp(source: Source) -> dict[str, Any]:
    """Hidden width and form: packed gate and value have twice the rows that the last layer has columns."""
    first = next((name for name in ("fc1", "fc1_g") if f"blocks.0.mlp.{name}.weight" in source.tensors), "fc1")
    rows = source.shape(f"blocks.0.mlp.{first}.weight", 2)[0]
    hidden = source.shape("blocks.0.mlp.fc2.weight", 2)[1]
    return {
        "mlp_width": hidden,
        "swiglu_mlp": first == "fc1_g" or rows == 2 * hidden,
        "scale_mlp": "blocks.0.mlp.norm.weight" in source.tensors,
    }


def _pool(source: Source) -> str:
    if "attn_pool.latent" in source.tensors:
        return "map"
    return "avg" if "fc_norm.weight" in source.tensors or "cls_token" not in source.tensors else "token"
