"""What a format's reader finds out about a checkpoint, before any tensor is moved."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import isqrt
from typing import Any

from vit_edge.building import Config
from vit_edge.checkpoints.errors import CheckpointError
from vit_edge.checkpoints.reading import Source
from vit_edge.checkpoints.rules import Rule
from vit_edge.outputs import OutputKind
from vit_edge.runtime.preprocess import Preprocess

__all__ = ["LoadOptions", "Plan", "block_count", "pick_heads", "pick_image_size", "stated_heads"]

_USUAL_HEAD_WIDTH = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadOptions:
    """What the user says about a checkpoint; None is "read it from the file"."""

    arch: str | None = None
    heads: int | None = None
    image_size: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """How to build the model and fill it.

    `config` has the image size of the checkpoint itself; other sizes are resampled afterwards. `notes` are
    assumptions and choices the user must see. `preprocess` is None where neither file nor preset tells it.
    """

    config: Config
    rules: Sequence[Rule]
    format: str
    name: str
    ignored: Sequence[str] = ()
    preprocess: Preprocess | None = None
    preprocess_origin: str = ""
    labels: tuple[str, ...] = ()
    output: OutputKind = "logits"
    notes: tuple[str, ...] = ()
    heads_assumed: bool = False
    about: Mapping[str, Any] = field(default_factory=dict)


def block_count(names: Sequence[str], prefix: str) -> int:
    """One more than the largest block number behind `prefix`.

    Raises:
        CheckpointError: there is no block.
    """
    found = (re.match(re.escape(prefix) + r"(\d{1,9})(?!\d)", name) for name in names)
    numbers = [int(match[1]) for match in found if match]
    if not numbers:
        raise CheckpointError(f"no tensor is named {prefix}0...: no transformer block found")
    return max(numbers) + 1


def pick_heads(width: int, known: int | None, options: LoadOptions) -> tuple[int, bool, tuple[str, ...]]:
    """The number of heads: the user's, else the config's, else an assumption of 64 channels a head.

    Returns:
        heads, whether they are an assumption, and the notes to print.

    Raises:
        CheckpointError: nothing tells the number and 64 does not divide the width.
    """
    if options.heads is not None:
        conflict = known is not None and known != options.heads
        note = (f"heads: {options.heads} as given; the checkpoint's config says {known}",) if conflict else ()
        return options.heads, False, note
    if known is not None:
        return known, False, ()
    if width % _USUAL_HEAD_WIDTH:
        raise CheckpointError(
            f"the number of heads cannot be read from the weights (width {width}): "
            "give --arch NAME, or --heads N and, where no config tells it, --preprocess"
        )
    heads = width // _USUAL_HEAD_WIDTH
    return heads, True, (f"heads: {heads} is an assumption (width {width} / 64); --heads N or --arch NAME settles it",)


def stated_heads(source: Source, heads: int, options: LoadOptions) -> int:
    """The number of heads where the weights themselves show it.

    Raises:
        CheckpointError: the user says another one.
    """
    if options.heads not in (None, heads):
        raise CheckpointError(f"{source.path}: has weights of {heads} heads, got --heads {options.heads}")
    return heads


def pick_image_size(
    patches: int, patch: tuple[int, int], known: tuple[int, int] | None, options: LoadOptions
) -> tuple[int, int]:
    """The image size whose patch grid the position table was trained for.

    The declared or asked-for size where it fits the table, else the square one.

    Raises:
        CheckpointError: the table belongs to no square grid and nothing tells its shape.
    """
    for size in (known, options.image_size):
        if size and (size[0] // patch[0]) * (size[1] // patch[1]) == patches:
            return size
    side = isqrt(max(patches, 0))
    if side * side != patches or side == 0:
        raise CheckpointError(f"{patches} patch positions are not a square grid: give --image-size HxW")
    return side * patch[0], side * patch[1]
