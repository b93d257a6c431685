"""What can go wrong with a measurement."""

from vit_edge.runtime.errors import VitEdgeError

__all__ = ["BenchError"]


class BenchError(VitEdgeError):
    """A candidate cannot be measured: it does not load, computes something else here, or its process ended."""
