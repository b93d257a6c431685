"""How far a changed graph's outputs are from the float graph's, on the same images."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from vit_edge.export.model_file import open_graph

__all__ = ["Trial", "compare", "run"]

Array = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Trial:
    """Over n images: the share with the same largest output where outputs are classes, and ||Δ|| / ||outputs||."""

    agreement: float | None
    l2: float
    n: int

    def within(self, agreement: float, l2: float) -> bool:
        """Is it at least as near as that?"""
        return self.l2 <= l2 and (self.agreement is None or self.agreement >= agreement)

    def __str__(self) -> str:
        same = "" if self.agreement is None else f"{self.agreement:.1%} of {self.n} images agree, "
        return f"{same}relative L2 {self.l2:.3f}"


def run(model: ir.Model, images: Iterable[Array]) -> Array:
    """A graph's outputs, one image at a time: (n, classes), whatever their shape was."""
    session = open_graph(model)
    name = session.get_inputs()[0].name
    return np.stack([session.run(None, {name: image[None]})[0].ravel() for image in images])


def compare(got: Array, reference: Array, *, classes: bool) -> Trial:
    """How near outputs are to the float graph's.

    Args:
        got: (n, outputs), of the changed graph.
        reference: (n, outputs), of the float graph for the same images.
        classes: whether the largest output is an answer.
    """
    l2 = float(np.linalg.norm(got - reference) / np.linalg.norm(reference))
    same = float((got.argmax(axis=1) == reference.argmax(axis=1)).mean()) if classes else None
    return Trial(same, l2 if np.isfinite(l2) else np.inf, len(reference))
