"""Run a graph node by node at two batch sizes: where sizes stop growing with the batch, and what each node says.

A whole graph that does not run at another batch size says only which node failed first. Node by node, everything in
front of a node is known at both sizes: shapes, values, and whether a tensor depends on the image.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import onnx_ir as ir
import onnxruntime

from vit_edge.export.errors import PassError
from vit_edge.runtime.errors import ModelFileError
from vit_edge.runtime.session import ORT_ERRORS, one_line, open_session

__all__ = ["NodeError", "Pair", "Walk", "node_label"]

Array = npt.NDArray[Any]
_ERRORS: tuple[type[Exception], ...] = (*ORT_ERRORS, ValueError, TypeError)


class NodeError(PassError):
    """One node does not run."""


@dataclass(frozen=True, slots=True, eq=False)
class Pair:
    """One tensor at the small and at the large batch; the same array twice where it does not depend on the image."""

    small: Array
    large: Array

    @property
    def axis(self) -> int | None:
        """The one axis that grows with the batch; None where there is none, or more than one."""
        if self.small.ndim != self.large.ndim:
            return None
        sizes = zip(self.small.shape, self.large.shape, strict=True)
        grown = [axis for axis, (small, large) in enumerate(sizes) if small != large]
        return grown[0] if len(grown) == 1 else None

    @property
    def constant(self) -> bool:
        """Whether it is the same whatever the image and the batch."""
        return self.small is self.large or np.array_equal(self.small, self.large)

    @property
    def deviation(self) -> float:
        """How far the same images in the middle of the large batch are off, of the largest element."""
        if self.axis is None:
            return np.inf
        size = self.small.shape[self.axis]
        begin = (self.large.shape[self.axis] - size) // 2
        same = self.large.take(range(begin, begin + size), axis=self.axis).astype(np.float64)
        largest = float(np.abs(self.small).max(initial=0))
        return float(np.abs(same - self.small).max(initial=0)) / (largest or 1.0)


def node_label(node: ir.Node) -> str:
    """A node as a person finds it in a graph viewer."""
    return f"{node.name or node.outputs[0].name} ({node.op_type})"


class Walk:
    """The values of a graph while it is run in order.

    Args:
        model: with one input; what is run is never changed by the walk.
        images: (n, C, height, width) float32, normalised, what the graph takes; n is the large batch.
        small: the small batch, the images in the middle; n - small is even.
    """

    def __init__(self, model: ir.Model, images: npt.NDArray[np.float32], small: int) -> None:
        self.model, self.small, self.large = model, small, len(images)
        begin = (self.large - small) // 2
        self._values: dict[ir.Value, Pair] = {model.graph.inputs[0]: Pair(images[begin : begin + small], images)}
        self._uses = Counter(value for node in model.graph for value in _read(node))
        self._uses.update(model.graph.outputs)

    def __getitem__(self, value: ir.Value | None) -> Pair:
        assert value is not None
        if value not in self._values:
            if value.const_value is None:
                raise PassError(f"the value {value.name!r} is not known")
            array = value.const_value.numpy()
            self._values[value] = Pair(array, array)
        return self._values[value]

    def get(self, value: ir.Value | None) -> Pair | None:
        """The value, or None where an operator's optional input is left out."""
        return None if value is None else self[value]

    def keep(self, node: ir.Node, outputs: Sequence[Pair]) -> None:
        """Remember a node's outputs and forget what nothing reads any more."""
        self._values.update(zip(node.outputs, outputs, strict=True))
        for value in _read(node):
            self._uses[value] -= 1
            pair = self._values.get(value)
            done = self._uses[value] <= 0 and value is not self.model.graph.inputs[0]
            if done and pair is not None and pair.small is not pair.large:  # what is constant may be asked for again
                del self._values[value]

    def insert(self, node: ir.Node, before: ir.Node) -> None:
        """Put a node into the graph and run it."""
        self.model.graph.insert_before(before, node)
        self._uses.update(_read(node))
        self.keep(node, self.run(node))

    def run(self, node: ir.Node) -> list[Pair]:
        """A node's outputs at both sizes; it is run once where it does not depend on the image.

        Raises:
            NodeError: onnxruntime cannot run it at one of them.
        """
        read = {value: self[value] for value in _read(node)}
        session = self._session(node, {value: pair.small.dtype for value, pair in read.items()})
        small = _run(session, node, {str(value.name): pair.small for value, pair in read.items()})
        if all(pair.small is pair.large for pair in read.values()):
            return [Pair(each, each) for each in small]
        large = _run(session, node, {str(value.name): pair.large for value, pair in read.items()})
        return [Pair(*each) for each in zip(small, large, strict=True)]

    def run_small(self, node: ir.Node) -> list[Array]:
        """A node's outputs at the small batch alone."""
        read = {value: self[value] for value in _read(node)}
        session = self._session(node, {value: pair.small.dtype for value, pair in read.items()})
        return _run(session, node, {str(value.name): pair.small for value, pair in read.items()})

    def _session(self, node: ir.Node, dtypes: Mapping[ir.Value, np.dtype[Any]]) -> onnxruntime.InferenceSession:
        proto = onnx.ModelProto(ir_version=max(self.model.ir_version or 0, 4), producer_name="vit-edge")
        for domain, version in self.model.opset_imports.items():
            proto.opset_import.add(domain=domain, version=version)
        proto.functions.extend(ir.to_proto(function) for function in self.model.functions.values())
        proto.graph.name = "node"
        proto.graph.node.append(ir.to_proto(node))
        try:
            for value, dtype in dtypes.items():
                kind = onnx.helper.np_dtype_to_tensor_dtype(dtype)
                proto.graph.input.append(onnx.helper.make_tensor_value_info(str(value.name), kind, None))
            proto.graph.output.extend(onnx.ValueInfoProto(name=name) for name in _outputs(node))
            return open_session(proto.SerializeToString(), threads=1, optimization="none")
        except (ModelFileError, ValueError, KeyError) as error:
            raise NodeError(f"{node_label(node)} cannot be run on its own: {error}") from error


def _outputs(node: ir.Node) -> list[str]:
    return [output.name for output in node.outputs if output.name]


def _read(node: ir.Node) -> set[ir.Value]:
    """What a node reads, also from inside its subgraphs."""
    read = {value for value in node.inputs if value is not None}
    for graph in _subgraphs(node):
        inside = {*graph.inputs, *graph.initializers.values(), *(value for each in graph for value in each.outputs)}
        read |= {value for each in graph for value in _read(each)} | {value for value in graph.outputs}
        read -= inside
    return read


def _subgraphs(node: ir.Node) -> Iterator[ir.Graph]:
    for attribute in node.attributes.values():
        if attribute.type == ir.AttributeType.GRAPH:
            yield attribute.as_graph()
        elif attribute.type == ir.AttributeType.GRAPHS:
            yield from attribute.as_graphs()


def _run(session: onnxruntime.InferenceSession, node: ir.Node, feeds: Mapping[str, Array]) -> list[Array]:
    """All outputs; an empty array where an optional one is left out."""
    try:
        got = dict(zip(_outputs(node), session.run(None, dict(feeds)), strict=True))
    except _ERRORS as error:
        raise NodeError(f"{node_label(node)}: {one_line(error)}") from error
    return [np.asarray(got[output.name]) if output.name else np.empty(0) for output in node.outputs]
