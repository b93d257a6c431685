"""The errors of the export side; the whole tree stands in ``vit_edge.runtime.errors``."""

from vit_edge.runtime.errors import VitEdgeError

__all__ = ["ExportError", "ParityError", "PassError", "QuantizationError"]


class ExportError(VitEdgeError):
    """A model cannot be exported."""


class PassError(ExportError):
    """A graph pass failed."""


class ParityError(ExportError):
    """A graph does not compute what its source model computes."""


class QuantizationError(ExportError):
    """A model cannot be quantized, or not well enough to be used."""
