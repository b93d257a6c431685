"""Hugging Face's ViT and DeiT (transformers `models/vit`, `models/deit`)."""

import dataclasses

from vit_edge.checkpoints.fields import FLAG, INTEGER
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
from vit_edge.checkpoints.rules import Copy, Rule, copy
from vit_edge.config import ViTConfig

__all__ = ["read"]

_DEFAULTS = {"num_channels": 3, "hidden_act": "gelu", "layer_norm_eps": 1e-12, "qkv_bias": True}
_CLASSIFIERS = {  # none: the backbone alone
    "ViTForImageClassification": "classifier",
    "DeiTForImageClassification": "classifier",
    "DeiTForImageClassificationWithTeacher": "cls_classifier",
}
_SAVED = {  # the names in files; transformers 5 has others in memory
    "layernorm_before": "norm1",
    "attention.attention.query": "attn.q",
    "attention.attention.key": "attn.k",
    "attention.attention.value": "attn.v",
    "attention.output.dense": "attn.proj",
    "layernorm_after": "norm2",
    "intermediate.dense": "mlp.fc1",
    "output.dense": "mlp.fc2",
}
_IN_MEMORY = {
    "layernorm_before": "norm1",
    "attention.q_proj": "attn.q",
    "attention.k_proj": "attn.k",
    "attention.v_proj": "attn.v",
    "attention.o_proj": "attn.proj",
    "layernorm_after": "norm2",
    "mlp.fc1": "mlp.fc1",
    "mlp.fc2": "mlp.fc2",
}
_UNUSED = (r"(vit\.|deit\.)?pooler\.dense\.(weight|bias)", r"(vit\.|deit\.)?embeddings\.mask_token")


def read(source: Source, options: LoadOptions, architecture: str) -> Reading:
    """A backbone's features are the normalised class token; its `pooler_output` is a layer that training threw away."""
    fields = with_defaults(source.config, _DEFAULTS)
    width = fields.need("hidden_size", INTEGER)
    heads, assumed, notes = pick_heads(width, fields.get("num_attention_heads", INTEGER), options)
    classifier = _CLASSIFIERS.get(architecture)
    classes = class_count(source, classifier) if classifier else 0
    base = base_config(fields, heads, fields.need("intermediate_size", INTEGER), classes, activation(fields))
    config = dataclasses.replace(
        base,
        distillation_token=architecture.startswith("DeiT"),
        distillation_head=classifier == "cls_classifier",
        qkv_bias=fields.need("qkv_bias", FLAG),
    )
    if classifier is None and any("pooler.dense" in name for name in source.tensors):
        notes += ("pooler.dense is not used: the features are the class token behind the last norm",)
    prefix = body(source, "deit" if config.distillation_token else "vit")
    return Reading(
        config=config,
        rules=_rules(source, config, prefix, classifier),
        ignored=_UNUSED,
        notes=notes,
        heads_assumed=assumed,
    )


def _rules(source: Source, config: ViTConfig, prefix: str, classifier: str | None) -> list[Rule]:
    tokens = {"cls_token": "cls_token", "distillation_token": "dist_token", "position_embeddings": "pos_embed"}
    made = [Rule((f"{prefix}embeddings.{theirs}",), (ours,), Copy()) for theirs, ours in tokens.items()]
    made += copy(f"{prefix}embeddings.patch_embeddings.projection", "patch_embed.proj")
    made += copy(f"{prefix}layernorm", "norm") + copy("distillation_classifier", "head_dist")
    if classifier:
        made += copy(classifier, "head")
    in_memory = f"{prefix}layers.0.attention.q_proj.weight" in source.tensors
    layers, names = (f"{prefix}layers.", _IN_MEMORY) if in_memory else (f"{prefix}encoder.layer.", _SAVED)
    return made + layer_rules(layers, names, config.depth)
