"""Frozen configuration records to JSON and back: unknown, missing and mistyped fields are refused."""

import dataclasses
import types
from collections.abc import Mapping
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from vit_edge.runtime.errors import ConfigError

__all__ = ["from_json", "to_json"]

T = TypeVar("T")


def to_json(record: Any) -> dict[str, Any]:
    """The JSON form of a dataclass: tuples become lists, records inside it objects."""
    return {name: _plain(value) for name, value in dataclasses.asdict(record).items()}


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _plain(item) for name, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, list | tuple) else value


def from_json(cls: type[T], fields: Mapping[str, Any]) -> T:
    """Read the JSON form of a dataclass.

    Raises:
        ConfigError: a key is unknown or missing, or a value has the wrong type.
    """
    hints = get_type_hints(cls)
    unknown = sorted(map(str, set(fields) - set(hints)))
    if unknown:
        raise ConfigError(f"unknown configuration keys: {', '.join(unknown)[:200]}")
    values = {key: _typed(key, value, hints[key]) for key, value in fields.items()}
    try:
        return cls(**values)
    except TypeError as error:
        raise ConfigError(f"incomplete configuration: {error}") from error


def _typed(key: str, value: Any, hint: Any) -> Any:
    """Check one JSON value against the type of its field; lists become tuples."""
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):  # X | None
        return None if value is None else _typed(key, value, next(a for a in arguments if a is not types.NoneType))
    if dataclasses.is_dataclass(hint) and isinstance(hint, type) and isinstance(value, Mapping):
        return from_json(hint, value)
    if origin is tuple and isinstance(value, list | tuple):
        items = arguments[:1] * len(value) if arguments[-1] is Ellipsis else arguments
        if len(items) == len(value):
            return tuple(_typed(key, item, of) for item, of in zip(value, items, strict=True))
    if origin is Literal:
        if value not in arguments:
            raise ConfigError(f"{key} must be one of {', '.join(arguments)}, got {str(value)[:80]!r}")
        return value
    accepted: Any = int | float if hint is float else hint
    if origin is tuple or not isinstance(value, accepted) or isinstance(value, bool) != (hint is bool):
        raise ConfigError(f"{key} must be {getattr(hint, '__name__', hint)}, got {str(value)[:80]!r}")
    return value
