"""Which operators compute each index of an axis by itself, and from which indices of their inputs."""

import math

import onnx_ir as ir

from vit_edge.export.passes.constants import constant

__all__ = ["Operand", "operands"]

Operand = tuple[int, int]  # an input's number, and its axis that corresponds to the output's

_UNARY = frozenset(
    {"Cast", "Erf", "Exp", "Gelu", "HardSwish", "Identity", "Neg", "Relu", "Sigmoid", "Softplus", "Sqrt", "Tanh"}
)
_BINARY = frozenset({"Add", "Div", "Mul", "Pow", "Sub"})
_NORMS = frozenset({"LayerNormalization", "RMSNormalization"})


def operands(node: ir.Node, axis: int) -> list[Operand] | None:
    """What an output's entry i of an axis is computed from: entry i of these inputs, all of the others.

    Args:
        node: with one output whose rank is known.
        axis: of its output, not negative.

    Returns:
        The inputs that are needed at i alone, at least one; None where other entries are needed too, or not known.
    """
    if node.domain not in ("", "ai.onnx") or len([each for each in node.outputs if each.name]) != 1:
        return None
    if node.op_type in _UNARY:
        return [(0, axis)]
    if node.op_type in _BINARY:
        return _broadcast(node, range(2), axis) or None
    if node.op_type in _NORMS:
        return [(0, axis)] if axis < _axis(node, "axis", -1) else None
    if node.op_type == "Softmax":
        return [(0, axis)] if axis != _axis(node, "axis", -1) else None
    if node.op_type == "Concat":
        return [(i, axis) for i in range(len(node.inputs))] if axis != _axis(node, "axis", 0) else None
    if node.op_type == "Transpose":
        perm = node.attributes.get_ints("perm")
        return [(0, perm[axis])] if perm is not None else None
    return _OTHERS[node.op_type](node, axis) if node.op_type in _OTHERS else None


def _rank(value: ir.Value | None) -> int:
    return -1 if value is None or value.shape is None else len(value.shape)


def _axis(node: ir.Node, name: str, default: int) -> int:
    axis = node.attributes.get_int(name, default)
    assert axis is not None
    return axis + _rank(node.outputs[0]) if axis < 0 else axis


def _broadcast(node: ir.Node, inputs: range, axis: int) -> list[Operand]:
    """Numpy's rules: axes are aligned at the right, one that is 1 or absent is the same for all entries."""
    found, rank = [], _rank(node.outputs[0])
    for i in inputs:
        value = node.inputs[i]
        own = axis - rank + _rank(value)
        if value is None or value.shape is None:
            return []
        if own >= 0 and value.shape[own] != 1:
            found.append((i, own))
    return found


def _matmul(node: ir.Node, axis: int) -> list[Operand] | None:
    rank = _rank(node.outputs[0])
    left, right = _rank(node.inputs[0]), _rank(node.inputs[1])
    if min(left, right) < 2 or axis == rank - 1:
        return None
    if axis == rank - 2:
        return [(0, left - 2)]
    return _broadcast(node, range(2), axis) or None


def _attention(node: ir.Node, axis: int) -> list[Operand] | None:
    """Each query is answered by itself, as long as no mask speaks of it and it may see all keys."""
    rank = _rank(node.inputs[0])
    plain = len(node.inputs) == 3 and not node.attributes.get_int("is_causal", 0)
    return [(0, axis)] if plain and rank in (3, 4) and axis == rank - 2 else None


def _quantize(node: ir.Node, axis: int) -> list[Operand] | None:
    """One scale for the whole tensor, or one for each entry of another axis."""
    whole = _rank(node.inputs[1]) == 0 or axis != _axis(node, "axis", 1)
    return [(0, axis)] if whole and not node.attributes.get_int("block_size", 0) else None


def _reshape(node: ir.Node, axis: int) -> list[Operand] | None:
    """An axis that goes through a Reshape whole; the first one is the batch's, of any size."""
    source, result = node.inputs[0], node.outputs[0]
    if source is None or source.shape is None or result.shape is None or axis == 0:
        return None
    sizes = _known(source.shape, result.shape)
    if sizes is None:
        return None
    given, made = sizes
    before, size = math.prod(made[: axis - 1]), made[axis - 1]
    whole = (i for i, each in enumerate(given) if each == size and math.prod(given[:i]) == before)
    found = next(whole, None)
    return None if found is None else [(0, found + 1)]


def _known(source: ir.Shape, result: ir.Shape) -> tuple[list[int], list[int]] | None:
    """The sizes behind the batch's; one that is unknown follows from the others where the batch stays the batch."""
    given = [each if isinstance(each, int) else 0 for each in source[1:]]
    made = [each if isinstance(each, int) else 0 for each in result[1:]]
    unknown = given.count(0) + made.count(0)
    if unknown == 1 and source[0] == result[0]:
        partial, whole = (given, made) if 0 in given else (made, given)
        product = math.prod(each for each in partial if each)
        partial[partial.index(0)] = math.prod(whole) // product
    elif unknown:
        return None
    return (given, made) if math.prod(given) == math.prod(made) else None


def _slice(node: ir.Node, axis: int) -> list[Operand] | None:
    """A slice of other axes."""
    axes = constant(node, 3)
    if axes is None:
        return None
    rank = _rank(node.outputs[0])
    return [(0, axis)] if axis not in {int(each) % rank for each in axes} else None


def _gather(node: ir.Node, axis: int) -> list[Operand] | None:
    """One entry or several of another axis."""
    indices = node.inputs[1]
    cut = node.attributes.get_int("axis", 0)
    assert cut is not None
    cut = cut + _rank(node.inputs[0]) if cut < 0 else cut
    if _rank(indices) not in (0, 1) or _rank(node.inputs[0]) < 0:
        return None
    before = axis + 1 if _rank(indices) == 0 and axis >= cut else axis
    return [(0, before)] if before != cut else None


_OTHERS = {
    "MatMul": _matmul,
    "Attention": _attention,
    "QuantizeLinear": _quantize,
    "DequantizeLinear": _quantize,
    "Reshape": _reshape,
    "Slice": _slice,
    "Gather": _gather,
}
