"""The errors of an evaluation.

::

    VitEdgeError (vit_edge.runtime)
    ├── DataError          a data set that cannot be used as it stands; the message lists every defect
    └── MisalignedError    labels that do not fit the model's classes
"""

from collections.abc import Sequence

from vit_edge.runtime.errors import VitEdgeError

__all__ = ["DataError", "MisalignedError"]

_SHOWN = 1000  # of a longer list nobody reads the end


class DataError(VitEdgeError):
    """A data set cannot be used as it stands.

    Args:
        summary: What is wrong, in one line.
        defects: One line a defect, with the name of the file.
    """

    def __init__(self, summary: str, defects: Sequence[str] = ()) -> None:
        self.defects = tuple(defects)
        lines = [f"  {defect}" for defect in self.defects[:_SHOWN]]
        if len(self.defects) > _SHOWN:
            lines.append(f"  and {len(self.defects) - _SHOWN:,} more")
        super().__init__("\n".join([summary + (":" if lines else ""), *lines]))


class MisalignedError(VitEdgeError):
    """The labels of a data set do not fit the order of the model's classes."""
