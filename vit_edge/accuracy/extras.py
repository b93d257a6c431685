"""Packages of the extra `report`: imported where they are used, and named where they are missing."""

from importlib import import_module
from typing import Any

from vit_edge.runtime.errors import ConfigError

__all__ = ["report_package"]


def report_package(name: str) -> Any:
    """Import a package that only the page needs.

    Raises:
        ConfigError: It is not installed; one line says what to do.
    """
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        raise ConfigError(f"the page needs the package {error.name}: pip install 'vit-edge[report]'") from error
