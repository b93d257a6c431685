"""timm's Eva class: EVA-02 and DINOv3, with rotary positions.

Sources of the conventions: timm `models/eva.py` (Eva, EvaAttention, EvaBlock), `layers/pos_embed_sincos.py`
(RotaryEmbeddingCat, RotaryEmbeddingDinoV3, rot, rope_rotate_half).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from vit_edge.checkpoints.errors import CheckpointError
from vit_edge.checkpoints.fields import TEXT
from vit_edge.checkpoints.plan import LoadOptions, Plan, pick_heads, pick_image_size
from vit_edge.checkpoints.reading import Source
from vit_edge.checkpoints.rules import Copy, Rule, Shape, Zeros, copy
from vit_edge.checkpoints.timm import head_rules, labels, mlp_rules, preprocessing, settled_arguments
from vit_edge.checkpoints.timm_arguments import pair
from vit_edge.config import Rotary, ViTConfig

__all__ = ["interpret", "matches"]


def matches(source: Source) -> bool:
    """The names that only this class has, or an architecture of it."""
    name = source.config.get("architecture", TEXT, "")
    own = ("q_bias", "q_proj.weight", "q_proj.bias")
    return (
        name.startswith("eva")
        or "_dinov3" in name
        or "blocks.0.gamma_1" in source.tensors
        or any(f"blocks.0.attn.{tensor}" in source.tensors for tensor in own)
    )


def interpret(source: Source, options: LoadOptions) -> Plan:
    """Rotary positions do not show in the weights: a config or a named architecture has to tell."""
    args, preset, notes = settled_arguments(source, options, {"global_pool": "avg"})
    if preset is None:
        raise CheckpointError(
            f"{source.path}: EVA-02 or DINOv3 weights do not tell their rotary positions: give --arch"
        )
    heads, assumed, heads_notes = pick_heads(args["embed_dim"], args.get("num_heads"), options)
    config = _config(source, args, heads, options)
    preprocess, origin = preprocessing(source, config, options, preset)
    return Plan(
        config=config,
        rules=_rules(config, source, interleaved=not args.get("rope_rotate_half", False)),
        format="timm",
        name=preset.name,
        preprocess=preprocess,
        preprocess_origin=origin,
        labels=labels(source),
        notes=heads_notes + notes,
        heads_assumed=assumed,
    )


def _config(source: Source, args: Mapping[str, Any], heads: int, options: LoadOptions) -> ViTConfig:
    patch, registers = pair(args["patch_size"]), args.get("num_reg_tokens", args["reg_tokens"])
    if args.get("use_post_norm"):
        raise CheckpointError(f"{source.path}: use_post_norm is not covered")
    tables = bool(args["use_abs_pos_emb"])
    prefix = 0 if args["no_embed_class"] else int(args["class_token"]) + registers
    size = pair(args["img_size"])
    if tables:
        size = pick_image_size(source.shape("pos_embed", 2, 3)[-2] - prefix, patch, size, options)
    mean_pool = args["global_pool"] == "avg"
    use_fc_norm = args.get("use_fc_norm")
    hidden = int(args["embed_dim"] * args["mlp_ratio"]) if "mlp_ratio" in args else args["mlp_width"]
    return ViTConfig(
        image_size=size,
        patch_size=patch,
        channels=args["in_chans"],
        width=args["embed_dim"],
        depth=args["depth"],
        heads=heads,
        mlp_width=hidden,
        classes=args["num_classes"],
        class_token=bool(args["class_token"]),
        registers=registers,
        positions=("learned_patches" if args["no_embed_class"] else "learned") if tables else "none",
        rotary=_rotary(source, args),
        norm_eps=args.get("norm_eps", 1e-6),
        mlp="swiglu" if args["swiglu_mlp"] else "expand",
        mlp_norm=bool(args["scale_mlp"]),
        qkv_bias=args["qkv_bias"],
        attention_norm=bool(args["scale_attn_inner"]),
        layer_scale=bool(args["init_values"]),
        pool="mean" if mean_pool else "class",
        final_norm="pooled" if (mean_pool if use_fc_norm is None else use_fc_norm) else "tokens",
    )


def _rotary(source: Source, args: Mapping[str, Any]) -> Rotary | None:
    if not args.get("use_rot_pos_emb"):
        return None
    kind = args.get("rope_type", "cat")
    if kind == "dinov3":
        return Rotary(kind="dinov3", temperature=float(args.get("rope_temperature", 100.0)))
    if kind != "cat":
        raise CheckpointError(f"{source.path}: rope_type {kind!r} is not covered: cat and dinov3 are")
    reference = args.get("ref_feat_shape")
    temperature = float(args.get("rope_temperature", 10000.0))
    return Rotary(kind="eva", temperature=temperature, reference_grid=pair(reference) if reference else None)


@dataclass(frozen=True, slots=True)
class SplitHalves:
    """A packed or plain projection to `parts` of it, rows of queries and keys from pairs to halves.

    timm turns neighbours (x_0, x_1), (x_2, x_3), ...; the model here turns (x_i, x_{i + K/2}). Reordering the rows of
    queries and keys alike changes no product between them.
    """

    heads: int
    turned: tuple[bool, ...]  # for each target

    def source_shapes(self, targets: Sequence[Shape]) -> list[Shape]:
        """All targets' rows in one source."""
        return [(sum(shape[0] for shape in targets), *targets[0][1:])]

    def apply(self, sources: Sequence[Tensor], targets: Sequence[Shape]) -> list[Tensor]:
        """Cut and reorder."""
        parts = sources[0].split([shape[0] for shape in targets])
        return [self._halves(part) if turn else part for part, turn in zip(parts, self.turned, strict=True)]

    def _halves(self, part: Tensor) -> Tensor:
        pairs: Tensor = part.unflatten(0, (self.heads, -1, 2))  # (H, K / 2, 2, ...)
        return pairs.transpose(1, 2).flatten(0, 2)


