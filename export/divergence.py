"""Where a graph parts from its model: the first tensor, by module name, that differs."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import onnx_ir as ir
import torch
from torch import nn

from vit_edge.export.model_file import open_graph
from vit_edge.export.parity import deviation
from vit_edge.export.passes.hoist_selection import split_name
from vit_edge.intermediates import intermediates

__all__ = ["INTERMEDIATE_TOLERANCE", "Divergence", "first_divergence"]

# max|difference| / max|reference| of one named tensor against float64. Measured on the real ViT-Tiny, 123 tensors and
# 7 photos: at most 9.5e-6 (a GELU; other tensors 1e-6). Five times the worst noise seen.
INTERMEDIATE_TOLERANCE = 5e-5


@dataclass(frozen=True, slots=True)
class Divergence:
    """One tensor that differs: relative to the largest element of the reference."""

    tensor: str
    max_abs: float
    largest: float

    def __str__(self) -> str:
        return f"{self.tensor} (max|Δ| {self.max_abs * self.largest:.2g}, largest element {self.largest:.3g})"


def named_deviations(path: Path, model: nn.Module, images: npt.NDArray[np.float32]) -> list[Divergence]:
    """Compare every tensor of the graph that has a module's name with that module's output in float64.

    Of a tensor that the graph computes for some tokens alone (`passes.HoistSelection`), these are compared.

    Args:
        path: an .onnx file whose tensors were named by `passes.NameTensors`.
        model: the reference, in float32.
        images: (B, C, height, width) float32, normalised.

    Returns:
        One entry a tensor, in the order of the graph.
    """
    expected = intermediates(model.double(), torch.from_numpy(images).double())
    model.float()
    graph_model = ir.load(path)
    named = [
        value
        for node in graph_model.graph
        for value in node.outputs
        if split_name(str(value.name))[0] in expected and not value.is_graph_output()
    ]
    graph_model.graph.outputs.extend(named)
    session = open_graph(graph_model, optimization="none")
    got = session.run([value.name for value in named], {session.get_inputs()[0].name: images})
    found = []
    for value, tensor in zip(named, got, strict=True):
        module, read = split_name(str(value.name))
        reference = _entries(expected[module].numpy(), read, tensor.shape)
        if tensor.shape == reference.shape:
            largest = float(np.abs(reference).max())
            found.append(Divergence(str(value.name), deviation(tensor, reference)[0], largest))
        else:
            found.append(Divergence(str(value.name), np.inf, 1.0))
    return found


def _entries(reference: npt.NDArray[np.float64], read: list[int], shape: tuple[int, ...]) -> npt.NDArray[np.float64]:
    """Those entries of the reference, on the one axis that is shorter in the graph."""
    axes = [i for i, (own, whole) in enumerate(zip(shape, reference.shape, strict=False)) if own != whole]
    if not read or len(shape) != reference.ndim or len(axes) != 1 or reference.shape[axes[0]] <= max(read):
        return reference
    return reference.take(read, axes[0])


def first_divergence(path: Path, model: nn.Module, images: npt.NDArray[np.float32]) -> Divergence | None:
    """The first named tensor that differs by more than `INTERMEDIATE_TOLERANCE`, or None."""
    deviations = named_deviations(path, model, images)
    return next((each for each in deviations if each.max_abs > INTERMEDIATE_TOLERANCE), None)
