"""What the image towers of CLIP and SigLIP have in common: where their fields stand, and the names in a block."""

from collections.abc import Mapping
from typing import Any

from vit_edge.checkpoints.fields import Fields
from vit_edge.checkpoints.huggingface_reading import with_defaults
from vit_edge.checkpoints.reading import Source

__all__ = ["LAYER", "OTHER_TOWER", "vision_fields"]

LAYER = {
    "layer_norm1": "norm1",
    "self_attn.q_proj": "attn.q",
    "self_attn.k_proj": "attn.k",
    "self_attn.v_proj": "attn.v",
    "self_attn.out_proj": "attn.proj",
    "layer_norm2": "norm2",
    "mlp.fc1": "mlp.fc1",
    "mlp.fc2": "mlp.fc2",
}
OTHER_TOWER = (  # the texts' tower, the loss's parameters, and a buffer that older versions saved
    r"text_model\..*",
    r"logit_(scale|bias)",
    r"(vision_model\.)?embeddings\.position_ids",
)


def vision_fields(source: Source, architecture: str, defaults: Mapping[str, Any]) -> Fields:
    """The image tower's fields: `vision_config`, or the whole of config.json where the tower is alone."""
    config = source.config
    alone = architecture.endswith("VisionModel") and "vision_config" not in config.values
    return with_defaults(config if alone else config.inner("vision_config"), defaults)
