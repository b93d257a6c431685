"""Tables and partitions against onnxruntime's own checker, where the graph has fixed shapes."""

import importlib.util
from pathlib import Path

import pytest

from vit_edge.doctor.operators import COREML, NNAPI

FOLDER = Path(importlib.util.find_spec("onnxruntime").origin).parent / "tools" / "mobile_helpers"


@pytest.mark.parametrize(
    ("name", "table"), [("nnapi_supported_ops.md", NNAPI), ("coreml_supported_mlprogram_ops.md", COREML)]
)
def test_tables_are_those_of_the_wheel(name, table):
    lines = [line.split("|")[1] for line in (FOLDER / name).read_text().splitlines() if line.startswith("|ai.onnx:")]
    listed = {line.removeprefix("ai.onnx:").replace("Argmax", "ArgMax") for line in lines}
    assert {op for op in table if "::" not in op} - {"Constant"} == listed
