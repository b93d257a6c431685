"""Sizes that were written into a graph when it was traced, made to follow the batch again."""

import logging
import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from vit_edge.export.errors import PassError
from vit_edge.export.nodewise import NodeError, Pair, Walk, node_label

__all__ = ["FIXED", "FixBatch", "batch_axis"]

_log = logging.getLogger(__name__)

FIXED = "vit_edge.fixed_batch"  # metadata of a repaired node: what was done, for the user and the manifest


class FixBatch(ir.passes.InPlacePass):
    """Reshape(x, [8, 197, 192]), Resize, Expand and Tile to 8, 8 equal rows of a constant -> the same for any batch.

    The graph is run node by node at the traced batch and at a larger one with the same images in its middle. A node is
    only changed where it fails or where its output does not grow as its input does; at the end, these images must come
    out as they did.

    Args:
        traced: the batch size that the graph runs at.
        images: (n, C, height, width) float32, normalised, n = `traced` + 2.
        same: how far an image's tensors may move with its batch mates, of their largest element.
    """

    def __init__(self, traced: int, images: npt.NDArray[np.float32], same: float) -> None:
        super().__init__()
        self.traced, self.images, self.same = traced, images, same

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        """Repair the graph and say with each node what was done.

        Raises:
            PassError: a node that no rule repairs; it is named.
        """
        walk, culprit, modified = Walk(model, self.images, self.traced), "", False
        for node in list(model.graph):
            modified |= _fix_reshape(node, walk) or _fix_resize(node, walk)
            try:
                outputs = walk.run(node)
            except NodeError as error:
                if not (_fix_expand(node, walk) or _fix_operands(node, walk)):
                    raise PassError(f"no rule repairs {node_label(node)}: re-export it with a dynamic batch") from error
                outputs, modified = walk.run(node), True
            if not culprit and _breaks(node, walk, outputs, self.same):
                culprit = node_label(node)
            walk.keep(node, outputs)
        if walk[model.graph.outputs[0]].deviation > self.same:
            raise PassError(f"images of a batch are mixed or lost, first at {culprit or 'the output'}")
        return ir.passes.PassResult(model, modified=modified)


def batch_axis(shape: Sequence[int], axis: int, batch: int, reshaped: Sequence[int]) -> int | None:
    """Where the batch goes in a Reshape: elements stay in order, so its stride stays the same.

    Args:
        shape: of the data at `batch`.
        axis: which axis of it grows with the batch, the batch being its outermost part.
        batch: the batch size.
        reshaped: of the result at `batch`.

    Returns:
        The axis of the result that grows; None where none can.

    Example:
        >>> batch_axis((8, 197, 576), 0, 8, (8, 197, 3, 3, 64)), batch_axis((1, 8, 7, 8, 7, 96), 0, 1, (64, 49, 96))
        (0, 0)
    """
    stride = math.prod(shape[axis + 1 :]) * shape[axis] // batch
    found = []
    for i, size in enumerate(reshaped):
        inner = math.prod(reshaped[i + 1 :])
        if inner <= stride and inner * size >= stride * batch and size % batch == 0:
            found.append((inner != stride, size != batch, i))
    return min(found)[2] if found else None


def _fix_reshape(node: ir.Node, walk: Walk) -> bool:
    """Reshape to constants: -1 at the axis that has to grow."""
    if node.op_type != "Reshape" or node.domain not in ("", "ai.onnx") or len(node.inputs) < 2:
        return False
    data = walk[node.inputs[0]]
    if data.axis is None or not walk[node.inputs[1]].constant:
        return False
    small = walk.run_small(node)[0].shape
    axis = batch_axis(data.small.shape, data.axis, walk.small, small)
    if axis is None:
        return False
    wanted = list(small)
    wanted[axis] = small[axis] * walk.large // walk.small
    try:
        if list(walk.run(node)[0].large.shape) == wanted:
            return False
    except NodeError as error:
        _log.debug("%s", error)
    wanted[axis] = -1
    before = walk[node.inputs[1]].small.tolist()
    node.replace_input_with(1, _constant(walk, f"{node.outputs[0].name}/shape", wanted))
    return _record(node, f"{before} -> {wanted}")


def _fix_expand(node: ir.Node, walk: Walk) -> bool:
    """Expand of what grows already: 1 keeps the size."""
    if node.op_type != "Expand":
        return False
    data, shape = walk[node.inputs[0]], walk[node.inputs[1]]
    if data.axis is None or not shape.constant:
        return False
    before = shape.small.tolist()
    place = data.axis + len(before) - data.small.ndim
    if place < 0 or before[place] != data.small.shape[data.axis]:
        return False
    wanted = [*before[:place], 1, *before[place + 1 :]]
    node.replace_input_with(1, _constant(walk, f"{node.outputs[0].name}/shape", wanted))
    return _record(node, f"{before} -> {wanted}")


