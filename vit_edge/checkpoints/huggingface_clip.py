"""The image tower of Hugging Face's CLIP (transformers `models/clip`)."""

import dataclasses

from vit_edge.checkpoints.fields import INTEGER
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
from vit_edge.checkpoints.rules import Copy, Rule, copy
from vit_edge.config import ViTConfig

__all__ = ["read"]

_DEFAULTS = {  # CLIPVisionConfig's: a file holds what differs from them
    "hidden_size": 768,
    "intermediate_size": 3072,
    "num_hidden_layers": 12,
    "num_attention_heads": 12,
    "num_channels": 3,
    "image_size": 224,
    "patch_size": 32,
    "hidden_act": "quick_gelu",
    "layer_norm_eps": 1e-5,
}
_UNUSED = (*OTHER_TOWER, r"(text|visual)_projection\.weight")
_NORM = r"vision_model\.post_layernorm\.(weight|bias)"


def read(source: Source, options: LoadOptions, architecture: str) -> Reading:
    """A classifier reads the mean of the patches, without a norm; features are the class token behind the norm.

    CLIP's projection to the space that images and texts share is not used.
    """
    fields = vision_fields(source, architecture, _DEFAULTS)
    heads, assumed, notes = pick_heads(
        fields.need("hidden_size", INTEGER), fields.need("num_attention_heads", INTEGER), options
    )
    classifies = architecture == "CLIPForImageClassification"
    classes = class_count(source, "classifier") if classifies else 0
    base = base_config(fields, heads, fields.need("intermediate_size", INTEGER), classes, activation(fields))
    config = dataclasses.replace(
        base,
        patch_bias=False,
        pre_norm=True,
        pool="mean" if classifies else "class",
        final_norm="none" if classifies else "pooled",
    )
    if "visual_projection.weight" in source.tensors:
        notes += ("visual_projection is not used: the features are the class token behind the last norm",)
    return Reading(
        config=config,
        rules=_rules(config, body(source, "vision_model")),
        ignored=(*_UNUSED, _NORM) if classifies else _UNUSED,
        notes=notes,
        heads_assumed=assumed,
    )


def _rules(config: ViTConfig, prefix: str) -> list[Rule]:
    made = [
        Rule((f"{prefix}embeddings.class_embedding",), ("cls_token",), Copy()),
        Rule((f"{prefix}embeddings.position_embedding.weight",), ("pos_embed",), Copy()),
    ]
    made += copy(f"{prefix}embeddings.patch_embedding", "patch_embed.proj")
    made += copy(f"{prefix}pre_layrnorm", "norm_pre") + copy(f"{prefix}post_layernorm", "fc_norm")  # their spelling
    made += copy("classifier", "head")
    return made + layer_rules(f"{prefix}encoder.layers.", LAYER, config.depth)
