"""The image tower of Hugging Face's SigLIP and of SigLIP 2 at fixed sizes (transformers `models/siglip`)."""

import dataclasses

from vit_edge.checkpoints.errors import CheckpointError
from vit_edge.checkpoints.fields import FLAG, INTEGER
from vit_edge.checkpoints.huggingface_reading import (
    Reading,
    activation,
    base_config,
    body,
    class_count,
    layer_rules,
)
from vit_edge.checkpoints.huggingface_tower import LAYER, OTHER_TOWER, vision_fields
from vit_edge.checkpoints.plan import LoadOptions, pick_heads
from vit_edge.checkpoints.reading import Source
from vit_edge.checkpoints.rules import Copy, Rule, Split, copy
from vit_edge.config import ViTConfig

__all__ = ["read"]

_DEFAULTS = {  # SiglipVisionConfig's: a file holds what differs from them
    "hidden_size": 768,
    "intermediate_size": 3072,
    "num_hidden_layers": 12,
    "num_attention_heads": 12,
    "num_channels": 3,
    "image_size": 224,
    "patch_size": 16,
    "hidden_act": "gelu_pytorch_tanh",
    "layer_norm_eps": 1e-6,
    "vision_use_head": True,
}
_HEAD = r"vision_model\.head\..*"


def read(source: Source, options: LoadOptions, architecture: str) -> Reading:
    """A classifier reads the mean of all tokens; features are what attention pooling makes of them."""
    fields = vision_fields(source, architecture, _DEFAULTS)
    heads, assumed, notes = pick_heads(
        fields.need("hidden_size", INTEGER), fields.need("num_attention_heads", INTEGER), options
    )
    classifies = architecture == "SiglipForImageClassification"
    if not classifies and not fields.need("vision_use_head", FLAG):
        raise CheckpointError(f"{fields.where}: vision_use_head is false: without it there are no pooled features")
    classes = class_count(source, "classifier") if classifies else 0
    base = base_config(fields, heads, fields.need("intermediate_size", INTEGER), classes, activation(fields))
    config = dataclasses.replace(base, class_token=False, pool="mean" if classifies else "map")
    return Reading(
        config=config,
        rules=_rules(config, body(source, "vision_model")),
        ignored=(*OTHER_TOWER, _HEAD) if classifies else OTHER_TOWER,
        notes=notes,
        heads_assumed=assumed,
    )


def _rules(config: ViTConfig, prefix: str) -> list[Rule]:
    made = [Rule((f"{prefix}embeddings.position_embedding.weight",), ("pos_embed",), Copy())]
    made += copy(f"{prefix}embeddings.patch_embedding", "patch_embed.proj")
    made += copy(f"{prefix}post_layernorm", "norm") + copy("classifier", "head")
    made.append(Rule((f"{prefix}head.probe",), ("pool.attention.latent",), Copy()))
    for part in ("weight", "bias"):
        targets = tuple(f"pool.attention.{layer}.{part}" for layer in "qkv")
        made.append(Rule((f"{prefix}head.attention.in_proj_{part}",), targets, Split()))
    layers = {"attention.out_proj": "proj", "layernorm": "norm", "mlp.fc1": "fc1", "mlp.fc2": "fc2"}
    for theirs, ours in layers.items():
        made += copy(f"{prefix}head.{theirs}", f"pool.attention.{ours}")
    return made + layer_rules(f"{prefix}encoder.layers.", LAYER, config.depth)
