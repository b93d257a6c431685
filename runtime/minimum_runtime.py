"""The oldest onnxruntime that runs a graph, and the oldest intermediate representation (IR) that may hold it."""

from collections.abc import Mapping

from vit_edge.runtime.onnxfile import OnnxFile

__all__ = ["BY_OPSET", "minimum_runtime", "oldest_ir"]

# The first onnxruntime whose CPU provider runs each opset. From 19 on it is the oldest that was seen to run our files;
# 17 and 18 were seen with 1.15, the oldest for Python 3.11, and stand here with those before them as documented:
# https://onnxruntime.ai/docs/reference/compatibility.html. That page has 1.15 for opset 19, which lacks Shape-19, and
# 1.20 for opset 22, which refuses to load it.
BY_OPSET: Mapping[int, str] = {
    12: "1.3", 13: "1.6", 14: "1.8", 15: "1.9", 16: "1.12",
    17: "1.12", 18: "1.14", 19: "1.16", 20: "1.17", 21: "1.18", 22: "1.21", 23: "1.23", 24: "1.24",
}  # fmt: skip
_OLDEST = "1.0"  # opset 7 to 11
_BY_IR: Mapping[int, str] = {7: "1.3", 8: "1.9", 9: "1.15", 10: "1.18"}
# https://github.com/onnx/onnx/blob/main/docs/Versioning.md, "Released versions": the IR that came with each opset.
_IR_OF_OPSET: Mapping[int, int] = {
    **dict.fromkeys(range(1, 10), 4), 10: 5, 11: 6, 12: 7, 13: 7, 14: 7, 15: 8, 16: 8, 17: 8, 18: 8, 19: 9, 20: 9,
}  # fmt: skip
_NEWEST_IR = 10
_FUNCTIONS_IR = 8  # the first with functions in a model
_INITIALIZERS_IR = 4  # the first whose initializers need not be inputs


def oldest_ir(file: OnnxFile, *, functions: bool) -> int:
    """The IR that a graph's opset came with, or the file's own where that is older: newer ones only shut runtimes out.

    Args:
        file: a file that onnxruntime loads.
        functions: the model defines operators of its own.
    """
    needed = max(_INITIALIZERS_IR, _FUNCTIONS_IR if functions else 0)
    return max(needed, min(file.ir_version, _IR_OF_OPSET.get(_opset(file), _NEWEST_IR)))


def minimum_runtime(file: OnnxFile, ir_version: int) -> str:
    """The oldest onnxruntime for an opset and an IR, like "1.12".

    Operators of other domains than ONNX's own may need a newer one; no table says which.
    """
    versions = (BY_OPSET.get(_opset(file), _OLDEST), _BY_IR.get(ir_version, _OLDEST))
    return max(versions, key=lambda version: tuple(map(int, version.split("."))))


def _opset(file: OnnxFile) -> int:
    return file.opsets.get("", file.opsets.get("ai.onnx", 0))
