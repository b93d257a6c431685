"""Hugging Face's ViT and DeiT (transformers `models/vit`, `models/deit`): a folder with config.json."""

from collections.abc import Mapping
from typing import Any

from vit_edge.checkpoints.errors import CheckpointError
from vit_edge.checkpoints.plan import LoadOptions, Plan, pick_heads
from vit_edge.checkpoints.reading import Source
from vit_edge.checkpoints.rules import Copy, Rule, copy
from vit_edge.config import ViTConfig
from vit_edge.preprocessing import from_huggingface

__all__ = ["interpret", "matches"]

_ARCHITECTURES = {  # class name -> (name of the body, name of the classifier, a second classifier?)
    "ViTForImageClassification": ("vit", "classifier", False),
    "DeiTForImageClassification": ("deit", "classifier", False),
    "DeiTForImageClassificationWithTeacher": ("deit", "cls_classifier", True),
}
_UNUSED = (r"(vit|deit)\.pooler\.dense\.(weight|bias)", r"(vit|deit)\.embeddings\.mask_token")


def matches(source: Source) -> bool:
    """A transformers config.json."""
    return "model_type" in source.config


def interpret(source: Source, options: LoadOptions) -> Plan:
    """Read everything from config.json; the weights then have to fit."""
    config = source.config
    architecture = next(iter(config.get("architectures") or ()), None)
    if architecture not in _ARCHITECTURES:
        raise CheckpointError(
            f"{source.path}: {architecture or config['model_type']} is not covered: {', '.join(_ARCHITECTURES)} are"
        )
    body, classifier, with_teacher = _ARCHITECTURES[architecture]
    heads, assumed, notes = pick_heads(config["hidden_size"], config.get("num_attention_heads"), options)
    vit = _config(source, config, heads, distilled=body == "deit", with_teacher=with_teacher)
    known = bool(source.preprocessor)
    return Plan(
        config=vit,
        rules=_rules(vit, body, classifier),
        format="huggingface",
        name=str(config.get("_name_or_path") or source.path.resolve().stem),
        ignored=_UNUSED,
        preprocess=from_huggingface(source.preprocessor, options.image_size or vit.image_size) if known else None,
        preprocess_origin="the checkpoint's preprocessor_config.json" if known else "",
        labels=_labels(source, vit.classes),
        notes=notes,
        heads_assumed=assumed,
    )


def _config(source: Source, config: Mapping[str, Any], heads: int, *, distilled: bool, with_teacher: bool) -> ViTConfig:
    activation = config.get("hidden_act", "gelu")
    if activation not in ("gelu", "relu"):
        raise CheckpointError(f"{source.path}: hidden_act {activation!r} is not covered: gelu or relu are")
    try:
        return ViTConfig(
            image_size=_pair(config["image_size"]),
            patch_size=_pair(config["patch_size"]),
            channels=config.get("num_channels", 3),
            width=config["hidden_size"],
            depth=config["num_hidden_layers"],
            heads=heads,
            mlp_width=config["intermediate_size"],
            classes=len(config["id2label"]) if config.get("id2label") else config.get("num_labels", 2),
            distillation_token=distilled,
            distillation_head=with_teacher,
            norm_eps=float(config.get("layer_norm_eps", 1e-12)),
            activation="relu" if activation == "relu" else "gelu",
            qkv_bias=config.get("qkv_bias", True),
        )
    except KeyError as error:
        raise CheckpointError(f"{source.path}: config.json lacks {error}") from error


def _rules(config: ViTConfig, body: str, classifier: str) -> list[Rule]:
    tokens = {"cls_token": "cls_token", "distillation_token": "dist_token", "position_embeddings": "pos_embed"}
    made = [Rule((f"{body}.embeddings.{theirs}",), (ours,), Copy()) for theirs, ours in tokens.items()]
    made += copy(f"{body}.embeddings.patch_embeddings.projection", "patch_embed.proj")
    made += copy(f"{body}.layernorm", "norm") + copy(classifier, "head") + copy("distillation_classifier", "head_dist")
    layers = {
        "layernorm_before": "norm1",
        "attention.attention.query": "attn.q",
        "attention.attention.key": "attn.k",
        "attention.attention.value": "attn.v",
        "attention.output.dense": "attn.proj",
        "layernorm_after": "norm2",
        "intermediate.dense": "mlp.fc1",
        "output.dense": "mlp.fc2",
    }
    for i in range(config.depth):
        for theirs, ours in layers.items():
            made += copy(f"{body}.encoder.layer.{i}.{theirs}", f"blocks.{i}.{ours}")
    return made


def _labels(source: Source, classes: int) -> tuple[str, ...]:
    names = source.config.get("id2label") or {}
    try:
        return tuple(str(names[str(i)]) for i in range(classes)) if names else ()
    except KeyError as error:
        raise CheckpointError(f"{source.path}: id2label has no entry {error}") from error


def _pair(size: Any) -> tuple[int, int]:
    return (int(size), int(size)) if isinstance(size, int) else (int(size[0]), int(size[1]))
