"""Where a model file can run: a verdict for each kind of device, from its operators alone.

Attributes and shapes can keep further nodes from a provider, so these are upper bounds: what counts is a measurement
on the device.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from os import PathLike
from typing import Literal

from vit_edge.doctor.operators import COREML, NNAPI, QNN, WEBGPU, XNNPACK
from vit_edge.doctor.partitions import count_partitions
from vit_edge.runtime import onnxfile
from vit_edge.runtime.minimum_runtime import minimum_runtime
from vit_edge.runtime.nodes import Node, read_nodes
from vit_edge.runtime.onnxfile import OnnxFile

__all__ = ["Verdict", "verdicts"]

_CPU_DOMAINS = ("ai.onnx.ml", "com.microsoft")
_FEW = 2  # pieces: with more, tensors travel between the device and the CPU all the time
_MOST = 0.9  # of the nodes
_FIXED_SHAPES = ("coreml", "nnapi", "qnn")
_PROVIDERS: Mapping[str, frozenset[str]] = {
    "xnnpack": XNNPACK,
    "nnapi": NNAPI,
    "coreml": COREML,
    "qnn": QNN,
    "webgpu": WEBGPU,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """One target: "runs" whole or nearly, "splits" into pieces with the CPU's between them, or "fails"."""

    target: str
    status: Literal["runs", "splits", "fails"]
    minimum: str  # the oldest onnxruntime (onnxruntime-web for wasm and webgpu)
    nodes: int
    taken: int  # nodes whose operators the target has
    fallback: Mapping[str, int]  # operators that it lacks, and how many of each: the CPU runs them
    partitions: int  # pieces of the graph that the target runs
    advice: str


def verdicts(path: str | PathLike[str]) -> tuple[Verdict, ...]:
    """Judge an .onnx file, with or without a manifest.

    Raises:
        ModelFileError: It cannot be read.
    """
    file = onnxfile.read(path, foreign=True)
    nodes = read_nodes(file.path)
    minimum = minimum_runtime(file, file.ir_version)
    plain = [_plain(target, nodes, minimum) for target in ("cpu", "wasm")]
    return (*plain, *(_provider(target, file, nodes, minimum) for target in _PROVIDERS))


def _plain(target: str, nodes: tuple[Node, ...], minimum: str) -> Verdict:
    """A target with all operators of onnxruntime's own."""
    unknown = Counter(node.op for node in nodes if "::" in node.op and node.op.split("::")[0] not in _CPU_DOMAINS)
    package = "onnxruntime" if target == "cpu" else "onnxruntime-web"
    return Verdict(
        target=target,
        status="fails" if unknown else "runs",
        minimum=minimum,
        nodes=len(nodes),
        taken=len(nodes) - unknown.total(),
        fallback=dict(unknown),
        partitions=1,
        advice="needs a library of custom operators" if unknown else f"{package} {minimum} or newer",
    )


def _provider(target: str, file: OnnxFile, nodes: tuple[Node, ...], minimum: str) -> Verdict:
    """A target that leaves to the CPU what it lacks."""
    operators = _PROVIDERS[target]
    fallback = Counter(node.op for node in nodes if node.op not in operators)
    taken, partitions = len(nodes) - fallback.total(), count_partitions(nodes, operators)
    good = partitions <= _FEW and taken >= _MOST * len(nodes)
    return Verdict(
        target=target,
        status="runs" if good else "splits",
        minimum=minimum,
        nodes=len(nodes),
        taken=taken,
        fallback=dict(fallback.most_common()),
        partitions=partitions,
        advice=_advice(target, file, fallback, good=good),
    )


def _advice(target: str, file: OnnxFile, fallback: Mapping[str, int], *, good: bool) -> str:
    """What to do."""
    advice = []
    if "Attention" in fallback:
        advice.append("export with --opset 20: attention is then MatMul and Softmax")
    if any("MatMulInteger" in op for op in fallback):
        advice.append("quantize with --scheme int8-qdq: standard operators")
    if not good and not advice:
        advice.append("use the CPU")
    if target == "qnn" and "QuantizeLinear" not in file.op_counts:
        advice.append("its NPU wants int8-qdq")
    if target in _FIXED_SHAPES and any(isinstance(side, str) for value in file.inputs for side in value.shape):
        advice.append("fix the batch size (onnxruntime.tools.make_dynamic_shape_fixed), then adopt the file")
    return "; ".join(advice) or "measure it on the device"
