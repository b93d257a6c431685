"""Take out slices that keep everything."""

import logging

import numpy as np
import onnx_ir as ir

from vit_edge.export.passes.constants import constant

__all__ = ["DropFullSlices"]

_log = logging.getLogger(__name__)
_WHOLE_AXIS = np.iinfo(np.int32).max  # exporters write INT64_MAX or INT32_MAX for "to the end"


class DropFullSlices(ir.passes.InPlacePass):
    """Slice(x, starts=0, ends=max, steps=1) -> x: what `x[:, 0]` leaves of its first axis."""

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        """Replace the slice's output by its input; a slice that makes a graph output stays."""
        graph = model.graph
        modified = False
        for node in list(graph):
            if node.op_type != "Slice" or node.domain not in ("", "ai.onnx") or not _keeps_all(node):
                continue
            source, result = node.inputs[0], node.outputs[0]
            if result.is_graph_output() or source is None:
                _log.debug("%s: its output is a graph output", node.name)
                continue
            ir.convenience.replace_all_uses_with(result, source)
            graph.remove(node, safe=True)
            modified = True
        return ir.passes.PassResult(model, modified=modified)


def _keeps_all(node: ir.Node) -> bool:
    starts, ends = constant(node, 1), constant(node, 2)
    steps = constant(node, 4) if len(node.inputs) > 4 else np.ones(1)
    if starts is None or ends is None or steps is None:
        _log.debug("%s: its bounds are not constants", node.name)
        return False
    return bool((starts == 0).all() and (ends >= _WHOLE_AXIS).all() and (steps == 1).all())
