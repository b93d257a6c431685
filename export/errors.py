"""The errors of the export side; the whole tree stands in ``vit_edge.runtime.errors``."""

from vit_edge.runtime.errors import VitEdgeError

__all__ = ["ExportError", "ParityError", "PassError"]


class ExportError(VitEdgeError):
    """A model cannot be exported."""


class PassError(ExportError):
    """A graph pass failed."""


class ParityError(ExportError):
    """A graph does not compute what its source model computes."""
