"""Values from a checkpoint's JSON: one that is absent or of the wrong kind is an error naming file and field.

A config.json is written by others, edited by hand, and sometimes hostile. Readers take every value through
`Fields`, so none of them has to expect a text where a number belongs.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar, overload

from vit_edge.checkpoints.errors import CheckpointError

__all__ = ["FLAG", "INTEGER", "NUMBER", "OBJECT", "PAIR", "TEXT", "TEXTS", "Fields", "Kind"]

T = TypeVar("T")
_LIMIT = 1 << 31


@dataclass(frozen=True, slots=True)
class Kind(Generic[T]):
    """A kind of value: its name for messages, and what reads it; None is "not of this kind"."""

    name: str
    read: Callable[[Any], T | None]


def _integer(value: object) -> int | None:
    return value if type(value) is int and abs(value) < _LIMIT else None


def _number(value: object) -> float | None:
    return float(value) if type(value) in (int, float) and abs(value) < _LIMIT else None  # type: ignore[arg-type]


def _pair(value: object) -> tuple[int, int] | None:
    sides = value if isinstance(value, list | tuple) else (value, value)
    if len(sides) != 2 or any(_integer(side) is None or side < 1 for side in sides):
        return None
    return sides[0], sides[1]


def _texts(value: object) -> tuple[str, ...] | None:
    return tuple(value) if isinstance(value, list) and all(isinstance(item, str) for item in value) else None


FLAG: Kind[bool] = Kind("true or false", lambda value: value if isinstance(value, bool) else None)
INTEGER: Kind[int] = Kind("a whole number", _integer)
NUMBER: Kind[float] = Kind("a number", _number)
OBJECT: Kind[Mapping[str, Any]] = Kind(
    "an object with named fields", lambda value: value if type(value) is dict else None
)
PAIR: Kind[tuple[int, int]] = Kind("one or two whole numbers above 0", _pair)
TEXT: Kind[str] = Kind("a text", lambda value: value if isinstance(value, str) else None)
TEXTS: Kind[tuple[str, ...]] = Kind("a list of texts", _texts)


@dataclass(frozen=True, slots=True)
class Fields:
    """A JSON object and the file it comes from. A field that is null counts as absent."""

    where: str
    values: Mapping[str, Any] = field(default_factory=dict)

    @overload
    def get(self, name: str, kind: Kind[T]) -> T | None: ...
    @overload
    def get(self, name: str, kind: Kind[T], default: T) -> T: ...
    def get(self, name: str, kind: Kind[T], default: T | None = None) -> T | None:
        """Read a field; the default where it is absent.

        Raises:
            CheckpointError: the value is of another kind.
        """
        value = self.values.get(name)
        if value is None:
            return default
        result = kind.read(value)
        if result is None:
            raise CheckpointError(f"{self.where}: {name} is {str(value)[:80]!r}, expected {kind.name}")
        return result

    def need(self, name: str, kind: Kind[T]) -> T:
        """Read a field that has to be there.

        Raises:
            CheckpointError: it is absent, or the value is of another kind.
        """
        result = self.get(name, kind)
        if result is None:
            raise CheckpointError(f"{self.where}: lacks {name}, expected {kind.name}")
        return result

    def inner(self, name: str) -> "Fields":
        """The fields of an object inside this one; none where it is absent."""
        return Fields(f"{self.where}: {name}", self.get(name, OBJECT, {}))
