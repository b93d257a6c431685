"""Where a file is to be written: what speaks against it is found out before any work is done, and without torch."""

import os
from pathlib import Path

__all__ = ["is_same_file", "place_problem"]


def place_problem(output: Path) -> str | None:
    """Why no `.onnx` file can be written there; None where it can."""
    try:
        output.name.encode()
    except UnicodeEncodeError:
        return f"{output}: the output's name is not UTF-8 text"
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
