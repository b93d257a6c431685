"""Probabilities in place of logits."""

import onnx_ir as ir

__all__ = ["AppendSoftmax"]


class AppendSoftmax(ir.passes.InPlacePass):
    """logits -> probabilities = Softmax(logits, axis=-1)."""

    def requires(self, model: ir.Model) -> None:
        """One output, so that it is clear which."""
        if len(model.graph.outputs) != 1:
            raise ir.passes.PreconditionError(f"expected one output, got {len(model.graph.outputs)}")

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        """Append one node."""
        graph = model.graph
        logits = graph.outputs[0]
        softmax = ir.node("Softmax", [logits], {"axis": -1}, name="softmax")
        probabilities = softmax.outputs[0]
        probabilities.name, probabilities.type, probabilities.shape = "probabilities", logits.type, logits.shape
        graph.append(softmax)
        graph.outputs[0] = probabilities
        return ir.passes.PassResult(model, modified=True)
