"""Files whose headers declare what is not there: they are refused before memory is taken."""

import json
import struct
import tracemalloc
import zipfile

import pytest
import torch

from vit_edge.checkpoints.reading import read


def header(**tensors):
    text = json.dumps(tensors).encode()
    return struct.pack("<Q", len(text)) + text


def described(shape, end, dtype="F32"):
    return {"dtype": dtype, "shape": shape, "data_offsets": [0, end]}


@pytest.mark.parametrize(
    "content",
    [
        header(a=described([10**15], 4)) + bytes(4),
        header(a=described([4], 16)),
        header(a=described([2], 8), b=described([2], 8)) + bytes(8),
        header(a=described([1], 4, dtype="F31")) + bytes(4),
        header(a=described([-1], 4)) + bytes(4),
        struct.pack("<Q", 2) + b'{"',
    ],
    ids=["huge shape", "no data", "overlapping", "unknown type", "negative", "no JSON"],
)
def test_lying_safetensors_headers_are_refused(content, tmp_path, refused):
    (tmp_path / "model").write_bytes(content)
    assert "damaged" in refused(tmp_path / "model")


def test_a_safetensors_name_that_appears_twice_is_refused_or_harmless(tmp_path, refused):
    one = json.dumps(described([2], 8))
    two = json.dumps({"dtype": "F32", "shape": [2], "data_offsets": [8, 16]})
    text = f'{{"a": {one}, "a": {two}}}'.encode()
    (tmp_path / "model").write_bytes(struct.pack("<Q", len(text)) + text + bytes(16))
    assert "damaged" in refused(tmp_path / "model")


def npy(shape, data=b"", dtype="<f4"):
    text = f"{{'descr': '{dtype}', 'fortran_order': False, 'shape': {shape}, }}".ljust(117) + "\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text.encode() + data


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        (npy("(1000000000000,)"), "damaged"),
        (npy("(10000000000000000000000,)"), "damaged"),
        (npy("(2,)", bytes(8), dtype="<U1"), "not numbers"),
        (npy("(2,)", bytes(8), dtype="|V4"), "not numbers"),
        (npy("(2,)", bytes(8), dtype="|O"), "pickle"),
        (b"no array at all", "not numbers"),
    ],
    ids=["terabytes", "overflow", "text", "raw bytes", "objects", "no array"],
)
def test_arrays_that_are_no_weights_are_refused_without_taking_memory(entry, message, tmp_path, refused):
    with zipfile.ZipFile(tmp_path / "model", "w") as archive:
        archive.writestr("cls.npy", entry)
    assert message in refused(tmp_path / "model")


def test_an_archive_that_unpacks_to_far_more_than_it_is_is_refused_before(tmp_path, refused):
    with zipfile.ZipFile(tmp_path / "bomb", "w") as archive:
        archive.writestr("cls.npy", npy("(300000000,)"))
    content = (tmp_path / "bomb").read_bytes()
    entry = content.index(b"PK\x01\x02") + 24  # where the table of contents has the unpacked size
    (tmp_path / "bomb").write_bytes(content[:entry] + struct.pack("<I", 1_200_000_000) + content[entry + 4 :])
    tracemalloc.start()
    assert "too many for its size" in refused(tmp_path / "bomb")
    assert tracemalloc.get_traced_memory()[1] < 50_000_000
    tracemalloc.stop()


@pytest.mark.parametrize(
    "tensor",
    [
        torch.zeros(1).expand(10**13),
        torch.zeros(2, 2).to_sparse(),
        torch.zeros(2, device="meta"),
    ],
    ids=["repeated", "sparse", "meta"],
)
def test_tensors_that_are_no_plain_arrays_are_refused(tensor, tmp_path, refused):
    torch.save({"head.weight": tensor}, tmp_path / "model.pth")
    assert "head.weight is no plain array" in refused(tmp_path / "model.pth")


def test_tensors_that_are_views_of_one_array_are_refused_where_copies_would_be_large(tmp_path, refused):
    shared = torch.zeros(1 << 20, dtype=torch.float16)
    torch.save({f"w{index}": shared for index in range(2000)}, tmp_path / "many.pth")
    assert "its tensors share memory" in refused(tmp_path / "many.pth")


def test_tied_weights_are_taken(tmp_path):
    shared = torch.arange(6.0)
    torch.save({"a": shared, "b": shared, "c": shared.reshape(2, 3)}, tmp_path / "tied.pth")
    assert read(tmp_path / "tied.pth").tensors["c"].tolist() == [[0, 1, 2], [3, 4, 5]]
