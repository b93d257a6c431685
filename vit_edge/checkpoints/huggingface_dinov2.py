"""Hugging Face's DINOv2, with and without registers (transformers `models/dinov2`, `models/dinov2_with_registers`)."""

import dataclasses
from collections.abc import Sequence

from torch import Tensor

from vit_edge.checkpoints.fields import FLAG, INTEGER, NUMBER, Fields
from vit_edge.checkpoints.huggingface_reading import (
    Reading,
    activation,
    base_config,
    body,
    class_count,
    layer_rules,
    with_defaults,
)
from vit_edge.checkpoints.plan import LoadOptions, pick_heads
from vit_edge.checkpoints.reading import Source
from vit_edge.checkpoints.rules import Copy, Rule, Shape, Split, copy
from vit_edge.config import ViTConfig

__all__ = ["read"]

_DEFAULTS = {
    "num_channels": 3,
    "hidden_act": "gelu",
    "layer_norm_eps": 1e-6,
    "qkv_bias": True,
    "mlp_ratio": 4,
    "use_swiglu_ffn": False,
    "num_register_tokens": 4,
}
_LAYER = {"norm1": "norm1", "norm2": "norm2"}
_ATTENTION = {  # the names in files; transformers 5 has others in memory
    "attention.attention.query": "attn.q",
    "attention.attention.key": "attn.k",
    "attention.attention.value": "attn.v",
    "attention.output.dense": "attn.proj",
}
_ATTENTION_IN_MEMORY = {
    "attention.q_proj": "attn.q",
    "attention.k_proj": "attn.k",
    "attention.v_proj": "attn.v",
    "attention.o_proj": "attn.proj",
}
_MLP = {"mlp.fc1": "mlp.fc1", "mlp.fc2": "mlp.fc2"}
_SWIGLU_IN_MEMORY = {"mlp.gate_proj": "mlp.gate", "mlp.up_proj": "mlp.value", "mlp.down_proj": "mlp.fc2"}
_UNUSED = (r"(dinov2\.|dinov2_with_registers\.)?embeddings\.mask_token",)
_NO_REGISTERS = r"(dinov2_with_registers\.)?embeddings\.register_tokens"  # an empty tensor


class FoldedClassToken:
    """Class token and a table whose first row is its position, to their sum and the rows of the patches.

    Registers stand between class token and patches and have no position, so the table holds those of patches alone.
    """

    def source_shapes(self, targets: Sequence[Shape]) -> list[Shape]:
        """The table has one row more than there are patches."""
        token, (_, patches, width) = targets
        return [token, (1, patches + 1, width)]

    def apply(self, sources: Sequence[Tensor], targets: Sequence[Shape]) -> list[Tensor]:
        """The sum that transformers computes for every image, once."""
        shapes = self.source_shapes(targets)
        token, table = (source.reshape(shape) for source, shape in zip(sources, shapes, strict=True))
        return [token + table[:, :1], table[:, 1:]]


def read(source: Source, options: LoadOptions, architecture: str) -> Reading:
    """A classifier reads the class token and, behind it, the mean of the patches; features are the class token."""
    fields = with_defaults(source.config, _DEFAULTS)
    width = fields.need("hidden_size", INTEGER)
    heads, assumed, notes = pick_heads(width, fields.get("num_attention_heads", INTEGER), options)
    classifies = architecture.endswith("ForImageClassification")
    classes = class_count(source, "classifier") if classifies else 0
    swiglu = fields.need("use_swiglu_ffn", FLAG)
    act = "gelu" if swiglu else activation(fields)
    with_registers = architecture.startswith("Dinov2WithRegisters")
    config = dataclasses.replace(
        base_config(fields, heads, _mlp_width(fields, width, swiglu=swiglu), classes, act),
        registers=fields.need("num_register_tokens", INTEGER) if with_registers else 0,
        positions="learned_patches" if with_registers else "learned",
        mlp="swiglu" if swiglu else "expand",
        qkv_bias=fields.need("qkv_bias", FLAG),
        layer_scale=True,
        pool="class_and_mean" if classifies else "class",
    )
    prefix = body(source, "dinov2_with_registers" if with_registers else "dinov2")
    return Reading(
        config=config,
        rules=_rules(source, config, prefix),
        ignored=_UNUSED if config.registers else (*_UNUSED, _NO_REGISTERS),
        notes=notes,
        heads_assumed=assumed,
    )


def _mlp_width(fields: Fields, width: int, *, swiglu: bool) -> int:
    """transformers' own rounding: two thirds of the plain width, then up to a multiple of 8."""
    hidden = int(width * fields.need("mlp_ratio", NUMBER))
    return (int(hidden * 2 / 3) + 7) // 8 * 8 if swiglu else hidden


def _rules(source: Source, config: ViTConfig, prefix: str) -> list[Rule]:
    tokens = (f"{prefix}embeddings.cls_token", f"{prefix}embeddings.position_embeddings")
    if config.positions == "learned_patches":
        made = [Rule(tokens, ("cls_token", "pos_embed"), FoldedClassToken())]
    else:
        made = [Rule((tokens[0],), ("cls_token",), Copy()), Rule((tokens[1],), ("pos_embed",), Copy())]
    made.append(Rule((f"{prefix}embeddings.register_tokens",), ("reg_token",), Copy()))
    made += copy(f"{prefix}embeddings.patch_embeddings.projection", "patch_embed.proj")
    made += copy(f"{prefix}layernorm", "norm") + copy("classifier", "head")
    layers = f"{prefix}encoder.layer."
    in_memory = f"{layers}0.attention.q_proj.weight" in source.tensors
    names = {**_LAYER, **(_ATTENTION_IN_MEMORY if in_memory else _ATTENTION)}
    if config.mlp == "expand":
        names |= _MLP
    elif f"{layers}0.mlp.gate_proj.weight" in source.tensors:
        names |= _SWIGLU_IN_MEMORY
    else:
        names["mlp.weights_out"] = "mlp.fc2"
        made += _packed_swiglu(layers, config.depth)
    for i in range(config.depth):
        made += [Rule((f"{layers}{i}.layer_scale{n}.lambda1",), (f"blocks.{i}.ls{n}.gamma",), Copy()) for n in (1, 2)]
    return made + layer_rules(layers, names, config.depth)


def _packed_swiglu(layers: str, depth: int) -> list[Rule]:
    """`weights_in` has the gate in front of the value."""
    made = []
    for i in range(depth):
        for part in ("weight", "bias"):
            both = tuple(f"blocks.{i}.mlp.{layer}.{part}" for layer in ("gate", "value"))
            made.append(Rule((f"{layers}{i}.mlp.weights_in.{part}",), both, Split()))
    return made
