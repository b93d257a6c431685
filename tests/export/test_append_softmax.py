"""AppendSoftmax: logits -> probabilities."""

from collections.abc import Callable, Mapping

import numpy as np
import numpy.typing as npt
import onnx_ir as ir
import pytest

from vit_edge.export.errors import PassError
from vit_edge.export.passes import AppendSoftmax
from vit_edge.export.pipeline import run_passes

Array = npt.NDArray[np.float32]

TEXT = """
<ir_version: 10, opset_import: ["" : 20]>
net (float[batch, 3] x) => (float[batch, 3] logits) { logits = Neg (x) }
"""


def test_probabilities_take_the_place_of_logits(
    run_graph: Callable[..., list[Array]], feeds: Mapping[str, Array]
) -> None:
    model = ir.from_onnx_text(TEXT)
    result = AppendSoftmax()(model)
    assert result.modified
    (output,) = result.model.graph.outputs
    assert output.name == "probabilities"
    assert output.dtype == ir.DataType.FLOAT
    assert str(output.shape) == "[batch,3]"
    (logits,) = run_graph(ir.from_onnx_text(TEXT), feeds)
    (probabilities,) = run_graph(result.model, feeds)
    expected = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(probabilities, expected, rtol=1e-6)


def test_needs_one_output() -> None:
    model = ir.from_onnx_text(TEXT)
    model.graph.outputs.append(model.graph.outputs[0])
    with pytest.raises(PassError, match=r"AppendSoftmax failed after none: .*expected one output, got 2"):
        run_passes(model, [AppendSoftmax()])
