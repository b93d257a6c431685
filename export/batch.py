"""Is the batch of a foreign graph really dynamic? What is not, by node, and its repair."""

import re
from collections.abc import Callable
from pathlib import Path

import onnx_ir as ir
from onnx_ir.passes.common import RemoveUnusedNodesPass

from vit_edge.export.errors import ExportError, PassError
from vit_edge.export.nodewise import node_label
from vit_edge.export.parity import Reference, Tolerance, deviation
from vit_edge.export.passes import FixBatch
from vit_edge.export.passes.fix_batch import FIXED
from vit_edge.export.pipeline import run_passes
from vit_edge.runtime.errors import ModelFileError
from vit_edge.runtime.session import ORT_ERRORS, one_line, open_session

__all__ = ["batch_problem", "dynamic_batch"]

_BATCHES = (1, 3)
_MORE = 2  # images around those of the traced batch
# Of the largest element of a float32 tensor: far above its noise, far below what another image's pixels change.
_SAME = 1e-3
_ADVICE = "re-export it with a dynamic batch"
_NAMED = 5  # nodes in a message


def batch_problem(path: Path, ref: Reference, tolerance: Tolerance) -> str | None:
    """Run a graph at batch 1 and 3; each row must be what the image gives alone.

    Returns:
        What is wrong, in words; None where nothing is.
    """
    try:
        session = open_session(path, optimization="none")
    except ModelFileError as error:
        return str(error)
    name = session.get_inputs()[0].name
    for batch in _BATCHES:
        try:
            (outputs,) = session.run(None, {name: ref.images[:batch]})
        except ORT_ERRORS as error:
            return f"it does not run at batch {batch}: {_failing(error)}"
        if outputs.shape != (batch, *ref.single.shape[1:]):
            return f"it gives {outputs.shape} at batch {batch}, expected {(batch, *ref.single.shape[1:])}"
        worst = max(deviation(*rows)[0] for rows in zip(outputs, ref.single[:batch], strict=True))
        if worst > tolerance.max_abs:
            return f"an image's outputs change by {worst:.1e} at batch {batch}"
    return None


def _failing(error: Exception) -> str:
    """The node that onnxruntime names in its message, without the rest: paths and lines of its own source."""
    match = re.search(r"while running (\w+) node\. Name:'([^']*)'", str(error))
    return one_line(error) if match is None else f"{match[2] or 'a node without a name'} ({match[1]}) fails"


def dynamic_batch(
    graph: ir.Model,
    traced: int,
    ref: Reference,
    tolerance: Tolerance,
    *,
    save: Callable[[ir.Model], Path],
    declared: int | None,
    fix: bool,
) -> tuple[ir.Model, tuple[str, ...]]:
    """The graph, or its repaired copy; it then gives each image's own outputs at any batch.

    Args:
        graph: takes (batch, C, H, W) float32.
        traced: a batch size that it runs at.
        ref: images and what they give alone.
        tolerance: for the comparison with `ref`.
        save: writes a graph for onnxruntime.
        declared: the batch that the file's input has fixed.
        fix: repair what can be repaired.

    Returns:
        The graph and what was repaired, by node.

    Raises:
        ExportError: the batch is not dynamic and `fix` is false, or cannot be repaired.
    """
    problem = batch_problem(save(graph), ref, tolerance)
    if problem is None and declared is None:
        return graph, ()
    repairs = [f"input of fixed batch {declared}"] if declared is not None else []
    repaired = graph
    if problem is not None:
        images = ref.images[[i % len(ref.images) for i in range(traced + _MORE)]]
        repaired, nodes = _repair(graph, FixBatch(traced, images, max(_SAME, tolerance.max_abs)), problem)
        repairs += nodes
    if not fix:
        more = f" and {len(repairs) - _NAMED} more" if len(repairs) > _NAMED else ""
        raise ExportError(
            f"the batch is not dynamic, its size {traced} stands in: {'; '.join(repairs[:_NAMED])}{more}: "
            f"--fix-batch makes that follow the batch, or {_ADVICE}"
        )
    left = batch_problem(save(repaired), ref, tolerance)
    if left is not None:
        raise ExportError(f"the batch is not dynamic, and --fix-batch did not repair it: {left}; {_ADVICE}")
    return repaired, tuple(repairs)


def _repair(graph: ir.Model, fix_batch: FixBatch, problem: str) -> tuple[ir.Model, list[str]]:
    """A repaired copy, and what was repaired by node."""
    try:
        repaired, _ = run_passes(graph.clone(), (fix_batch, RemoveUnusedNodesPass()))
    except PassError as error:
        raise ExportError(f"the batch is not dynamic: {problem}; {error.__cause__ or error}") from error
    nodes = [
        f"{node_label(node)} {node.metadata_props[FIXED]}" for node in repaired.graph if FIXED in node.metadata_props
    ]
    if not nodes:
        raise ExportError(
            f"the graph does not give what the file gives: {problem}; "
            f"no size is baked in that can be repaired; {_ADVICE}"
        )
    return repaired, nodes
