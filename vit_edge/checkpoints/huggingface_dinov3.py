"""Hugging Face's DINOv3 ViT (transformers `models/dinov3_vit`), which has backbones alone.

Its rotation is the "half" one, as this project's: `rotate_half` in modeling_dinov3_vit.py.
"""

import dataclasses

from vit_edge.checkpoints.errors import CheckpointError
from vit_edge.checkpoints.fields import FLAG, INTEGER, NUMBER, TEXT, Fields
from vit_edge.checkpoints.huggingface_reading import Reading, activation, base_config, with_defaults
from vit_edge.checkpoints.plan import LoadOptions, pick_heads
from vit_edge.checkpoints.reading import Source
from vit_edge.checkpoints.rules import Copy, Operation, Rule, Zeros, copy
from vit_edge.config import Activation, Rotary, ViTConfig

__all__ = ["read"]

_DEFAULTS = {
    "num_channels": 3,
    "image_size": 224,
    "hidden_act": "gelu",
    "layer_norm_eps": 1e-5,
    "rope_theta": 100.0,
    "num_register_tokens": 0,
    "use_gated_mlp": False,
    "query_bias": True,
    "key_bias": False,
    "value_bias": True,
    "proj_bias": True,
    "mlp_bias": True,
}
_ATTENTION = {  # their name -> ours, and the field that tells whether it has a bias
    "attention.q_proj": ("attn.q", "query_bias"),
    "attention.k_proj": ("attn.k", "key_bias"),
    "attention.v_proj": ("attn.v", "value_bias"),
    "attention.o_proj": ("attn.proj", "proj_bias"),
}
_MLP = {"mlp.up_proj": ("mlp.fc1", "mlp_bias"), "mlp.down_proj": ("mlp.fc2", "mlp_bias")}
_GATED = {
    "mlp.gate_proj": ("mlp.gate", "mlp_bias"),
    "mlp.up_proj": ("mlp.value", "mlp_bias"),
    "mlp.down_proj": ("mlp.fc2", "mlp_bias"),
}
_UNUSED = (r"embeddings\.mask_token", r"rope_embeddings\.inv_freq")
_NO_REGISTERS = r"embeddings\.register_tokens"  # an empty tensor


def read(source: Source, options: LoadOptions, architecture: str) -> Reading:
    """Features are the class token behind the last norm."""
    fields = with_defaults(source.config, _DEFAULTS)
    width = fields.need("hidden_size", INTEGER)
    heads, assumed, notes = pick_heads(width, fields.get("num_attention_heads", INTEGER), options)
    gated = fields.need("use_gated_mlp", FLAG)
    base = base_config(fields, heads, fields.need("intermediate_size", INTEGER), 0, _activation(fields, gated=gated))
    config = dataclasses.replace(
        base,
        registers=fields.need("num_register_tokens", INTEGER),
        positions="none",
        rotary=Rotary(kind="dinov3", temperature=fields.need("rope_theta", NUMBER)),
        mlp="swiglu" if gated else "expand",
        layer_scale=True,
    )
    return Reading(
        config=config,
        rules=_rules(source, fields, config),
        ignored=_UNUSED if config.registers else (*_UNUSED, _NO_REGISTERS),
        notes=notes,
        heads_assumed=assumed,
    )


def _activation(fields: Fields, *, gated: bool) -> Activation:
    if not gated:
        return activation(fields)
    name = fields.need("hidden_act", TEXT)
    if name != "silu":
        raise CheckpointError(f"{fields.where}: hidden_act {name[:80]!r} with use_gated_mlp is not covered: silu is")
    return "gelu"  # a SwiGLU has no other activation


def _rules(source: Source, fields: Fields, config: ViTConfig) -> list[Rule]:
    made = [Rule(("embeddings.cls_token",), ("cls_token",), Copy())]
    made.append(Rule(("embeddings.register_tokens",), ("reg_token",), Copy()))
    made += copy("embeddings.patch_embeddings", "patch_embed.proj") + copy("norm", "norm")
    in_memory = "model.layer.0.norm1.weight" in source.tensors  # transformers 5; files have the name without "model."
    layers = "model.layer." if in_memory else "layer."
    linear = {**_ATTENTION, **(_GATED if config.mlp == "swiglu" else _MLP)}
    for i in range(config.depth):
        theirs, ours = f"{layers}{i}", f"blocks.{i}"
        for n in (1, 2):
            made += copy(f"{theirs}.norm{n}", f"{ours}.norm{n}")
            made.append(Rule((f"{theirs}.layer_scale{n}.lambda1",), (f"{ours}.ls{n}.gamma",), Copy()))
        for name, (target, has_bias) in linear.items():
            made.append(Rule((f"{theirs}.{name}.weight",), (f"{ours}.{target}.weight",), Copy()))
            made.append(_bias(f"{theirs}.{name}.bias", f"{ours}.{target}.bias", there=fields.need(has_bias, FLAG)))
    return made


def _bias(source: str, target: str, *, there: bool) -> Rule:
    operation: Operation = Copy() if there else Zeros()
    return Rule((source,) if there else (), (target,), operation)
