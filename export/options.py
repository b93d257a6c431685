"""What a user chooses for an export, and what the checkpoint fills in."""

import dataclasses
from dataclasses import dataclass
from pathlib import Path

from vit_edge.checkpoints import Checkpoint
from vit_edge.export.traceable import ATTENTION_OPSET
from vit_edge.export.tracing import OPSETS
from vit_edge.outputs import OutputKind
from vit_edge.runtime.errors import ConfigError
from vit_edge.runtime.preprocess import Preprocess

__all__ = ["ExportOptions", "check_opset", "settled"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportOptions:
    """How a checkpoint is exported.

    Attributes:
        preprocess: what the model was trained with; None takes the checkpoint's own.
        preprocess_origin: where it comes from, for the manifest.
        labels: one name a class; None takes the checkpoint's own.
        output: logits, probabilities, features (the pooled vector) or tokens (all of them); None takes what the
            checkpoint's own model gives.
        opset: 23 and above have an attention operator; 17 to 22 run on older runtimes.
        images: real images for the parity gate, and for the test of an assumed number of heads.
    """

    preprocess: Preprocess | None = None
    preprocess_origin: str = "given"
    labels: tuple[str, ...] | None = None
    output: OutputKind | None = None
    opset: int = ATTENTION_OPSET
    images: tuple[Path, ...] = ()


def check_opset(opset: int) -> None:
    """Raise ConfigError for one that no graph can be written at."""
    if opset not in OPSETS:
        raise ConfigError(f"opset {opset}: expected {OPSETS.start} to {OPSETS.stop - 1}")


def settled(checkpoint: Checkpoint, options: ExportOptions) -> ExportOptions:
    """Options with the checkpoint's own values filled in.

    Raises:
        ConfigError: they do not fit the model, or nothing tells the preprocessing.
    """
    check_opset(options.opset)
    config = checkpoint.model.config
    preprocess = options.preprocess or checkpoint.preprocess
    if preprocess is None:
        raise ConfigError("the checkpoint does not tell its preprocessing: it has to be given")
    if preprocess.size != config.image_size or preprocess.channels != config.channels:
        raise ConfigError(
            f"preprocessing gives {preprocess.channels} x {preprocess.size}, the model takes "
            f"{config.channels} x {config.image_size}"
        )
    output = options.output or checkpoint.output
    labels = checkpoint.labels if options.labels is None else options.labels
    if output in ("features", "tokens"):
        if options.labels:
            raise ConfigError(f"labels do not go with {output}: there are no classes")
        labels = ()
    elif labels and len(labels) != config.classes:
        raise ConfigError(f"got {len(labels)} labels, the model has {config.classes} classes")
    origin = options.preprocess_origin if options.preprocess else checkpoint.preprocess_origin
    return dataclasses.replace(
        options,
        preprocess=preprocess,
        preprocess_origin=origin,
        labels=labels,
        output=output,
    )
