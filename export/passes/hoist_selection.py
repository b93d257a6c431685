"""Compute only what is read: the last block for the tokens that the head looks at."""

import logging
import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from vit_edge.export.passes.constants import constant
from vit_edge.export.passes.pointwise import Operand, operands

__all__ = ["HoistSelection", "selected_name", "split_name"]

_NORMS = ("LayerNormalization", "RMSNormalization")
_SELECTED = re.compile(r"(.+)\[(\d+(?:,\d+)*)\]")
_Indices = npt.NDArray[np.int64]

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, eq=False)
class _Selection:
    """A node that reads some entries of one axis of its input; `indices` has rank 0 where the axis goes away."""

    node: ir.Node
    axis: int
    indices: _Indices


def selected_name(name: str, indices: Sequence[int]) -> str:
    """The name of a tensor of which only these tokens are left: `blocks.11.mlp.fc1[0]`."""
    return f"{name}[{','.join(map(str, indices))}]"


def split_name(name: str) -> tuple[str, list[int]]:
    """What `selected_name` put together; no tokens where all are there.

    Example:
        >>> split_name("blocks.11.mlp.fc1[0,1]"), split_name("blocks.10.mlp.fc1")
        (('blocks.11.mlp.fc1', [0, 1]), ('blocks.10.mlp.fc1', []))
    """
    found = _SELECTED.fullmatch(name)
    return (found[1], [int(each) for each in found[2].split(",")]) if found else (name, [])


class HoistSelection(ir.passes.InPlacePass):
    """f(x)[i] -> f(x[i]), as far up as f treats the entries of that axis one by one.

    Of a block whose class token alone is read, queries, attention, projection, norms and MLP are computed for that
    token alone; keys and values are still those of all tokens. It fires wherever fewer entries are read than there
    are (distillation reads two), and never where the head pools: a mean reads them all. The numbers stay the same up
    to the order of sums inside a matrix product.
    """

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        """Walk from the outputs to the inputs; a node is behind all that reads it."""
        modified = False
        for node in reversed(list(model.graph)):
            modified |= _hoist(model.graph, node)
        return ir.passes.PassResult(model, modified=modified)


def _hoist(graph: ir.Graph, node: ir.Node) -> bool:
    """In front of one node, where all that reads it selects on one axis."""
    output = node.outputs[0]
    uses = tuple(output.uses())
    found = [each for use in uses if use.idx == 0 and (each := _selection(use.node)) is not None]
    if not found or output.shape is None or len({each.axis for each in found}) != 1:
        return False
    axis, size = found[0].axis, output.shape[found[0].axis]
    read = np.unique(np.concatenate([each.indices.ravel() for each in found]))
    needed = operands(node, axis)
    if needed is None or not isinstance(size, int) or len(read) >= size:
        _log.debug("%s (%s): its entries are not computed one by one, or all are read", node.name, node.op_type)
        return False
    if len(found) < len(uses) or output.is_graph_output():
        if node.op_type not in _NORMS or _selected(node.inputs[0], needed[0][1], read) is None:
            return False
        node = _again(graph, node, found)
        output = node.outputs[0]
    for operand in needed:
        _select(graph, node, operand, read)
    if node.op_type == "Reshape":
        _reshape(graph, node, axis, len(read))
    assert output.shape is not None
    output.shape = ir.Shape([len(read) if i == axis else dim for i, dim in enumerate(output.shape)])
    output.name = selected_name(str(output.name), read.tolist())
    for each in found:
        _read_again(graph, each, output, read)
    return True


def _again(graph: ir.Graph, node: ir.Node, found: Sequence[_Selection]) -> ir.Node:
    """A second norm for the entries that are selected, where others need the whole.

    Its input is selected for the residual already, so it takes the place of a selection.
    """
    made = ir.node(node.op_type, node.inputs, attributes=dict(node.attributes), name=f"{node.name}/selected")
    result, whole = made.outputs[0], node.outputs[0]
    result.name, result.shape, result.type = whole.name, whole.shape, whole.type
    graph.insert_after(node, made)
    for each in found:
        each.node.replace_input_with(0, result)
    return made


