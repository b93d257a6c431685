"""Text out of files on its way to a terminal, to JSON or to a library in C++: it may hold anything."""

import json
import os

__all__ = ["NOT_UTF8", "is_utf8", "printable", "shortened", "to_json"]

NOT_UTF8 = "the path is not UTF-8 text, which onnxruntime and safetensors cannot open; rename it"


def printable(text: str, *, keep: str = "") -> str:
    r"""The text as one line that no terminal acts on.

    Control and format characters, newlines and bytes that are no text become U+FFFD, but for those in `keep`.

    Example:
        >>> printable("red\x1b[31m\n")
        'red�[31m�'
    """
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() or each in keep else "\ufffd" for each in text)


def shortened(text: str, most: int) -> str:
    """The text, its middle left out where it has more than `most` characters."""
    if len(text) <= most:
        return text
    tail = most // 3
    return f"{text[: most - tail - 1]}…{text[-tail:]}"


def to_json(value: object, *, indent: int | None = None) -> str:
    r"""JSON to read and to parse: letters of all scripts as they are, what a terminal could act on as \uXXXX.

    Names of files that are not UTF-8 come back from it as Python has them, with surrogate escapes.
    """
    text = json.dumps(value, ensure_ascii=False, indent=indent)
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() or each == "\n" else json.dumps(each)[1:-1] for each in text)


def is_utf8(path: str | os.PathLike[str]) -> bool:
    """Whether the bytes of a path are text: libraries in C++ take no others."""
    try:
        os.fspath(path).encode()
    except UnicodeEncodeError:
        return False
    return True
