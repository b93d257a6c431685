"""Which of the rewrites that make a graph fast have fired in it, and where they did not."""

from dataclasses import dataclass
from typing import Any

import onnx_ir as ir

from vit_edge.export.passes.hoist_selection import split_name
from vit_edge.runtime.manifest import Manifest

__all__ = ["Rewrites", "find_rewrites"]


@dataclass(frozen=True, slots=True)
class Rewrites:
    """What a graph's attention looks like.

    Attributes:
        fused: attentions that are one `Attention` node.
        attentions: all of them; the others are MatMul, Softmax, MatMul.
        last_block: the tokens that the last one is computed for; [] for all.
    """

    fused: int
    attentions: int
    last_block: list[int]

    @classmethod
    def of(cls, manifest: Manifest) -> "Rewrites":
        """What the export noted."""
        noted: Any = manifest.provenance["rewrites"]
        return cls(**noted)

    def __str__(self) -> str:
        fused = f"attention fused {self.fused} of {self.attentions}"
        if not self.last_block:
            return f"{fused}; last block for all tokens: all are read"
        plural = "s" if len(self.last_block) > 1 else ""
        return f"{fused}; last block for token{plural} {', '.join(map(str, self.last_block))} alone"


def find_rewrites(graph: ir.Graph) -> Rewrites:
    """Look at a finished graph: nothing is assumed from the passes that ran."""
    found = [node for node in graph if node.op_type == "Attention" or _is_attention(node)]
    last = split_name(str(found[-1].outputs[0].name))[1] if found else []
    return Rewrites(sum(node.op_type == "Attention" for node in found), len(found), last)


def _is_attention(node: ir.Node) -> bool:
    """A Softmax whose result weighs values, as it is or through what quantizes it."""
    return node.op_type == "Softmax" and any("MatMul" in each.op_type for each in _behind(node, 4))


def _behind(node: ir.Node, steps: int) -> list[ir.Node]:
    found = [use.node for value in node.outputs for use in value.uses()]
    return found + [each for next_node in found for each in _behind(next_node, steps - 1)] if steps > 1 else found
