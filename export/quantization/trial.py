"""How far a changed graph's outputs are from the float graph's, on the same images."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from vit_edge.export.model_file import open_graph

__all__ = ["Trial", "perturbation_band", "run", "try_graph"]

Array = npt.NDArray[np.float32]

_PERTURBATION = 1e-7  # relative: a rounding error of float32
_DRAWS = 8


@dataclass(frozen=True, slots=True)
class Trial:
    """Over n images: the share with the same largest output, and ||difference|| / ||outputs||."""

    agreement: float
    l2: float
    n: int


def run(model: ir.Model, images: Iterable[Array]) -> Array:
    """A graph's outputs, one image at a time: (n, classes), whatever their shape was."""
    session = open_graph(model)
    name = session.get_inputs()[0].name
    return np.stack([session.run(None, {name: image[None]})[0].ravel() for image in images])


def try_graph(model: ir.Model, images: Iterable[Array], reference: Array) -> Trial:
    """Compare a graph with the float graph's outputs.

    Args:
        model: the changed graph.
        images: (C, height, width) float32, normalised.
        reference: (n, classes), of the same images.
    """
    got = run(model, images)
    l2 = float(np.linalg.norm(got - reference) / np.linalg.norm(reference))
    same = float((got.argmax(axis=1) == reference.argmax(axis=1)).mean())
    return Trial(same, l2 if np.isfinite(l2) else np.inf, len(reference))


def perturbation_band(model: ir.Model, images: Array) -> float:
    """The largest change of the outputs, relative to the largest one, under rounding errors of the input.

    Integer arithmetic turns a rounding error into a step, and the next layer turns that into many: outputs of one
    int8 file differ between two machines by about as much as here between two inputs.

    Args:
        model: a quantized graph.
        images: (n, C, height, width) float32, normalised.
    """
    session = open_graph(model)
    name = session.get_inputs()[0].name
    rng = np.random.default_rng(0)
    worst = 0.0
    for image in images:
        exact = session.run(None, {name: image[None]})[0]
        for _ in range(_DRAWS):
            moved = (image * (1 + _PERTURBATION * rng.standard_normal(image.shape))).astype(np.float32)
            got = session.run(None, {name: moved[None]})[0]
            worst = max(worst, float(np.abs(got - exact).max() / np.abs(exact).max()))
    return worst
