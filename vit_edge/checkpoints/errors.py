"""The error of the checkpoint readers; the whole tree stands in ``vit_edge.runtime.errors``."""

from typing import ClassVar

from vit_edge.runtime.errors import VitEdgeError

__all__ = ["CheckpointError"]


class CheckpointError(VitEdgeError):
    """A checkpoint cannot be read, is refused as unsafe, or does not fit the model."""

    several_lines: ClassVar[bool] = True  # the names that do not fit, line by line
