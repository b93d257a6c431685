"""Every checkpoint that another library wrote: the exported file gives what that library computed."""

import json
import os
from pathlib import Path

import numpy as np
import pytest

from vit_edge.checkpoints import LoadOptions, load_checkpoint
from vit_edge.export import ExportOptions, export
from vit_edge.preprocessing import named
from vit_edge.runtime import Predictor

SHARED = Path(os.environ.get("VIT_EDGE_SHARED", Path(__file__).resolve().parents[3] / "shared"))
PEERS = sorted(folder.name for folder in (SHARED / "peers").glob("*") if folder.is_dir())
LOWEST = ("hf_vit", "timm_dinov3_rope", "timm_hybrid", "timm_siglip", "timm_swin", "timm_vit_gap")  # one a mechanism


def _check(folder: Path, path: Path, opset: int) -> None:
    hints = json.loads((folder / "hints.json").read_text()) if (folder / "hints.json").exists() else {}
    loaded = load_checkpoint(folder, LoadOptions(heads=hints.get("num_heads")))
    config = loaded.model.config
    spec = loaded.preprocess or named(hints["preprocess"], config.image_size, config.channels)
    export(loaded, path, ExportOptions(preprocess=spec, opset=opset))
    peer = np.load(folder / "expected.npz")
    expected = peer["probabilities" if "probabilities" in peer else "logits"]
    outputs = Predictor(path).logits(peer["images"])
    assert outputs.shape == expected.shape
    assert float(expected.std(axis=0).min()) > 1e-4  # outputs of different images differ
    # 1e-5 of the largest output: three times the worst seen (timm_hybrid, 3.4e-6; the others are below 2.3e-6)
    assert np.abs(outputs - expected).max() <= 1e-5 * np.abs(expected).max()


@pytest.mark.real
@pytest.mark.parametrize("name", PEERS)
def test_exported_file_gives_what_the_peer_computed(name: str, shared: Path, tmp_path: Path) -> None:
    _check(shared / "peers" / name, tmp_path / "model.onnx", opset=23)


@pytest.mark.real
@pytest.mark.parametrize("name", LOWEST)
def test_the_oldest_opset_gives_the_same(name: str, shared: Path, tmp_path: Path) -> None:
    _check(shared / "peers" / name, tmp_path / "model.onnx", opset=17)


@pytest.mark.real
def test_no_folder_is_left_out(shared: Path) -> None:
    assert {folder.name for folder in (shared / "peers").iterdir()} == set(PEERS)
    assert len(PEERS) >= 22
