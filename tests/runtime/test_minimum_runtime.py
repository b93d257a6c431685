"""The oldest runtime follows from opset and IR, and the IR is no newer than it has to be."""

import onnx
import pytest

from vit_edge.runtime.minimum_runtime import minimum_runtime, oldest_ir
from vit_edge.runtime.onnxfile import read


@pytest.mark.parametrize(
    ("opset", "ir", "expected_ir", "expected"),
    [
        (11, 6, 6, "1.0"),
        (11, 10, 6, "1.0"),
        (14, 7, 7, "1.8"),
        (17, 10, 8, "1.12"),
        (21, 10, 10, "1.18"),
        (9, 3, 4, "1.0"),
    ],
)
def test_oldest_that_runs_it(opset, ir, expected_ir, expected, tmp_path):
    text = f'<ir_version: {ir}, opset_import: ["" : {opset}]> g (float[N] x) => (float[N] y) {{ y = Abs (x) }}'
    onnx.save(onnx.parser.parse_model(text), tmp_path / "model.onnx")
    file = read(tmp_path / "model.onnx")
    assert oldest_ir(file, functions=False) == expected_ir
    assert minimum_runtime(file, expected_ir) == expected
    assert oldest_ir(file, functions=True) >= 8
