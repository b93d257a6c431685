"""The nodes of an .onnx file's main graph, without the onnx package: what feeds what."""

import mmap
from dataclasses import dataclass
from pathlib import Path

from vit_edge.runtime.errors import ModelFileError
from vit_edge.runtime.protobuf import Message, Source, WireError

__all__ = ["Node", "read_nodes"]

_STANDARD = ("", "ai.onnx")


@dataclass(frozen=True, slots=True)
class Node:
    """One node: its operator, like "MatMul" or "com.microsoft::MatMulNBits", and the values it reads and gives."""

    op: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


def read_nodes(path: Path) -> tuple[Node, ...]:
    """The nodes in file order, which is one that they can run in.

    Args:
        path: A file that `onnxfile.read` accepts.

    Raises:
        ModelFileError: It cannot be read.
    """
    try:
        with (
            path.open("rb") as file,
            mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped,
            memoryview(mapped) as data,
        ):
            graph = Message(Source(data), slice(0, len(data))).message(7)
            return tuple(map(_node, graph.messages(1)))
    except OSError as error:
        raise ModelFileError(f"{path} cannot be read: {error.strerror or error}") from None
    except (ValueError, WireError) as error:  # ValueError: an empty file cannot be mapped
        raise ModelFileError(f"{path} {error}") from None


def _node(message: Message) -> Node:
    domain, op = message.text(7), message.text(4)
    name = op if domain in _STANDARD else f"{domain}::{op}"
    return Node(name, message.texts(1), message.texts(2))