def _selection(node: ir.Node) -> _Selection | None:
    """Constant entries of one axis that a node reads of its first input."""
    source = node.inputs[0] if node.inputs else None
    if node.domain not in ("", "ai.onnx") or source is None or source.shape is None:
        return None
    if node.op_type == "Gather":
        axis, indices = node.attributes.get_int("axis", 0), constant(node, 1)
        indices = None if indices is None or indices.ndim > 1 else indices
    elif node.op_type == "Slice":
        axes = constant(node, 3)
        if axes is None or axes.size != 1:
            return None
        axis = int(axes[0])
        indices = _sliced(node, source.shape[axis])
    else:
        return None
    assert axis is not None
    axis = axis + len(source.shape) if axis < 0 else axis
    size = source.shape[axis]
    if indices is None or not isinstance(size, int):
        return None
    return _Selection(node, axis, np.where(indices < 0, indices + size, indices))


def _sliced(node: ir.Node, size: object) -> _Indices | None:
    starts, ends = constant(node, 1), constant(node, 2)
    steps = constant(node, 4) if len(node.inputs) > 4 else np.ones(1, np.int64)
    if starts is None or ends is None or steps is None or not isinstance(size, int) or int(steps[0]) < 1:
        return None
    return np.arange(size, dtype=np.int64)[int(starts[0]) : int(ends[0]) : int(steps[0])]


def _selected(source: ir.Value | None, axis: int, read: _Indices) -> ir.Node | None:
    """The node that selects these entries already."""
    if source is None:
        return None
    name = f"{selected_name(str(source.name), read.tolist())}/Gather"
    uses = (use.node for use in source.uses())
    return next((each for each in uses if each.name == name and each.attributes.get_int("axis") == axis), None)


def _select(graph: ir.Graph, node: ir.Node, operand: Operand, read: _Indices) -> None:
    """Give a node only these entries of an input; an earlier selection of the same is used again."""
    index, axis = operand
    source = node.inputs[index]
    assert source is not None
    assert source.shape is not None
    name = selected_name(str(source.name), read.tolist())
    there = _selected(source, axis, read)
    if there is None:
        which = _register(graph, selected_name("entries", read.tolist()), read)
        there = ir.node("Gather", [source, which], attributes={"axis": axis}, name=f"{name}/Gather")
        made = there.outputs[0]
        made.name, made.type = f"{name}/Gather", source.type
        made.shape = ir.Shape([len(read) if i == axis else dim for i, dim in enumerate(source.shape)])
    else:
        graph.remove(there)
    graph.insert_before(node, there)
    node.replace_input_with(index, there.outputs[0])


def _reshape(graph: ir.Graph, node: ir.Node, axis: int, size: int) -> None:
    """As many entries of an axis; the first axis is the batch's and stays what it is."""
    made = node.outputs[0].shape
    assert made is not None
    kept = [each if isinstance(each, int) else -1 for each in made]
    kept[0], kept[axis] = 0, size
    sizes = np.array(kept, np.int64)
    node.replace_input_with(1, _register(graph, f"{node.name or node.outputs[0].name}/shape", sizes))
    node.attributes.pop("allowzero", None)


def _register(graph: ir.Graph, name: str, numbers: _Indices) -> ir.Value:
    """An initializer with these numbers, of this name or the first free one behind it."""
    free = name
    for number in count(1):
        there = graph.initializers.get(free)
        if there is None:
            break
        if there.const_value is not None and np.array_equal(there.const_value.numpy(), numbers):
            return there
        free = f"{name}_{number}"
    value = ir.Value(name=free, const_value=ir.tensor(numbers, name=free))
    value.shape, value.type = ir.Shape(numbers.shape), ir.TensorType(ir.DataType.INT64)
    graph.register_initializer(value)
    return value


def _read_again(graph: ir.Graph, each: _Selection, value: ir.Value, read: _Indices) -> None:
    """The same entries of a value that has only those that are read."""
    result = each.node.outputs[0]
    if each.indices.ndim == 1 and np.array_equal(each.indices, read) and not result.is_graph_output():
        ir.convenience.replace_all_uses_with(result, value)
        graph.remove(each.node, safe=True)
        return
    moved = np.searchsorted(read, each.indices).astype(np.int64)
    which = _register(graph, f"{each.node.name or result.name}/indices", moved)
    node = ir.node("Gather", [value, which], attributes={"axis": each.axis}, name=each.node.name)
    made = node.outputs[0]
    made.name, made.shape, made.type = result.name, result.shape, result.type
    graph.insert_before(each.node, node)
    ir.convenience.replace_all_uses_with(result, made, replace_graph_outputs=True)
    graph.remove(each.node, safe=True)
