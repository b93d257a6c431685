"""A model, and everything its origin tells about it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from vit_edge.building import Model
from vit_edge.checkpoints.plan import LoadOptions
from vit_edge.outputs import OutputKind
from vit_edge.runtime.preprocess import Preprocess

__all__ = ["Checkpoint"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """A loaded model and everything its file tells about it.

    `preprocess` is None where neither the file nor a named preset tells it. `notes` are assumptions to show.
    """

    model: Model
    name: str
    format: str
    sha256: str
    output: OutputKind
    preprocess: Preprocess | None
    preprocess_origin: str
    labels: tuple[str, ...]
    notes: tuple[str, ...]
    heads_assumed: bool
    about: Mapping[str, Any]
    options: LoadOptions  # what the user said, so that the same checkpoint can be loaded the same way again
