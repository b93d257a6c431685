"""The protobuf wire format, read with every length checked: what `onnxfile` is built on.

A protobuf message is a list of records. Each has a *tag* (field number and wire type, as a varint) and a
payload: a varint (wire type 0), 8 bytes (1), a length and that many bytes (2) or 4 bytes (5). A varint is
little-endian, 7 bits a byte, with the top bit set in all bytes but the last.

The bytes are not trusted: lengths are compared with what is left, nothing is recursed into, and the number
of records read from one file is bounded.
"""

from collections import defaultdict
from collections.abc import Iterator
from typing import NamedTuple

__all__ = ["Message", "Record", "Source", "WireError", "records"]

_MAX_RECORDS = 500_000  # about 1 s of parsing; a ViT-L has some 30,000
_MAX_NUMBERS = 64  # in one repeated field: shapes are all that is read


class WireError(ValueError):
    """The bytes are not what they should be; the message goes after the file's name."""


class Record(NamedTuple):
    """One field of a message."""

    field: int
    start: int  # of the tag
    payload: int | slice  # a varint's value, or where the bytes lie
    end: int


def _varint(data: memoryview, at: int, end: int) -> tuple[int, int]:
    """The varint at `at` and where it ends."""
    value = 0
    for shift in range(0, 70, 7):
        if at >= end:
            raise WireError(f"is truncated or damaged: a number is cut off at byte {at}")
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80 and value < 1 << 64:
            return value, at
        if byte < 0x80:
            break
    raise WireError(f"is damaged: the number that ends at byte {at} has more than 64 bits")


def records(data: memoryview, span: slice) -> Iterator[Record]:
    """The records of the message that lies at `span`."""
    at, end = span.start, span.stop
    while at < end:
        tag, after = _varint(data, at, end)
        field, wire = tag >> 3, tag & 7
        if wire not in (0, 1, 2, 5) or not 0 < field < 1 << 29:
            raise WireError(f"is damaged: byte {at} starts no record (field {field}, wire type {wire})")
        payload: int | slice
        if wire == 0:
            payload, after = _varint(data, after, end)
        else:
            size = 8 if wire == 1 else 4
            if wire == 2:
                size, after = _varint(data, after, end)
            if size > end - after:
                there = f"{end - after} are there"
                raise WireError(f"is truncated or damaged: {size} bytes are due at byte {after}, {there}")
            payload = slice(after, after + size)
            after += size
        yield Record(field, at, payload, after)
        at = after


class Source:
    """The bytes all messages of one file lie in, and how many records may still be read."""

    def __init__(self, data: memoryview) -> None:
        self.data = data
        self.records_left = _MAX_RECORDS


class Message:
    """One message, its payloads by field number. Fields that are absent read as "", 0 or empty."""

    def __init__(self, source: Source, span: slice) -> None:
        self.source = source
        self._payloads: dict[int, list[int | slice]] = defaultdict(list)
        for record in records(source.data, span):
            self._payloads[record.field].append(record.payload)
            source.records_left -= 1
            if source.records_left < 0:
                raise WireError(f"is not accepted: it has more than {_MAX_RECORDS:,} records")

    def __contains__(self, field: int) -> bool:
        return field in self._payloads

    def spans(self, field: int) -> list[slice]:
        """Where the strings, bytes or messages of the field lie."""
        payloads = self._payloads.get(field, [])
        spans = [payload for payload in payloads if isinstance(payload, slice)]
        if len(spans) < len(payloads):
            raise WireError(f"is damaged: a field {field} holds a number where bytes belong")
        return spans

    def messages(self, field: int) -> "list[Message]":
        """All messages of the field."""
        return [Message(self.source, span) for span in self.spans(field)]

    def message(self, field: int) -> "Message":
        """The last message of the field."""
        return Message(self.source, (self.spans(field) or [slice(0, 0)])[-1])

    def text(self, field: int) -> str:
        """The last string of the field."""
        spans = self.spans(field)
        return self._decoded(spans[-1]) if spans else ""

    def texts(self, field: int) -> tuple[str, ...]:
        """All strings of the field."""
        return tuple(map(self._decoded, self.spans(field)))

    def _decoded(self, span: slice) -> str:
        try:
            return str(self.source.data[span], "utf-8")
        except UnicodeDecodeError:
            raise WireError(f"is damaged: the text at byte {span.start} is not UTF-8") from None

    def numbers(self, field: int) -> tuple[int, ...]:
        """All int64 of the field, packed or one a record."""
        numbers: list[int] = []
        for payload in self._payloads.get(field, ()):
            if isinstance(payload, int):
                numbers.append(payload)
            else:
                at = payload.start
                while at < payload.stop and len(numbers) <= _MAX_NUMBERS:
                    number, at = _varint(self.source.data, at, payload.stop)
                    numbers.append(number)
            if len(numbers) > _MAX_NUMBERS:
                raise WireError(f"is damaged: a field {field} holds more than {_MAX_NUMBERS} numbers")
        return tuple(number - (1 << 64) if number >> 63 else number for number in numbers)

    def number(self, field: int) -> int:
        """The last int64 of the field."""
        return (self.numbers(field) or (0,))[-1]
