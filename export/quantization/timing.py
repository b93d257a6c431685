"""How long each layer of a graph takes here, from onnxruntime's own profile: for tables, not for comparisons."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import numpy.typing as npt
import onnx_ir as ir
import onnxruntime

from vit_edge.export.model_file import save
from vit_edge.runtime.threads import usable_threads

__all__ = ["node_milliseconds", "of_layers"]

_RUNS, _DROPPED = 12, 2


def node_milliseconds(model: ir.Model, image: npt.NDArray[np.float32]) -> dict[str, float]:
    """Median time of each node, by name, as onnxruntime runs them.

    Args:
        model: a graph.
        image: (C, height, width) float32, normalised.
    """
    with TemporaryDirectory() as folder:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = usable_threads()
        options.log_severity_level = 4
        options.enable_profiling = True
        options.profile_file_prefix = str(Path(folder) / "profile")
        path = save(model, Path(folder) / "graph.onnx")
        session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
        name = session.get_inputs()[0].name
        for _ in range(_RUNS):
            session.run(None, {name: image[None]})
        events = json.loads(Path(session.end_profiling()).read_text(encoding="utf-8"))
    times: dict[str, list[float]] = {}
    for event in events:
        if event.get("cat") == "Node" and event["name"].endswith("_kernel_time"):
            times.setdefault(event["name"].removesuffix("_kernel_time"), []).append(event["dur"] / 1000)
    return {name: float(np.median(each[_DROPPED:])) for name, each in times.items() if len(each) > _DROPPED}


def of_layers(times: Mapping[str, float], layers: Iterable[str]) -> float:
    """The time of all nodes that are named after these layers."""
    starts = tuple(layers)
    return sum(
        each
        for name, each in times.items()
        if any(name == start or name.startswith((f"{start}/", f"{start}.")) for start in starts)
    )