def _rules(config: ViTConfig, source: Source, *, interleaved: bool) -> list[Rule]:
    made = head_rules()
    for i in range(config.depth):
        block = f"blocks.{i}"
        made += _attention(block, config, source, interleaved=interleaved and config.rotary is not None)
        for name in ("norm1", "norm2", "attn.norm", "attn.proj", "mlp.norm"):
            made += copy(f"{block}.{name}", f"{block}.{name}")
        if f"{block}.mlp.fc1_g.weight" in source.tensors:
            made += copy(f"{block}.mlp.fc1_g", f"{block}.mlp.gate") + copy(f"{block}.mlp.fc1_x", f"{block}.mlp.value")
            made += copy(f"{block}.mlp.fc2", f"{block}.mlp.fc2")
        else:
            made += mlp_rules(block, config)
        made += [Rule((f"{block}.gamma_{n}",), (f"{block}.ls{n}.gamma",), Copy()) for n in (1, 2)]
    return made


def _attention(block: str, config: ViTConfig, source: Source, *, interleaved: bool) -> list[Rule]:
    """Keys never have a bias; queries and values may. `qkv` is packed, `q_proj`, `k_proj`, `v_proj` are not."""
    ours, theirs = f"{block}.attn", f"{block}.attn"
    turn = SplitHalves(config.heads, (interleaved,))
    keep = SplitHalves(config.heads, (False,))
    made = [Rule((), (f"{ours}.k.bias",), Zeros())]
    if f"{theirs}.qkv.weight" in source.tensors or f"{theirs}.q_proj.weight" not in source.tensors:
        packed = SplitHalves(config.heads, (interleaved, interleaved, False))
        made.append(Rule((f"{theirs}.qkv.weight",), tuple(f"{ours}.{layer}.weight" for layer in "qkv"), packed))
        names = {"q": "q_bias", "v": "v_bias"}
    else:
        for layer in "qkv":
            operation = keep if layer == "v" else turn
            made.append(Rule((f"{theirs}.{layer}_proj.weight",), (f"{ours}.{layer}.weight",), operation))
        names = {"q": "q_proj.bias", "v": "v_proj.bias"}
    made.append(Rule((f"{theirs}.{names['q']}",), (f"{ours}.q.bias",), turn))
    made.append(Rule((f"{theirs}.{names['v']}",), (f"{ours}.v.bias",), keep))
    return made
