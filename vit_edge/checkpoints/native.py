"""vit-edge's own checkpoints: one safetensors file whose header carries config, preprocessing and labels."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from safetensors.torch import save_file

from vit_edge.checkpoints.errors import CheckpointError
from vit_edge.checkpoints.plan import LoadOptions, Plan
from vit_edge.checkpoints.reading import Source
from vit_edge.checkpoints.rules import Copy, Rule
from vit_edge.config import ViTConfig
from vit_edge.model import ViT
from vit_edge.runtime.preprocess import Preprocess

__all__ = ["interpret", "matches", "save_checkpoint"]

_KEY = "vit_edge"


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
    """
    header = {
        "config": model.config.to_dict(),
        "name": name,
        "preprocess": preprocess.to_dict(),
        "labels": list(labels),
        "about": dict(about or {}),
    }
    state = {key: tensor.contiguous() for key, tensor in model.state_dict().items()}
    save_file(state, path, metadata={_KEY: json.dumps(header, sort_keys=True)})


def matches(source: Source) -> bool:
    """A header entry of ours."""
    return _KEY in source.metadata


def interpret(source: Source, options: LoadOptions) -> Plan:
    """Read the header."""
    try:
        header = json.loads(source.metadata[_KEY])
        config = ViTConfig.from_dict(header["config"])
        preprocess = Preprocess.from_dict(header["preprocess"])
        return Plan(
            config=config,
            rules=[Rule((key,), (key,), Copy()) for key in ViT(config).state_dict()],
            format="vit-edge",
            name=str(header["name"]),
            preprocess=preprocess.with_size(options.image_size or config.image_size),
            preprocess_origin="the checkpoint's header",
            labels=tuple(map(str, header["labels"])),
            about=header["about"],
        )
    except (ValueError, KeyError, TypeError) as error:
        raise CheckpointError(f"{source.path}: damaged vit_edge header ({error!r})") from error
