"""The errors of the export side; the whole tree stands in ``vit_edge.runtime.errors``."""

from vit_edge.runtime.errors import VitEdgeError

__all__ = ["ExportError", "ParityError", "PassError", "QuantizationError", "first_line"]


class ExportError(VitEdgeError):
    """A model cannot be exported."""


class PassError(ExportError):
    """A graph pass failed."""


class ParityError(ExportError):
    """A graph does not compute what its source model computes."""


class QuantizationError(ExportError):
    """A model cannot be quantized, or not well enough to be used."""


def first_line(error: BaseException | None) -> str:
    """What went wrong first, in one line: messages of torch are pages long, with the cause of all at the end."""
    if error is None:
        return "no reason given"
    while error.__cause__ is not None:
        error = error.__cause__
    line = next((line.strip() for line in str(error).splitlines() if line.strip()), "")
    return line if " " in line else f"{type(error).__name__} {line}".strip()  # KeyError says the key alone
