"""Graph passes, one a module; each is an `onnx_ir` pass and says "A -> B" in its docstring."""

from vit_edge.export.passes.append_softmax import AppendSoftmax
from vit_edge.export.passes.convert_opset import ConvertOpset
from vit_edge.export.passes.drop_full_slices import DropFullSlices
from vit_edge.export.passes.fix_batch import FixBatch
from vit_edge.export.passes.float_input import FloatInput
from vit_edge.export.passes.fold_constants import FoldConstants
from vit_edge.export.passes.forget_shapes import ForgetShapes
from vit_edge.export.passes.hoist_selection import HoistSelection
from vit_edge.export.passes.infer_shapes import InferShapes
from vit_edge.export.passes.keep_output import KeepOutput
from vit_edge.export.passes.name_tensors import NameTensors
from vit_edge.export.passes.onnxsim import OnnxSim

__all__ = [
    "AppendSoftmax",
    "ConvertOpset",
    "DropFullSlices",
    "FixBatch",
    "FloatInput",
    "FoldConstants",
    "ForgetShapes",
    "HoistSelection",
    "InferShapes",
    "KeepOutput",
    "NameTensors",
    "OnnxSim",
]