def _fix_resize(node: ir.Node, walk: Walk) -> bool:
    """Resize to constants, the first of them the batch."""
    if node.op_type != "Resize" or len(node.inputs) < 4:
        return False
    data, sizes = walk[node.inputs[0]], walk.get(node.inputs[3])
    if data.axis != 0 or sizes is None or not sizes.constant or sizes.small[:1] != [walk.small]:
        return False
    before = sizes.small.tolist()
    node.replace_input_with(3, _batch_and(before[1:], f"{node.outputs[0].name}/sizes", node, walk))
    return _record(node, f"{before} -> {['batch', *before[1:]]}")


def _fix_operands(node: ir.Node, walk: Walk) -> bool:
    """A constant with one row an image beside a tensor that grows: its first row, repeated for the batch."""
    if walk.small == 1 and node.op_type != "Concat":  # one row serves all images already
        return False
    pairs = [walk.get(value) for value in node.inputs]
    ranks = {pair.small.ndim for pair in pairs if pair is not None and pair.axis == 0}
    fixed = False
    for index, (value, pair) in enumerate(zip(node.inputs, pairs, strict=True)):
        if value is None or pair is None or not pair.constant or pair.small.ndim not in ranks:
            continue
        rows = pair.small
        if rows.ndim < 2 or len(rows) != walk.small or not (rows == rows[:1]).all():
            continue
        made = _repeated(value, node, walk) if node.op_type == "Concat" else _first_row(value, node, walk)
        node.replace_input_with(index, made)
        fixed = _record(node, f"{value.name} {list(rows.shape)} -> {['batch', *rows.shape[1:]]}")
    return fixed


def _repeated(value: ir.Value, before: ir.Node, walk: Walk) -> ir.Value:
    """The rows of a constant, as many as there are images."""
    shape = _batch_and([1] * (walk[value].small.ndim - 1), f"{value.name}/batch", before, walk)
    expand = ir.node("Expand", [_first_row(value, before, walk), shape])
    return _insert(expand, f"{value.name}/batch", before, walk)


def _first_row(value: ir.Value, before: ir.Node, walk: Walk) -> ir.Value:
    """One row of a constant whose rows are equal; what was in front of an Expand or Tile where that is it."""
    producer, wanted = value.producer(), (1, *walk[value].small.shape[1:])
    if walk[value].small.shape == wanted:
        return value
    if producer is not None and producer.op_type in ("Expand", "Tile") and producer.inputs[0] is not None:
        source = walk[producer.inputs[0]]
        if source.constant and source.small.shape == wanted:
            return producer.inputs[0]
    gather = ir.node("Gather", [value, _constant(walk, f"{value.name}/zero", [0])], {"axis": 0})
    return _insert(gather, f"{value.name}/row", before, walk)


def _batch_and(rest: Sequence[int], name: str, before: ir.Node, walk: Walk) -> ir.Value:
    """The shape [batch, *rest] of the images that are run."""
    shape = _insert(ir.node("Shape", [walk.model.graph.inputs[0]]), name, before, walk)
    first = _insert(ir.node("Gather", [shape, _constant(walk, f"{name}/zero", [0])], {"axis": 0}), name, before, walk)
    if not rest:
        return first
    return _insert(ir.node("Concat", [first, _constant(walk, f"{name}/rest", rest)], {"axis": 0}), name, before, walk)


def _insert(node: ir.Node, name: str, before: ir.Node, walk: Walk) -> ir.Value:
    node.name = node.outputs[0].name = _free(f"{name}/{node.op_type}", walk)
    walk.insert(node, before)
    return node.outputs[0]


def _constant(walk: Walk, name: str, numbers: Sequence[int]) -> ir.Value:
    name = _free(name, walk)
    value = ir.Value(name=name, const_value=ir.tensor(np.array(numbers, np.int64), name=name))
    value.shape, value.type = ir.Shape([len(numbers)]), ir.TensorType(ir.DataType.INT64)
    walk.model.graph.register_initializer(value)
    return value


def _free(name: str, walk: Walk) -> str:
    graph = walk.model.graph
    taken = set(graph.initializers) | {output.name for node in graph for output in node.outputs}
    return next(each for each in (name, *(f"{name}_{i}" for i in range(1, len(taken) + 2))) if each not in taken)


def _record(node: ir.Node, what: str) -> bool:
    node.metadata_props[FIXED] = what
    _log.info("%s: %s", node_label(node), what)
    return True


def _breaks(node: ir.Node, walk: Walk, outputs: Sequence[Pair], same: float) -> bool:
    """What it reads is right for every image, what it gives is not: images are mixed or lost here."""
    read = [pair for pair in map(walk.get, node.inputs) if pair is not None and pair.axis is not None]
    if not read or node.op_type in ("Shape", "Size"):
        return False
    return all(pair.deviation <= same for pair in read) and outputs[0].deviation > same
