"""The layers that are quantized: matrix products with constant weights, and the tensors that several of them read."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

__all__ = ["OUTLIERS", "Linear", "Site", "find_linears", "find_sites"]

Array = npt.NDArray[np.float32]

OUTLIERS = ".outliers"  # in the name of weights that `mending` has taken out to stay float


@dataclass(frozen=True, slots=True, eq=False)
class Linear:
    """y = x W + b in a graph.

    Attributes:
        name: of the module, else of the node.
        source: x, (..., K).
        weight: W, (K, N) float32.
        bias: (N,) float32, or None.
        nodes: MatMul and its Add, or Gemm.
    """

    name: str
    source: ir.Value
    weight: Array
    bias: Array | None
    nodes: tuple[ir.Node, ...]

    @property
    def output(self) -> ir.Value:
        """y, (..., N)."""
        return self.nodes[-1].outputs[0]


@dataclass(frozen=True, slots=True, eq=False)
class Site:
    """A tensor that is quantized once, and the layers that read it (queries, keys and values share theirs)."""

    source: ir.Value
    linears: tuple[Linear, ...]

    @property
    def name(self) -> str:
        """The layers' common name: `blocks.3.attn.qkv`, `blocks.3.mlp.fc2`."""
        names = [linear.name for linear in self.linears]
        if len(names) == 1:
            return names[0]
        stems = {name.rpartition(".")[0] for name in names}
        lasts = "".join(name.rpartition(".")[2] for name in names)
        return f"{stems.pop()}.{lasts}" if len(stems) == 1 and stems != {""} else "+".join(names)

    @property
    def weight(self) -> Array:
        """All layers' weights side by side: (K, sum of N)."""
        return np.concatenate([linear.weight for linear in self.linears], axis=1)


def find_sites(graph: ir.Graph) -> list[Site]:
    """All sites, in the order of the graph."""
    found: dict[ir.Value, list[Linear]] = {}
    for linear in find_linears(graph):
        found.setdefault(linear.source, []).append(linear)
    return [Site(source, tuple(linears)) for source, linears in found.items()]


def find_linears(graph: ir.Graph) -> list[Linear]:
    """All MatMul and Gemm nodes with one constant float32 weight matrix, in the order of the graph."""
    made = (_linear(node) for node in graph if node.domain == "")
    return [linear for linear in made if linear is not None]


def _linear(node: ir.Node) -> Linear | None:
    if node.op_type not in ("MatMul", "Gemm") or node.inputs[0] is None or node.inputs[0].const_value is not None:
        return None
    weight = constant(node.inputs[1])
    if weight is None or weight.ndim != 2 or OUTLIERS in str(node.inputs[1].name):  # type: ignore[union-attr]
        return None
    if node.op_type == "Gemm":
        if not _plain_gemm(node):
            return None
        weight = weight.T if node.attributes.get_int("transB", 0) else weight
        bias = constant(node.inputs[2]) if len(node.inputs) > 2 else None
        if len(node.inputs) > 2 and (bias is None or bias.size != weight.shape[1]):
            return None
        nodes: tuple[ir.Node, ...] = (node,)
    else:
        add, bias = _bias(node, weight.shape[1])
        nodes = (node,) if add is None else (node, add)
    return Linear(
        name=_name(node, nodes[-1]),
        source=node.inputs[0],
        weight=np.ascontiguousarray(weight),
        bias=None if bias is None else bias.ravel(),
        nodes=nodes,
    )


def constant(value: ir.Value | None) -> Array | None:
    """The numbers of a float32 initializer."""
    if value is None or value.const_value is None or value.const_value.dtype != ir.DataType.FLOAT:
        return None
    numbers: Array = value.const_value.numpy()
    return numbers


def _plain_gemm(node: ir.Node) -> bool:
    scales: Mapping[str, float] = {name: node.attributes.get_float(name, 1.0) for name in ("alpha", "beta")}
    return set(scales.values()) == {1.0} and not node.attributes.get_int("transA", 0)


def _bias(node: ir.Node, width: int) -> tuple[ir.Node | None, Array | None]:
    """The Add behind a MatMul and its numbers, where it is a bias and nothing else reads the product."""
    uses = tuple(node.outputs[0].uses())
    if node.outputs[0].is_graph_output() or len(uses) != 1 or uses[0].node.op_type != "Add":
        return None, None
    bias = constant(uses[0].node.inputs[1 - uses[0].idx])
    return (uses[0].node, bias) if bias is not None and bias.shape[-1:] == (width,) == (bias.size,) else (None, None)


def _name(node: ir.Node, last: ir.Node) -> str:
    """The module's, from the weight's name; else the node's."""
    weight = str(node.inputs[1].name).removesuffix(".T")  # type: ignore[union-attr]
    if weight.endswith(".weight"):
        return weight.removesuffix(".weight")
    return node.name or str(last.outputs[0].name)
