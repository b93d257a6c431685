"""Damaged, hostile and foreign files: a result or a ModelFileError of one line, and soon."""

import os
import time

import numpy as np
import pytest

from vit_edge.runtime import onnxfile, protobuf
from vit_edge.runtime.errors import ModelFileError


def record(field, payload):
    """A length-delimited record."""
    return varint(field << 3 | 2) + varint(len(payload)) + payload


def varint(value):
    out = b""
    while value >= 0x80:
        out += bytes([value & 0x7F | 0x80])
        value >>= 7
    return out + bytes([value])


IR_VERSION = b"\x08\x08"
OPSET = record(8, b"\x10\x11")


@pytest.fixture
def write(tmp_path):
    def write_bytes(content, name="m.onnx"):
        path = tmp_path / name
        path.write_bytes(content)
        return path

    return write_bytes


def test_content_hash_of_nonsense():
    with pytest.raises(ModelFileError, match="the model is truncated or damaged"):
        onnxfile.content_sha256(b"\x3a\x7f")


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"\xff\xd8\xff\xe0\x00\x10JFIF", "is a JPEG image, not an ONNX file: the model comes first"),
        (b"\x89PNG\r\n\x1a\n", "is a PNG image, not an ONNX file: the model comes first"),
        (b"PK\x03\x04", "is not an ONNX file, but looks like a checkpoint: `vit-edge export`"),
        (b'\x90\x01\0\0\0\0\0\0{"a"', "is not an ONNX file, but looks like a checkpoint: `vit-edge export`"),
        (b"just text\n", "is not an ONNX file$"),
        (b"2 lines\n", "is not an ONNX file$"),
        (b"\n", "is not an ONNX file$"),
    ],
)
def test_other_files(write, content, problem):
    with pytest.raises(ModelFileError, match=rf"m\.onnx {problem}"):
        onnxfile.read(write(content))


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (IR_VERSION, "truncated: it has no IR version, no graph or no opset"),
        (IR_VERSION + b"\x3a\x05abc", "truncated or damaged: 5 bytes are due at byte 4, 3 are there"),
        (IR_VERSION + b"\x3a" + varint((1 << 64) - 1), "truncated or damaged: 18446744073709551615 bytes"),
        (IR_VERSION + b"\x3a", "truncated or damaged: a number is cut off at byte 3"),
        (IR_VERSION + b"\x10" + b"\xff" * 9 + b"\x02", "more than 64 bits"),
        (IR_VERSION + b"\x10" + b"\xff" * 10 + b"\x01", "more than 64 bits"),
        (IR_VERSION + b"\x3b\x3c", r"byte 2 starts no record \(field 7, wire type 3\)"),
        (IR_VERSION + b"\x02\x00", r"starts no record \(field 0, wire type 2\)"),
        (IR_VERSION + b"\x38\x01", "a field 7 holds a number where bytes belong"),
        (IR_VERSION + b"\x39" + bytes(7), "8 bytes are due at byte 3, 7 are there"),
        (IR_VERSION + record(7, b"") + record(8, record(1, b"\xff")), "is not UTF-8"),
        (IR_VERSION + record(7, b"") + OPSET + 2 * record(14, record(1, b"k")), "the key 'k' appears twice"),
        (IR_VERSION + record(7, record(5, b"\x08" + varint((1 << 64) - 5))) + OPSET, r"the shape \(-5,\)"),
        (IR_VERSION + record(7, record(5, b"\x08\x02" * 70)) + OPSET, "more than 64 numbers"),
        (IR_VERSION + record(7, record(5, record(1, b"\x02" * 70))) + OPSET, "more than 64 numbers"),
        (IR_VERSION + record(7, record(5, b"\x08\x02\x10\x01" + record(9, b"123"))) + OPSET, "3 of 8 bytes"),
    ],
)
def test_damage_is_named(write, content, problem):
    with pytest.raises(ModelFileError, match=problem) as caught:
        onnxfile.read(write(content))
    assert "\n" not in str(caught.value)


def test_truncated_at_every_byte(tiny, write):
    content = tiny.bytes()
    path = write(content)
    for size in reversed(range(1, content.index(b"vit_edge") - 20, 7)):
        os.truncate(path, size)
        with pytest.raises(ModelFileError):
            onnxfile.read(path)


def test_too_many_records_end_early(write, monkeypatch):
    monkeypatch.setattr(protobuf, "_MAX_RECORDS", 1000)
    many = b"\x28\x01" * 900
    onnxfile.read(write(IR_VERSION + record(7, b"") + OPSET + many))
    values = record(11, record(2, record(1, record(2, many[:-800])))) * 2  # each alone would do
    for content in (IR_VERSION + 2 * many, IR_VERSION + record(7, values) + OPSET):
        with pytest.raises(ModelFileError, match="more than 1,000 records"):
            onnxfile.read(write(content))


def test_deep_nesting_needs_no_recursion(write):
    graph = b""
    for _ in range(4000):
        graph = record(1, record(5, record(6, graph)))
    assert onnxfile.read(write(IR_VERSION + record(7, graph) + OPSET)).op_counts == {"": 1}


def test_fuzz(tiny, write):
    """Truncations, flipped bits, overwritten stretches and inserted bytes: a result or a ModelFileError."""
    content = tiny.bytes()
    path = write(content)
    rng = np.random.default_rng(0)
    slowest, refused = 0.0, []
    for _ in range(3000):
        spoiled = bytearray(content)
        kind = rng.integers(4)
        for at in rng.integers(0, 400, size=rng.integers(1, 6)):  # the graph's structure comes first
            if kind == 0:
                spoiled[at] ^= 1 << int(rng.integers(8))
            elif kind == 1:
                spoiled[at : at + 4] = rng.bytes(4)
            elif kind == 2:
                spoiled[at:at] = rng.bytes(3)
        if kind == 3:
            del spoiled[int(rng.integers(1, len(content))) :]
        with path.open("r+b") as file:  # which is faster than a new file
            file.write(spoiled)
            file.truncate()
        started = time.perf_counter()
        try:
            onnxfile.read(path)
        except ModelFileError as error:
            refused.append(str(error))
        slowest = max(slowest, time.perf_counter() - started)
    assert len(refused) > 1500
    assert not any("\n" in message for message in refused)
    assert slowest < 1
