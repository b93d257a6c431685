"""Hugging Face's ViT and DeiT (transformers `models/vit`, `models/deit`): a folder with config.json."""

from vit_edge.checkpoints.errors import CheckpointError
from vit_edge.checkpoints.fields import FLAG, INTEGER, NUMBER, OBJECT, PAIR, TEXT, TEXTS
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
_LAYER = "encoder.layer.0.attention.attention.query.weight"
_UNUSED = (r"(vit|deit)\.pooler\.dense\.(weight|bias)", r"(vit|deit)\.embeddings\.mask_token")


def matches(source: Source) -> bool:
    """A transformers config.json, or tensors under transformers' names."""
    return "model_type" in source.config.values or any(_LAYER in name for name in source.tensors)


def interpret(source: Source, options: LoadOptions) -> Plan:
    """Read everything from config.json; the weights then have to fit."""
    config = source.config
    if not config.values:
        raise CheckpointError(
            f"{source.path}: has Hugging Face's names but no config.json, which tells heads and sizes: give the folder "
            "with config.json, or put it beside a file named model.safetensors or pytorch_model.bin"
        )
    architecture = "".join(config.get("architectures", TEXTS, ())[:1])
    if architecture not in _ARCHITECTURES:
        got = architecture or config.get("model_type", TEXT) or "a config.json without model_type"
        raise CheckpointError(f"{source.path}: {got} is not covered: {', '.join(_ARCHITECTURES)} are")
    body, classifier, with_teacher = _ARCHITECTURES[architecture]
    width, known_heads = config.need("hidden_size", INTEGER), config.get("num_attention_heads", INTEGER)
    heads, assumed, notes = pick_heads(width, known_heads, options)
    vit = _config(source, heads, distilled=body == "deit", with_teacher=with_teacher)
    known = bool(source.preprocessor)
    return Plan(
        config=vit,
        rules=_rules(vit, body, classifier),
        format="huggingface",
        name=config.get("_name_or_path", TEXT) or source.path.resolve().stem,
        ignored=_UNUSED,
        preprocess=from_huggingface(source.preprocessor, options.image_size or vit.image_size) if known else None,
        preprocess_origin="the checkpoint's preprocessor_config.json" if known else "",
        labels=_labels(source, vit.classes),
        notes=notes,
        heads_assumed=assumed,
    )


def _config(source: Source, heads: int, *, distilled: bool, with_teacher: bool) -> ViTConfig:
    config = source.config
    activation = config.get("hidden_act", TEXT, "gelu")
    if activation not in ("gelu", "relu"):
        raise CheckpointError(f"{source.path}: hidden_act {activation!r} is not covered: gelu or relu are")
    return ViTConfig(
        image_size=config.need("image_size", PAIR),
        patch_size=config.need("patch_size", PAIR),
        channels=config.get("num_channels", INTEGER, 3),
        width=config.need("hidden_size", INTEGER),
        depth=config.need("num_hidden_layers", INTEGER),
        heads=heads,
        mlp_width=config.need("intermediate_size", INTEGER),
        classes=len(config.get("id2label", OBJECT, {})) or config.get("num_labels", INTEGER, 2),
        distillation_token=distilled,
        distillation_head=with_teacher,
        norm_eps=config.get("layer_norm_eps", NUMBER, 1e-12),
        activation="relu" if activation == "relu" else "gelu",
        qkv_bias=config.get("qkv_bias", FLAG, True),
    )


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
    names = source.config.inner("id2label")
    return tuple(names.need(str(index), TEXT) for index in range(classes)) if names.values else ()
