"""Text files that appear whole or not at all."""

from pathlib import Path
from tempfile import TemporaryDirectory

from vit_edge.runtime.errors import ConfigError

__all__ = ["check_target", "write_text"]


def check_target(path: Path) -> None:
    """Refuse early what cannot be written later.

    Raises:
        ConfigError: The folder does not exist, or the path is a folder.
    """
    if not path.parent.is_dir():
        raise ConfigError(f"{path}: cannot be written: there is no folder {path.parent}")
    if path.is_dir():
        raise ConfigError(f"{path}: cannot be written: it is a folder")


def write_text(path: Path, text: str) -> None:
    """Write a text as UTF-8.

    Raises:
        ConfigError: It cannot be written there.
    """
    try:
        with TemporaryDirectory(prefix=f".{path.name}.", dir=path.parent) as folder:
            made = Path(folder) / path.name
            made.write_text(text, encoding="utf-8")
            made.replace(path)
    except OSError as error:
        raise ConfigError(f"{path}: cannot be written: {error.strerror or error}") from error
