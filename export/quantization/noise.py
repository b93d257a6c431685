"""What rounding errors do to a quantized file: the least tolerance that its golden outputs can have."""

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from vit_edge.export.model_file import open_graph

__all__ = ["perturbation_band"]

_PERTURBATION = 1e-7  # relative: a rounding error of float32
_DRAWS = 8


def perturbation_band(model: ir.Model, images: npt.NDArray[np.float32]) -> float:
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
