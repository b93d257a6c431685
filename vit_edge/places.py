"""Where a file is to be written: what speaks against it is found out before any work is done, and without torch."""

import os
from pathlib import Path

from vit_edge.runtime.text import NOT_UTF8, is_utf8

__all__ = ["NOT_UTF8", "is_same_file", "is_utf8", "place_problem"]


def place_problem(output: Path) -> str | None:
    """Why no `.onnx` file can be written there; None where it can."""
    if not is_utf8(output):
        return f"{output}: {NOT_UTF8}"
    if output.suffix != ".onnx":
        return f"{output}: the output's name must end in .onnx"
    if output.is_dir():
        return f"{output}: is a folder, expected a file name"
    if not output.parent.is_dir():
        return f"{output.parent}: no such folder; create it first"
    if not os.access(output.parent, os.W_OK):
        return f"{output.parent}: the folder is not writable"
    return None


def is_same_file(source: str | Path, output: Path) -> bool:
    """Whether the output would replace what it is made from."""
    try:
        return output.samefile(source)
    except OSError:  # one of them does not exist, or is no path at all
        return False
