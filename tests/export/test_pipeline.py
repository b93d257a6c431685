"""The runner of passes: records, a failing pass named with those before it, and the order of the pipeline."""

import logging
from collections.abc import Callable

import onnx_ir as ir
import pytest
from onnx_ir.passes.common import IdentityEliminationPass

from vit_edge.export import simplify
from vit_edge.export.errors import PassError
from vit_edge.export.parity import Reference
from vit_edge.export.passes import ConvertOpset, FoldConstants, OnnxSim
from vit_edge.export.pipeline import SIMPLIFY, run_passes, simplification

TEXT = """
<ir_version: 10, opset_import: ["" : 20]>
net (float[batch, 3] x) => (float[batch, 3] out) {
    same = Identity (x)
    out = Neg (same)
}
"""


class Failing(ir.passes.InPlacePass):
    """Fails inside, or before it begins."""

    def __init__(self, error: Exception, *, before: bool = False) -> None:
        super().__init__()
        self.error, self.before = error, before

    def requires(self, model: ir.Model) -> None:
        if self.before:
            raise self.error

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        raise self.error


@pytest.mark.parametrize(
    "failing",
    [
        Failing(PassError("no luck")),
        Failing(ir.passes.PreconditionError("no luck"), before=True),
        Failing(ValueError("no luck")),  # what passes of other packages may raise
    ],
)
def test_failing_pass_is_named_with_those_before_it(failing: Failing) -> None:
    passes = [IdentityEliminationPass(), FoldConstants(), failing, OnnxSim()]
    expected = r"pass Failing failed after IdentityEliminationPass, FoldConstants: .*no luck"
    with pytest.raises(PassError, match=expected) as raised:
        run_passes(ir.from_onnx_text(TEXT), passes)
    assert "\n" not in str(raised.value)
    assert raised.value.__cause__ is not None


def test_records_tell_what_each_pass_did(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, logger="vit_edge.export.pipeline"):
        model, records = run_passes(ir.from_onnx_text(TEXT), [IdentityEliminationPass(), FoldConstants()])
    assert len(model.graph) == 1
    told = [(record.name, record.modified, record.nodes_before, record.nodes_after) for record in records]
    assert told == [("IdentityEliminationPass", True, 2, 1), ("FoldConstants", False, 1, 1)]
    assert all(record.milliseconds > 0 for record in records)
    assert "IdentityEliminationPass: modified True, nodes 2 -> 1" in caplog.text


def test_simplify_works_on_a_copy() -> None:
    model = ir.from_onnx_text(TEXT)
    assert len(simplify(model).graph) == 1
    assert len(model.graph) == 2


def test_opset_is_lowered_last_and_only_where_needed() -> None:
    model = ir.from_onnx_text(TEXT)
    assert simplification(model, 20) == SIMPLIFY
    longer = simplification(model, 17)
    assert longer[: len(SIMPLIFY)] == SIMPLIFY
    assert isinstance(longer[len(SIMPLIFY)], ConvertOpset)


def test_each_pass_keeps_the_models_numbers(traced: ir.Model, ref: Reference, assert_same: Callable[..., None]) -> None:
    """The small model after every pass: the same numbers, accepted by onnx's checker."""
    before = traced.clone()
    for each in SIMPLIFY:
        traced, (record,) = run_passes(traced, [each])
        if record.modified:
            assert_same(before, traced, {"images": ref.images[:3]})
    assert len(traced.graph) < len(before.graph)
    assert not run_passes(traced.clone(), SIMPLIFY)[1][0].modified, "nothing is left to simplify"
