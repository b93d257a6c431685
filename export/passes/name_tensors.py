"""Give tensors the names of the modules that compute them.

torch's exporter calls tensors `linear_13`, `val_42`. With module names, a tensor of the file can be compared with
the model's intermediate of the same name, layers can be chosen by name for quantization, and a graph viewer shows
the model's structure. The names come from the scopes that the exporter keeps with each node.
"""

import ast
from collections import Counter

import onnx_ir as ir

__all__ = ["NameTensors"]

_SCOPES = "pkg.torch.onnx.name_scopes"


class NameTensors(ir.passes.InPlacePass):
    """`linear_13` -> `blocks.1.mlp.fc2`; inside a module `blocks.1.mlp.fc2/MatMul`; a weight transposed -> `W.T`.

    The name of a module goes to the last tensor that is computed inside it; where that tensor is the last one of
    several nested modules, to the innermost. Graph inputs, outputs and initializers keep theirs.
    """

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        """Rename tensors and nodes; nothing that is computed changes."""
        graph = model.graph
        last_of = {scope: node for node in graph for scope in _modules(node)}  # later nodes win
        names_of = {node: scope for scope, node in last_of.items()}  # outer scopes come first: the innermost stays
        taken = Counter(value.name for value in (*graph.inputs, *graph.outputs, *graph.initializers.values()))
        for node in graph:
            scope = _modules(node)[-1] if _modules(node) else ""
            own = names_of.get(node, "")
            _rename(node, _free(own or _inner_name(node, scope), taken), keep=set(graph.outputs))
        return ir.passes.PassResult(model, modified=bool(names_of))


def _modules(node: ir.Node) -> list[str]:
    """The module names around a node, outermost first; the operator's own entry at the end is left out."""
    text = node.metadata_props.get(_SCOPES)
    scopes = ast.literal_eval(text) if text else []
    return [scope for scope in scopes[:-1] if scope and not scope.startswith("_empty")]


def _inner_name(node: ir.Node, scope: str) -> str:
    weight = node.inputs[0] if node.inputs else None
    if node.op_type == "Transpose" and weight is not None and weight.is_initializer():
        return f"{weight.name}.T"
    return f"{scope}/{node.op_type}" if scope else node.op_type


def _free(name: str, taken: Counter[str | None]) -> str:
    taken[name] += 1
    return name if taken[name] == 1 else _free(f"{name}_{taken[name] - 1}", taken)


def _rename(node: ir.Node, name: str, keep: set[ir.Value]) -> None:
    node.name = name
    for index, output in enumerate(node.outputs):
        if output not in keep:
            output.name = name if index == 0 else f"{name}:{index}"
