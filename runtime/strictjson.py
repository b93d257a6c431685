"""JSON with nothing left to chance: canonical text out, and dataclasses in, by their annotations.

`loads` and `decode` refuse what a careless reader would let pass: keys that appear twice, NaN and infinity,
numbers too large for a float, unknown or missing keys and wrong types (`true` is no number, 1.0 is no int).
"""

import dataclasses
import json
import math
from collections.abc import Mapping
from types import UnionType
from typing import Literal, NoReturn, TypeVar, Union, cast, get_args, get_origin, get_type_hints

__all__ = ["JsonError", "decode", "dumps", "loads"]

T = TypeVar("T")

_NAMES = {type(None): "null", bool: "a boolean", int: "an integer", float: "a number", str: "a text"}
_NAMES |= {list: "a list", dict: "an object"}


class JsonError(ValueError):
    """The text or the value is not what it should be."""


def _plain(value: object) -> object:
    """Dataclasses as dictionaries, tuples as lists."""
    if hasattr(value, "to_dict"):
        value = value.to_dict()
    if dataclasses.is_dataclass(value):
        return {field.name: _plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, list | tuple) else value


def dumps(value: object) -> str:
    """The canonical JSON of dataclasses, mappings, sequences and plain values: sorted keys, no spaces."""
    try:
        plain = _plain(value)
        return json.dumps(plain, ensure_ascii=False, allow_nan=False, sort_keys=True, separators=(",", ":"))
    except (TypeError, ValueError) as error:
        raise JsonError(f"it holds what JSON cannot: {error}") from None


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    mapping = dict(pairs)
    if len(mapping) < len(pairs):
        keys = [key for key, _ in pairs]
        raise JsonError(f"the key {next(key for key in keys if keys.count(key) > 1)[:80]!r} appears twice")
    return mapping


def _not_finite(text: str) -> NoReturn:
    raise JsonError(f"{text[:40]} is no finite number")


def _finite(text: str) -> float:
    number = float(text)
    return number if math.isfinite(number) else _not_finite(text)


def loads(text: str, *, max_characters: int) -> object:
    """Parse a JSON text of bounded length."""
    if len(text) > max_characters:
        raise JsonError(f"it has {len(text):,} characters, {max_characters:,} are allowed")
    try:
        value: object = json.loads(text, object_pairs_hook=_unique, parse_constant=_not_finite, parse_float=_finite)
    except JsonError:
        raise
    except (ValueError, RecursionError) as error:
        raise JsonError(f"it is not JSON: {error}") from None
    return value


def decode(kind: type[T], value: object, where: str = "") -> T:
    """Turn a JSON value into `kind`.

    Args:
        kind: A dataclass whose fields are dataclasses, `tuple[X, ...]`, `Mapping[str, X]`, `Literal`,
            `X | None`, `bool`, `int`, `float`, `str`, or `object` for any JSON. A class with
            `from_dict` decodes itself (and encodes itself by `to_dict`).
        value: What `loads` gave.
        where: The path of the value, for messages.

    Raises:
        JsonError: The value is not exactly that. Whatever the classes raise passes through.
    """
    return cast("T", _decode(kind, value, where))


def _decode(kind: object, value: object, where: str) -> object:
    origin, arguments = get_origin(kind), get_args(kind)
    if kind is object:
        return value
    if origin in (Union, UnionType):
        (inner,) = (argument for argument in arguments if argument is not type(None))
        return None if value is None else _decode(inner, value, where)
    if origin is Literal:
        if not isinstance(value, str) or value not in arguments:
            raise JsonError(f"{where} is {str(value)[:80]!r}, expected one of {', '.join(arguments)}")
        return value
    if origin is tuple:
        items = _expect(list, value, where)
        return tuple(_decode(arguments[0], item, f"{where}[{index}]") for index, item in enumerate(items))
    if origin is Mapping:
        return {key: _decode(arguments[1], item, f"{where}.{key}") for key, item in _expect(dict, value, where).items()}
    if isinstance(kind, type) and hasattr(kind, "from_dict"):
        return kind.from_dict(_expect(dict, value, where))
    if isinstance(kind, type) and dataclasses.is_dataclass(kind):
        return _decode_dataclass(kind, _expect(dict, value, where), where)
    return _decode_plain(kind, value, where)


def _expect(kind: type[T], value: object, where: str) -> T:
    if type(value) is not kind:
        got = _NAMES.get(type(value), type(value).__name__)
        raise JsonError(f"{where or 'the whole'} is {got}, expected {_NAMES[kind]}")
    return value


def _decode_plain(kind: object, value: object, where: str) -> object:
    if kind is float and type(value) is int:
        if abs(value) > 1 << 1000:
            raise JsonError(f"{where} is too large a number")
        return float(value)
    if kind is str and type(value) is str:
        try:
            value.encode()
        except UnicodeEncodeError:
            raise JsonError(f"{where} is {value[:80]!r}, which is not Unicode text") from None
    assert kind in (bool, int, float, str), kind
    return _expect(cast("type[object]", kind), value, where)


def _decode_dataclass(kind: type, value: dict[str, object], where: str) -> object:
    fields = dataclasses.fields(kind)
    required = [field.name for field in fields if field.default is dataclasses.MISSING]
    missing = [name for name in required if name not in value]
    unknown = sorted(value.keys() - {field.name for field in fields})
    for problem, names in (("lacks", missing), ("has the unknown", unknown)):
        if names:
            raise JsonError(f"{where or 'the whole'} {problem} {', '.join(names)[:200]!r}")
    hints = get_type_hints(kind)
    prefix = f"{where}." if where else ""
    return kind(**{name: _decode(hints[name], item, prefix + name) for name, item in value.items()})
