"""Tracing: a dynamic batch, the opset that was asked for, names at both ends, and errors of one line."""

import gc

import onnx_ir as ir
import pytest
import torch
from torch import Tensor, nn

from vit_edge.export.errors import ExportError
from vit_edge.export.tracing import INPUT_NAME, OUTPUT_NAME, trace


class Scale(nn.Module):
    """(B, C, h, w) -> (B, C): weights enough to see, quick to trace."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.tensor([1.0, -2.0, 3.0]))

    def forward(self, x: Tensor) -> Tensor:
        return x.mean(dim=(2, 3)) * self.weight


class BatchBranch(nn.Module):
    """torch.export takes one branch and fixes the batch size, without an error."""

    def forward(self, x: Tensor) -> Tensor:
        return x.sum(dim=(2, 3)) if x.shape[0] == 2 else x.mean(dim=(2, 3))


class ValueBranch(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.mean(dim=(2, 3)) if float(x.sum()) > 0 else x.sum(dim=(2, 3))


def test_batch_is_dynamic_and_the_rest_fixed(traced: ir.Model) -> None:
    (images,), (logits,) = traced.graph.inputs, traced.graph.outputs
    assert (images.name, logits.name) == (INPUT_NAME, OUTPUT_NAME)
    assert images.dtype == logits.dtype == ir.DataType.FLOAT
    assert images.shape is not None
    assert logits.shape is not None
    assert [str(size) for size in images.shape] == ["batch", "3", "24", "16"]
    assert [str(size) for size in logits.shape] == ["batch", "5"]


def test_attention_is_one_node_a_block_and_weights_are_inside(traced: ir.Model) -> None:
    operators = [node.op_type for node in traced.graph]
    assert operators.count("Attention") == 2
    assert {node.domain for node in traced.graph} == {""}
    assert "blocks.1.mlp.fc2.weight" in traced.graph.initializers
    assert all(value.const_value is not None for value in traced.graph.initializers.values())


@pytest.mark.parametrize(("asked", "written"), [(17, 18), (20, 20)])
def test_opset(asked: int, written: int) -> None:
    """torch has no operator set below 18."""
    model = trace(Scale().eval(), (3, 4, 6), opset=asked)
    assert model.opset_imports[""] == written
    assert model.producer_name == "vit-edge"


def test_collector_is_left_as_it_was() -> None:
    assert gc.isenabled()
    trace(Scale().eval(), (3, 4, 6), opset=23)
    assert gc.isenabled()
    gc.disable()
    try:
        trace(Scale().eval(), (3, 4, 6), opset=23)
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_fixed_batch_is_refused() -> None:
    with pytest.raises(ExportError, match=r"fixes the batch size: images has the shape \[2,3,4,6\]"):
        trace(BatchBranch().eval(), (3, 4, 6), opset=23)


def test_data_dependent_module_is_refused_in_one_line() -> None:
    with pytest.raises(ExportError, match=r"^the model cannot be traced: its code decides by values.+") as raised:
        trace(ValueBranch().eval(), (3, 4, 6), opset=23)
    assert "\n" not in str(raised.value)
    assert gc.isenabled()
