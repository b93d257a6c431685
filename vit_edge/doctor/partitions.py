"""How an execution provider cuts a graph into pieces: a provider's piece, the CPU's, and so on."""

from collections import deque
from collections.abc import Sequence, Set

from vit_edge.runtime.nodes import Node

__all__ = ["count_partitions"]


def count_partitions(nodes: Sequence[Node], operators: Set[str]) -> int:
    """The number of pieces that a provider runs.

    Nodes are taken in waves, as onnxruntime's `core/providers/partitioning_utils.cc` does: one wave takes all nodes
    that can run without an operator that the provider lacks and that reads from the wave's own; the next begins there.

    Args:
        nodes: The graph.
        operators: What the provider has.
    """
    maker = {value: i for i, node in enumerate(nodes) for value in node.outputs if value}
    sources = [{maker[value] for value in node.inputs if value in maker} for node in nodes]
    readers: list[list[int]] = [[] for _ in nodes]
    for i, each in enumerate(sources):
        for source in each:
            readers[source].append(i)
    waiting = [len(each) for each in sources]
    ready = deque(i for i, count in enumerate(waiting) if count == 0)
    later: deque[int] = deque()
    border: set[int] = set()
    partitions, piece = 0, False
    while ready or later:
        if not ready:
            partitions, piece = partitions + piece, False
            border.clear()
            ready, later = later, ready
            continue
        i = ready.popleft()
        taken = nodes[i].op in operators
        if not taken and i in border:
            later.append(i)
            continue
        piece = piece or taken
        for reader in readers[i]:
            if taken:
                border.add(reader)
            waiting[reader] -= 1
            if waiting[reader] == 0:
                ready.append(reader)
    return partitions + piece
