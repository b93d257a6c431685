"""Leave one output of several."""

import onnx_ir as ir

__all__ = ["KeepOutput"]


class KeepOutput(ir.passes.InPlacePass):
    """outputs a, b, c -> b; what only the others needed is left for `RemoveUnusedNodesPass`."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.name = name

    def requires(self, model: ir.Model) -> None:
        """The output is there."""
        names = [value.name for value in model.graph.outputs]
        if self.name not in names:
            raise ir.passes.PreconditionError(f"no output {self.name!r} among {names}")

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        """Drop the other outputs."""
        others = [value for value in model.graph.outputs if value.name != self.name]
        for value in others:
            model.graph.outputs.remove(value)
        return ir.passes.PassResult(model, modified=bool(others))
