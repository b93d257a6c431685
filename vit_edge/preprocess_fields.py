"""Reads the fields of the peers' preprocessing configs; a wrong value is a `ConfigError` naming the field."""

from statistics import fmean
from typing import TypeAlias

from vit_edge.runtime.errors import ConfigError

Size: TypeAlias = int | tuple[int, int]


def refusal(field: str, got: object, expected: str) -> ConfigError:
    """Return the error for a field that cannot be used."""
    return ConfigError(
        f"preprocessing config: {field} is {str(got)[:80]}, expected {expected}; correct the file or choose a preset"
    )


def as_pair(size: object, field: str = "size") -> tuple[int, int]:
    """Return (height, width) of a size given as one side or as two."""
    sides = size if isinstance(size, list | tuple) else (size, size)
    if len(sides) == 2:
        height, width = sides
        if type(height) is int and type(width) is int and height > 0 and width > 0:
            return height, width
    raise refusal(field, size, "one or two whole numbers above 0")


def number(value: object, field: str) -> float:
    """Return a finite number."""
    if isinstance(value, int | float) and not isinstance(value, bool) and -1e12 < value < 1e12:
        return float(value)
    raise refusal(field, value, "a finite number")


def positive(value: object, field: str) -> float:
    """Return a finite number above 0."""
    if number(value, field) <= 0:
        raise refusal(field, value, "a number above 0")
    return number(value, field)


def per_channel(value: object, channels: int, field: str) -> tuple[float, ...]:
    """Return one number a channel: a single one holds for all, and grey takes the mean of three."""
    values = value if isinstance(value, list | tuple) else [value]
    numbers = [number(item, field) for item in values]
    if len(numbers) == 3 and channels == 1:
        return (fmean(numbers),)
    if len(numbers) not in (1, channels):
        raise refusal(field, value, f"{channels} numbers, one a channel")
    return tuple(numbers) if len(numbers) == channels else (numbers[0],) * channels
