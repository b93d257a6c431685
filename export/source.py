"""What `export` takes, as a checkpoint; and what is said beside it, as options."""

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

from torch import nn

from vit_edge.checkpoints import Checkpoint, from_module, load_checkpoint
from vit_edge.export.options import ExportOptions
from vit_edge.labels import read_labels
from vit_edge.preprocessing import resolve
from vit_edge.runtime.errors import ConfigError
from vit_edge.runtime.preprocess import Preprocess

__all__ = ["Exportable", "as_checkpoint", "with_choices"]

Exportable: TypeAlias = Checkpoint | nn.Module | str | Path


def as_checkpoint(source: Exportable, preprocess: Preprocess | str | None) -> Checkpoint:
    """Load what has to be loaded; `preprocess` tells a module's image size where the module does not.

    Raises:
        CheckpointError, ConfigError: as `load_checkpoint` and `from_module`.
    """
    if isinstance(source, Checkpoint):
        return source
    if isinstance(source, str | Path):
        return load_checkpoint(source)
    if not isinstance(source, nn.Module):
        raise ConfigError(
            f"got a {type(source).__name__}, expected a torch.nn.Module, a checkpoint or its path"
            + (": load the state_dict into its module first" if isinstance(source, Mapping) else "")
        )
    return from_module(source, (preprocess.channels, *preprocess.size) if isinstance(preprocess, Preprocess) else None)


def with_choices(
    options: ExportOptions,
    checkpoint: Checkpoint,
    preprocess: Preprocess | str | None,
    labels: Sequence[str] | Path | None,
) -> ExportOptions:
    """Options with what was given beside them."""
    config = checkpoint.model.config
    if isinstance(preprocess, str):
        spec = resolve(preprocess, config.image_size, config.channels)
        options = dataclasses.replace(options, preprocess=spec, preprocess_origin=Path(preprocess).name)
    elif preprocess is not None:
        options = dataclasses.replace(options, preprocess=preprocess, preprocess_origin="given")
    if isinstance(labels, str):
        labels = Path(labels)
    if isinstance(labels, Path):
        labels = read_labels(labels, config.classes)
    return options if labels is None else dataclasses.replace(options, labels=tuple(labels))
