"""What the readers of Hugging Face's families share: the fields of every config.json, rules from a table of names."""

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from vit_edge.checkpoints.errors import CheckpointError
from vit_edge.checkpoints.fields import INTEGER, NUMBER, PAIR, TEXT, Fields
from vit_edge.checkpoints.reading import Source
from vit_edge.checkpoints.rules import Rule, copy
from vit_edge.config import Activation, ViTConfig

__all__ = ["Reading", "activation", "base_config", "body", "class_count", "layer_rules", "with_defaults"]

_ACTIVATIONS: Mapping[str, Activation] = {
    "gelu": "gelu",
    "gelu_pytorch_tanh": "gelu_tanh",
    "gelu_new": "gelu_tanh",
    "quick_gelu": "quick_gelu",
    "relu": "relu",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What a family's reader makes of a checkpoint; `ignored` and `notes` as in `Plan`."""

    config: ViTConfig
    rules: Sequence[Rule]
    ignored: Sequence[str]
    notes: tuple[str, ...] = ()
    heads_assumed: bool = False


def with_defaults(fields: Fields, defaults: Mapping[str, Any]) -> Fields:
    """The fields, those that are absent filled with what transformers' configuration class says."""
    given = {name: value for name, value in fields.values.items() if value is not None}
    return dataclasses.replace(fields, values={**defaults, **given})


def activation(fields: Fields) -> Activation:
    """The activation that `hidden_act` names.

    Raises:
        CheckpointError: it is not covered.
    """
    name = fields.need("hidden_act", TEXT)
    if name not in _ACTIVATIONS:
        known = ", ".join(_ACTIVATIONS)
        raise CheckpointError(f"{fields.where}: hidden_act {name[:80]!r} is not covered: {known} are")
    return _ACTIVATIONS[name]


def base_config(fields: Fields, heads: int, mlp_width: int, classes: int, act: Activation) -> ViTConfig:
    """The sizes, which have the same names in every family; the readers replace what differs from a plain ViT."""
    image, patch = fields.need("image_size", PAIR), fields.need("patch_size", PAIR)
    return ViTConfig(
        image_size=image,
        patch_size=patch,
        channels=fields.need("num_channels", INTEGER),
        width=fields.need("hidden_size", INTEGER),
        depth=fields.need("num_hidden_layers", INTEGER),
        heads=heads,
        mlp_width=mlp_width,
        classes=classes,
        norm_eps=fields.need("layer_norm_eps", NUMBER),
        activation=act,
        remainder=any(side % cell for side, cell in zip(image, patch, strict=True)),  # SigLIP: 384 by patches of 14
    )


def class_count(source: Source, classifier: str) -> int:
    """The rows of the classifier.

    Raises:
        CheckpointError: the checkpoint has none.
    """
    return source.shape(f"{classifier}.weight", 2)[0]


def body(source: Source, name: str) -> str:
    """What stands in front of the backbone's names: `name` and a dot, or nothing in a file of the backbone alone."""
    prefix = f"{name}."
    return prefix if any(tensor.startswith(prefix) for tensor in source.tensors) else ""


def layer_rules(layers: str, names: Mapping[str, str], depth: int) -> list[Rule]:
    """Weights and biases of every block: `layers` and the block's number, then their name -> ours."""
    made: list[Rule] = []
    for i in range(depth):
        for theirs, ours in names.items():
            made += copy(f"{layers}{i}.{theirs}", f"blocks.{i}.{ours}")
    return made
