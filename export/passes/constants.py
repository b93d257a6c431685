"""Constant inputs of a node."""

from typing import Any

import numpy.typing as npt
import onnx_ir as ir

__all__ = ["constant"]


def constant(node: ir.Node, index: int) -> npt.NDArray[Any] | None:
    """The numbers of an input that is an initializer or a Constant node; None where it is neither, or left out."""
    value = node.inputs[index] if index < len(node.inputs) else None
    tensor = ir.convenience.get_const_tensor(value) if value is not None else None
    return None if tensor is None else tensor.numpy()
