"""What is damaged, hostile or no checkpoint is refused in one line, and nothing in it runs."""

import io
import json
import os
import pickle
import struct
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import load_file, save, save_file


class Trap:
    """Unpickled, it would create a file."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (str(self.path),)


@pytest.mark.parametrize("suffix", ["pth", "safetensors", "npz"])
@pytest.mark.parametrize("kind", ["torch", "legacy torch", "pickle", "numpy"])
def test_a_pickle_that_would_act_is_refused_and_does_not_act(kind, suffix, tmp_path, refused):
    sprung, path = tmp_path / "sprung", tmp_path / f"model.{suffix}"
    trap = {"head.weight": torch.zeros(2), "x": Trap(sprung)}
    if kind == "pickle":
        path.write_bytes(pickle.dumps(trap["x"]))
    elif kind == "numpy":
        with path.open("wb") as stream:
            np.savez(stream, x=np.array([Trap(sprung)], dtype=object))
    else:
        torch.save(trap, path, _use_new_zipfile_serialization=kind == "torch")
    message = refused(path)
    assert "refused, its pickle" in message or "allow_pickle" in message or "unsafe" in message
    assert not sprung.exists()
    if kind == "torch":  # the trap is armed: a careless reader springs it
        with path.open("rb") as stream:
            torch.load(stream, weights_only=False)
        assert sprung.exists()


def test_a_whole_module_is_refused_with_what_to_save_instead(tmp_path, refused):
    torch.save(torch.nn.Linear(2, 2), tmp_path / "whole.pth")
    message = refused(tmp_path / "whole.pth")
    assert "torch.nn.modules.linear.Linear" in message
    assert "save the state_dict alone" in message


def onnx_bytes():
    return b"\x08\x0a\x12\x07pytorch" + bytes(100)


def jpeg_bytes():
    stream = io.BytesIO()
    Image.new("RGB", (8, 8)).save(stream, "JPEG")
    return stream.getvalue()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty"),
        (b"\x00", "is neither safetensors, PyTorch nor .npz"),
        (b"just a text\n" * 10, "is neither safetensors, PyTorch nor .npz"),
        (jpeg_bytes(), "is a JPEG image"),
        (onnx_bytes(), "is an ONNX file"),
        (b"\x1f\x8b" + bytes(30), "is a gzip archive"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n", "is a Git LFS pointer"),
        (b"PK\x03\x04" + bytes(40), "damaged"),
        (b"\x80\x02}q\x00.", "damaged"),
        (b"\x80", "damaged"),
        (struct.pack("<Q", 1 << 40) + b"{}", "damaged"),
        (struct.pack("<Q", 2) + b"{}", "holds no tensors"),
        (pickle.dumps(3), "damaged"),
    ],
)
def test_what_is_no_checkpoint_is_named(content, message, tmp_path, refused):
    path = tmp_path / "model.safetensors"
    path.write_bytes(content)
    assert message in refused(path)


def test_missing_paths_and_folders_without_weights(tmp_path, refused):
    assert "no such file or folder" in refused(tmp_path / "none")
    assert "no weight file" in refused(tmp_path)
    (tmp_path / "a.safetensors").write_bytes(b"1")
    (tmp_path / "b.safetensors").write_bytes(b"2")
    assert "2 *.safetensors" in refused(tmp_path)
    assert "cannot be read" in refused(tmp_path / ("x" * 300))


def as_npz(state):
    stream = io.BytesIO()
    np.savez(stream, **{name.replace("/", "|"): tensor.numpy() for name, tensor in state.items()})
    return stream.getvalue()


def as_torch(state, *, legacy):
    stream = io.BytesIO()
    torch.save(state, stream, _use_new_zipfile_serialization=not legacy)
    return stream.getvalue()


WRITERS = {
    "safetensors": save,
    "torch": lambda state: as_torch(state, legacy=False),
    "legacy torch": lambda state: as_torch(state, legacy=True),
    "npz": as_npz,
}


@pytest.mark.parametrize("kind", WRITERS)
def test_truncated_and_overwritten_files_are_refused(kind, timm_file, tmp_path, refused):
    whole = WRITERS[kind](load_file(timm_file))
    path = tmp_path / "damaged"
    for end in (1, 9, 30, len(whole) // 20, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:end])
        assert str(path) in refused(path, heads=2)


@pytest.mark.parametrize("kind", WRITERS)
def test_flipped_bytes_never_give_a_traceback(kind, timm_file, loaded_or_refused, tmp_path):
    """Most give other weights or an error; none gives another exception than ours."""
    whole = WRITERS[kind](load_file(timm_file))
    path = tmp_path / "damaged"
    random = np.random.default_rng(0)
    front, back = np.arange(200), np.arange(len(whole) - 400, len(whole))
    for position in random.choice(np.concatenate([front, back]), 60, replace=False):
        damaged = bytearray(whole)
        damaged[position] ^= int(random.integers(1, 256))
        path.write_bytes(damaged)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            loaded_or_refused(path, position, heads=2)


@pytest.mark.parametrize("content", [[1, 2], torch.zeros(2), {"model": [1]}, {}, {0: torch.zeros(1)}, 3])
def test_pth_files_that_hold_no_state_dict_are_refused(content, tmp_path, refused):
    torch.save(content, tmp_path / "model.pth")
    assert str(tmp_path) in refused(tmp_path / "model.pth")


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_numbers_that_are_none_are_named(value, timm_file, tmp_path, refused):
    state = load_file(timm_file)
    state["blocks.1.mlp.fc2.weight"][3, 5] = value
    save_file(state, tmp_path / "nan.safetensors")
    assert "tensor blocks.1.mlp.fc2.weight holds NaN or infinity" in refused(tmp_path / "nan.safetensors", heads=2)


@pytest.mark.parametrize(
    "index",
    [
        {"weight_map": {"a": "../outside.safetensors"}},
        {"weight_map": {"a": "/etc/passwd"}},
        {"weight_map": {"a": "sub/inside.safetensors"}},
        {"weight_map": {"a": ".."}},
        {"weight_map": {"a": ""}},
        {"weight_map": {"a": 3}},
        {"weight_map": {"a": None, "b": ["x"]}},
        {"weight_map": {"a": "nul\0l"}},
        {"weight_map": {"a": "none.safetensors"}},
        {"weight_map": {}},
        {"weight_map": ["a"]},
        {"weight_map": None},
        {},
        [],
    ],
    ids=str,
)
def test_an_index_names_files_of_its_own_folder_only(index, timm_file, tmp_path, refused):
    folder = tmp_path / "folder"
    (folder / "sub").mkdir(parents=True)
    for place in (tmp_path / "outside.safetensors", folder / "sub" / "inside.safetensors"):
        place.write_bytes(timm_file.read_bytes())
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    refused(folder, heads=2)
    assert Path(folder).is_dir()
