"""What can go wrong with a search."""

from vit_edge.runtime.errors import VitEdgeError

__all__ = ["OutOfTime", "TuneError"]


class TuneError(VitEdgeError):
    """Nothing could be measured, or nothing that was measured is within the budget."""


class OutOfTime(Exception):  # noqa: N818 - no error: it ends a step that began too late
    """The time is up while a step runs; never leaves the search."""
