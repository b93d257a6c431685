"""Class names from a file."""

import json
from collections.abc import Mapping
from pathlib import Path

from vit_edge.runtime.errors import ConfigError

__all__ = ["read_labels", "read_names"]

_MAX_BYTES = 16 << 20


def read_labels(path: str | Path, classes: int) -> tuple[str, ...]:
    """Read class names: one a line, or a JSON list, or a JSON object from index to name.

    Args:
        path: UTF-8 text.
        classes: how many the model has.

    Raises:
        ConfigError: the file cannot be read, or has another number of names.
    """
    names = read_names(path)
    if len(names) != classes:
        raise ConfigError(f"labels {path}: got {len(names)} names, the model has {classes} classes")
    return names


def read_names(path: str | Path) -> tuple[str, ...]:
    """Read class names, however many there are; see `read_labels`."""
    path = Path(path)
    try:
        if path.stat().st_size > _MAX_BYTES:
            raise ConfigError(f"labels {path}: larger than {_MAX_BYTES >> 20} MiB, not a list of names")
        text = path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise ConfigError(f"labels {path}: cannot be read ({error.strerror})") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"labels {path}: not UTF-8 text") from error
    return tuple(_parse(path, text))


def _parse(path: Path, text: str) -> list[str]:
    if not text.lstrip().startswith(("[", "{")):
        return [line.strip() for line in text.rstrip().splitlines()]
    try:
        content = json.loads(text)
        if isinstance(content, Mapping):
            content = [content[str(i)] for i in range(len(content))]
    except (ValueError, KeyError, RecursionError) as error:
        raise ConfigError(f"labels {path}: not a JSON list, nor an object with keys 0..n-1 ({error})") from error
    for index, name in enumerate(content):
        if not isinstance(name, str | int):
            raise ConfigError(f"labels {path}: name {index} is {str(name)[:80]}, expected a text")
    return [str(name) for name in content]
