"""vit-edge's own checkpoints: one safetensors file whose header carries config, preprocessing and labels."""

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from safetensors.torch import save

from vit_edge.checkpoints.errors import CheckpointError
from vit_edge.checkpoints.plan import LoadOptions, Plan, pick_heads
from vit_edge.checkpoints.reading import Source
from vit_edge.checkpoints.rules import Copy, Rule, parameter_shapes
from vit_edge.config import ViTConfig
from vit_edge.model import ViT
from vit_edge.runtime import strictjson
from vit_edge.runtime.errors import ConfigError
from vit_edge.runtime.preprocess import Preprocess

__all__ = ["interpret", "matches", "save_checkpoint"]

_KEY = "vit_edge"
_MAX_CHARACTERS = 16 << 20


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _Header:
    """What stands in the file's header, as JSON; its annotations are the format."""

    config: ViTConfig
    name: str
    preprocess: Preprocess
    labels: tuple[str, ...]
    about: Mapping[str, object]


def save_checkpoint(
    model: ViT,
    path: str | Path,
    *,
    name: str,
    preprocess: Preprocess,
    labels: Sequence[str] = (),
    about: Mapping[str, Any] | None = None,
) -> None:
    """Write a model so that `vit-edge export` needs no further option.

    Args:
        model: any ViT; its state_dict is written under its own names.
        path: the `.safetensors` file to write.
        name: what the model is called in the exported file's manifest.
        preprocess: what the model was trained with.
        labels: one name a class.
        about: figures worth keeping (accuracy, data, seeds), JSON values; they go into the exported manifest.

    Raises:
        ConfigError: the number of labels is not that of the classes, or `about` holds what JSON cannot.
    """
    if labels and len(labels) != model.config.classes:
        raise ConfigError(f"got {len(labels)} labels, the model has {model.config.classes} classes")
    header = _Header(
        config=model.config, name=name, preprocess=preprocess, labels=tuple(labels), about=dict(about or {})
    )
    try:
        text = strictjson.dumps(header)
    except strictjson.JsonError as error:
        raise ConfigError(f"{path}: the header cannot be written: {error}") from error
    state = {key: tensor.contiguous() for key, tensor in model.state_dict().items()}
    path = Path(path)
    temporary = path.with_name(f".{path.name}.part")
    temporary.write_bytes(save(state, metadata={_KEY: text}))
    temporary.replace(path)


def matches(source: Source) -> bool:
    """A header entry of ours."""
    return _KEY in source.metadata


def interpret(source: Source, options: LoadOptions) -> Plan:
    """Read the header; the user's number of heads wins over it."""
    header = _header(source)
    heads, assumed, notes = pick_heads(header.config.width, header.config.heads, options)
    config = dataclasses.replace(header.config, heads=heads)
    return Plan(
        config=config,
        rules=[Rule((key,), (key,), Copy()) for key in parameter_shapes(config)],
        format="vit-edge",
        name=header.name,
        preprocess=header.preprocess.with_size(options.image_size or config.image_size),
        preprocess_origin="the checkpoint's header",
        labels=header.labels,
        notes=notes,
        heads_assumed=assumed,
        about=header.about,
    )


def _header(source: Source) -> _Header:
    try:
        content = strictjson.loads(source.metadata[_KEY], max_characters=_MAX_CHARACTERS)
        return strictjson.decode(_Header, content)
    except (strictjson.JsonError, ConfigError) as error:
        raise CheckpointError(f"{source.path}: damaged vit_edge header ({error})") from error
