"""What callers pass: whole numbers within bounds, and names of files. One line says what is wrong with them."""

import operator
import os
import re
import stat
from pathlib import Path

from vit_edge.runtime.errors import ConfigError

__all__ = ["file_path", "special_file", "url_problem", "whole_number"]


def whole_number(value: object, name: str, most: int | None = None) -> int:
    """The value as an int of at least 1; numpy's integers are taken, too, true and 1.0 are not.

    Raises:
        ConfigError: It is something else, or more than `most`.
    """
    try:
        number = 0 if isinstance(value, bool) else operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        number = 0
    if number < 1 or (most is not None and number > most):
        bounds = "1 or more" if most is None else f"1..{most}"
        raise ConfigError(f"got {name} {str(value)[:40]!s}, expected a whole number, {bounds}")
    return number


def url_problem(name: str) -> str | None:
    """What to say where a URL was given instead of a file."""
    if re.match(r"[A-Za-z][A-Za-z0-9+.-]+:/", name) and not os.path.lexists(name):
        return "is a URL, expected a file: download it first"
    return None


def file_path(value: object) -> Path:
    """The path of a model file that a caller gave.

    Raises:
        ConfigError: It is no path, or a URL.
    """
    name = os.fspath(value) if isinstance(value, str | os.PathLike) else None
    if not isinstance(name, str):
        raise ConfigError(f"got a {type(value).__name__}, expected the path of an .onnx file")
    problem = url_problem(name)
    if problem is not None:
        raise ConfigError(f"{name} {problem}")
    return Path(name)


def special_file(path: str | os.PathLike[str]) -> str | None:
    """What is there instead of a regular file, like "is a folder"; None for a regular one.

    Raises:
        OSError: It cannot be looked at.
    """
    try:
        mode = os.stat(path).st_mode
    except ValueError:  # a null character
        return "is no name of a file"
    except FileNotFoundError:
        return "is a link to a file that does not exist" if os.path.islink(path) else "does not exist"
    except NotADirectoryError:
        return "does not exist"
    kinds = {stat.S_IFDIR: "a folder", stat.S_IFIFO: "a pipe", stat.S_IFSOCK: "a socket"}
    if stat.S_ISREG(mode):
        return None
    return f"is {kinds.get(stat.S_IFMT(mode), 'a device')}, not a file"
