"""From a PyTorch module to an ONNX graph, with `torch.onnx.export(dynamo=True)`."""

import gc
import io
import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr

import onnx_ir as ir
import torch
from torch import nn

from vit_edge.export.errors import ExportError, first_line

__all__ = ["INPUT_NAME", "OPSETS", "OUTPUT_NAME", "trace"]

INPUT_NAME = "images"
OUTPUT_NAME = "logits"
OPSETS = range(17, 25)  # 17: the first with LayerNormalization; 24: the newest in onnxruntime 1.32
_LOWEST_TRACED = 18  # torch has no older operator set; `passes.ConvertOpset` goes below
_BY_VALUE = "data-dependent"  # in torch's messages
_TRACE_BATCH = 2  # torch.export takes sizes 0 and 1 for constants, and the batch has to stay dynamic


def trace(module: nn.Module, input_shape: tuple[int, int, int], *, opset: int) -> ir.Model:
    """Trace a module for any batch size.

    Args:
        module: takes (B, C, height, width) float32 and gives (B, classes) float32; in eval mode.
        input_shape: (C, height, width).
        opset: the ONNX opset; below 18 the graph comes at 18.

    Returns:
        The graph as traced, not optimised, weights in memory.

    Raises:
        ExportError: the module cannot be traced, or its batch size is not dynamic.
    """
    example = torch.zeros(_TRACE_BATCH, *input_shape)
    try:
        with _quiet(), _without_cycle_collection():
            program = torch.onnx.export(
                module,
                (example,),
                dynamo=True,
                optimize=False,
                opset_version=max(opset, _LOWEST_TRACED),
                dynamic_shapes=({0: torch.export.Dim("batch")},),
                input_names=[INPUT_NAME],
                output_names=[OUTPUT_NAME],
                verbose=False,
            )
    except Exception as error:  # the module's own code runs inside, which may raise anything
        reason = first_line(error)
        values = "its code decides by values, which no graph can (torch.where does): " if _BY_VALUE in reason else ""
        raise ExportError(f"the model cannot be traced: {values}{reason}") from error
    if program is None:
        raise ExportError("torch.onnx.export returned nothing")
    model = program.model
    for value in (*model.graph.inputs, *model.graph.outputs):  # torch fixes sizes without a word
        if value.shape is None or isinstance(value.shape[0], int):
            raise ExportError(f"the model fixes the batch size: {value.name} has the shape {value.shape}")
    model.graph.name = "vit_edge"
    model.producer_name, model.producer_version = "vit-edge", None
    return model


@contextmanager
def _quiet() -> Iterator[None]:
    """What torch tells of its own is kept back: notices, and whole graphs on stderr where tracing fails."""
    disabled = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings(), redirect_stderr(io.StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(disabled)


@contextmanager
def _without_cycle_collection() -> Iterator[None]:
    """Tracing makes millions of small objects and keeps them; looking for garbage among them takes a third of it."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
