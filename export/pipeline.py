"""The order of passes between the traced graph and the file, and the runner that applies them."""

import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass

import onnx_ir as ir
from onnx_ir.passes.common import ClearMetadataAndDocStringPass, RemoveUnusedNodesPass

from vit_edge.export.errors import PassError
from vit_edge.export.passes import ConvertOpset, DropFullSlices, FoldConstants, HoistSelection, NameTensors, OnnxSim

__all__ = ["PREPARE", "SIMPLIFY", "PassRecord", "run_passes", "simplification", "simplify"]

_log = logging.getLogger(__name__)

# Directly behind the exporter: keep its scopes as names, then drop them (they hold source paths of this machine).
PREPARE: tuple[ir.passes.PassBase, ...] = (NameTensors(), ClearMetadataAndDocStringPass())

# What each of them gives, and why in this order: docs/passes.md.
SIMPLIFY: tuple[ir.passes.PassBase, ...] = (
    OnnxSim(),
    FoldConstants(),
    DropFullSlices(),
    HoistSelection(),
    RemoveUnusedNodesPass(),
)


@dataclass(frozen=True, slots=True)
class PassRecord:
    """What one pass did: for logs, the manifest and the documentation's table."""

    name: str
    modified: bool
    nodes_before: int
    nodes_after: int
    milliseconds: float


def _one_line(error: Exception) -> str:
    text = next((line.strip() for line in str(error).splitlines() if line.strip()), "no message")
    return text if isinstance(error, PassError | ir.passes.PassError) else f"{type(error).__name__}: {text}"


def run_passes(model: ir.Model, passes: Sequence[ir.passes.PassBase]) -> tuple[ir.Model, list[PassRecord]]:
    """Apply passes in order.

    Args:
        model: changed in place where a pass works in place.
        passes: `onnx_ir` passes.

    Raises:
        PassError: a pass failed; it is named, with those that ran before it.
    """
    records: list[PassRecord] = []
    for each in passes:
        name, before, start = type(each).__name__, len(model.graph), time.perf_counter()
        try:
            result = each(model)
        except Exception as error:  # passes of other packages raise what they like
            done = ", ".join(record.name for record in records) or "none"
            raise PassError(f"pass {name} failed after {done}: {_one_line(error)}") from error
        model = result.model
        took = 1000 * (time.perf_counter() - start)
        records.append(PassRecord(name, result.modified, before, len(model.graph), took))
        _log.info("%s: modified %s, nodes %d -> %d, %.0f ms", name, result.modified, before, len(model.graph), took)
    return model, records


def simplify(model: ir.Model, passes: Sequence[ir.passes.PassBase] = SIMPLIFY) -> ir.Model:
    """Simplify a copy of a graph; the numbers stay the same up to rounding.

    Example:
        >>> simplified = simplify(ir.load("model.onnx"))  # doctest: +SKIP
    """
    return run_passes(model.clone(), passes)[0]


def simplification(model: ir.Model, opset: int) -> tuple[ir.passes.PassBase, ...]:
    """`SIMPLIFY`, and behind it what brings a graph down to an opset older than torch's exporter writes.

    The version converter wants axes as initializers, so it comes after the folding.
    """
    if model.opset_imports[""] == opset:
        return SIMPLIFY
    return (*SIMPLIFY, ConvertOpset(opset))
