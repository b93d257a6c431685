"""Hugging Face's Swin (transformers `models/swin`): a folder with config.json."""

from vit_edge.checkpoints.errors import CheckpointError
from vit_edge.checkpoints.fields import FLAG, INTEGER, NUMBER, PAIR, TEXT, TEXTS
from vit_edge.checkpoints.plan import LoadOptions, Plan
from vit_edge.checkpoints.reading import Source
from vit_edge.checkpoints.rules import Copy, Rule, copy
from vit_edge.checkpoints.swin import ResampleTable, file_windows, window_notes
from vit_edge.checkpoints.swin_arguments import INTEGERS
from vit_edge.preprocessing import from_huggingface
from vit_edge.swin_config import Size, SwinConfig

__all__ = ["ARCHITECTURE", "interpret", "matches"]

ARCHITECTURE = "SwinForImageClassification"
_SAVED = {  # the names in files; transformers 5 has others in memory
    "layernorm_before": "norm1",
    "attention.self.query": "attn.q",
    "attention.self.key": "attn.k",
    "attention.self.value": "attn.v",
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
_TABLE = "attention.self.relative_position_bias_table"
_TABLE_IN_MEMORY = "attention.relative_position_bias.relative_position_bias_table"
_UNUSED = (
    r"swin\.encoder\.layers\.\d+\.blocks\.\d+\.attention\.(self|relative_position_bias)\.relative_position_index",
    r"swin\.embeddings\.mask_token",
)


def matches(source: Source) -> bool:
    """A transformers config.json of a Swin."""
    return source.config.values.get("model_type") == "swin"


def interpret(source: Source, options: LoadOptions) -> Plan:
    """Read everything from config.json; the weights then have to fit."""
    config = source.config
    architecture = "".join(config.get("architectures", TEXTS, ())[:1])
    if architecture != ARCHITECTURE:
        raise CheckpointError(f"{source.path}: {architecture or 'swin'} is not covered: {ARCHITECTURE} is")
    activation = config.get("hidden_act", TEXT, "gelu")
    if activation != "gelu" or config.get("use_absolute_embeddings", FLAG, False):
        raise CheckpointError(f"{source.path}: hidden_act {activation!r} or absolute embeddings are not covered")
    declared = _config(source, config.need("image_size", PAIR))
    swin = _config(source, options.image_size or declared.image_size)
    old = file_windows(source, [f"{_block(i, 0)}.{_table(source)}" for i in range(len(swin.depths))], declared, options)
    known = bool(source.preprocessor)
    return Plan(
        config=swin,
        rules=_rules(source, swin, old),
        format="huggingface",
        name=config.get("_name_or_path", TEXT) or source.path.resolve().stem,
        ignored=_UNUSED,
        preprocess=from_huggingface(source.preprocessor, swin.image_size) if known else None,
        preprocess_origin="the checkpoint's preprocessor_config.json" if known else "",
        labels=_labels(source, swin.classes),
        notes=window_notes(swin, old),
    )


def _config(source: Source, image_size: Size) -> SwinConfig:
    config = source.config
    depths = config.need("depths", INTEGERS)
    window = config.get("window_size", INTEGER, 7)
    return SwinConfig(
        image_size=image_size,
        patch_size=config.get("patch_size", PAIR, (4, 4)),
        channels=config.get("num_channels", INTEGER, 3),
        width=config.need("embed_dim", INTEGER),
        depths=depths,
        heads=config.need("num_heads", INTEGERS),
        window_size=((window, window),) * len(depths),
        mlp_ratio=config.get("mlp_ratio", NUMBER, 4.0),
        classes=source.shape("classifier.weight", 2)[0],
        qkv_bias=config.get("qkv_bias", FLAG, True),
        norm_eps=config.get("layer_norm_eps", NUMBER, 1e-5),
        borders="huggingface",
    )


def _block(stage: int, block: int) -> str:
    return f"swin.encoder.layers.{stage}.blocks.{block}"


def _table(source: Source) -> str:
    return _TABLE_IN_MEMORY if f"{_block(0, 0)}.{_TABLE_IN_MEMORY}" in source.tensors else _TABLE


def _rules(source: Source, config: SwinConfig, old: list[Size]) -> list[Rule]:
    table = _table(source)
    layers = _SAVED if table == _TABLE else _IN_MEMORY
    made = copy("swin.embeddings.patch_embeddings.projection", "patch_embed.proj")
    made += copy("swin.embeddings.norm", "patch_embed.norm") + copy("swin.layernorm", "norm")
    made += copy("classifier", "head")
    for i, stage in enumerate(config.stages):
        theirs, ours = f"swin.encoder.layers.{i - 1}.downsample", f"layers.{i}.downsample"
        made += copy(f"{theirs}.norm", f"{ours}.norm")
        made.append(Rule((f"{theirs}.reduction.weight",), (f"{ours}.reduction.weight",), Copy()))
        for j in range(config.depths[i]):
            block = f"layers.{i}.blocks.{j}"
            for name, target in layers.items():
                made += copy(f"{_block(i, j)}.{name}", f"{block}.{target}")
            target = f"{block}.attn.relative_position_bias_table"
            made.append(Rule((f"{_block(i, j)}.{table}",), (target,), ResampleTable(old[i], stage.window)))
    return made


def _labels(source: Source, classes: int) -> tuple[str, ...]:
    names = source.config.inner("id2label")
    return tuple(names.need(str(index), TEXT) for index in range(classes)) if names.values else ()
