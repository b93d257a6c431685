"""Every checkpoint that another library wrote: the exported file gives what that library computed."""

import json
import os
import subprocess
from collections.abc import Callable
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


# 1e-5 of the largest output: three times the worst seen (timm_hybrid, 3.4e-6; the others are below 2.3e-6)
TOLERANCE = 1e-5
# Run by a Python that has the base dependencies only: arguments are pairs of a model file and expected.npz.
BASE = """
import importlib.util, json, sys
import numpy as np
from vit_edge.runtime import Predictor
assert not [name for name in ("torch", "onnx", "onnx_ir", "scipy") if importlib.util.find_spec(name)]
worst = {}
for model, expected in zip(sys.argv[1::2], sys.argv[2::2], strict=True):
    peer = np.load(expected)
    known = peer["probabilities" if "probabilities" in peer else "logits"]
    outputs = Predictor(model).logits(peer["images"])
    assert outputs.shape == known.shape, model
    assert outputs.std(axis=0).min() > 1e-4, model  # outputs of different images differ
    worst[model] = float(np.abs(outputs - known).max() / np.abs(known).max())
print(json.dumps(worst))
"""


@pytest.fixture(scope="module")
def exported(shared: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """The file exported from a peer's folder, once."""
    folder = tmp_path_factory.mktemp("peers")

    def path_of(name: str, opset: int = 23) -> Path:
        path = folder / f"{name}-{opset}.onnx"
        if not path.exists():
            _export(shared / "peers" / name, path, opset)
        return path

    return path_of


def _export(folder: Path, path: Path, opset: int) -> None:
    hints = json.loads((folder / "hints.json").read_text()) if (folder / "hints.json").exists() else {}
    loaded = load_checkpoint(folder, LoadOptions(heads=hints.get("num_heads")))
    config = loaded.model.config
    spec = loaded.preprocess or named(hints["preprocess"], config.image_size, config.channels)
    export(loaded, path, ExportOptions(preprocess=spec, opset=opset))


def _check(folder: Path, path: Path) -> None:
    peer = np.load(folder / "expected.npz")
    expected = peer["probabilities" if "probabilities" in peer else "logits"]
    outputs = Predictor(path).logits(peer["images"])
    assert outputs.shape == expected.shape
    assert float(expected.std(axis=0).min()) > 1e-4  # outputs of different images differ
    assert np.abs(outputs - expected).max() <= TOLERANCE * np.abs(expected).max()


@pytest.mark.real
@pytest.mark.parametrize("name", PEERS)
def test_exported_file_gives_what_the_peer_computed(name: str, shared: Path, exported: Callable[..., Path]) -> None:
    _check(shared / "peers" / name, exported(name))


@pytest.mark.real
@pytest.mark.parametrize("name", LOWEST)
def test_the_oldest_opset_gives_the_same(name: str, shared: Path, exported: Callable[..., Path]) -> None:
    _check(shared / "peers" / name, exported(name, opset=17))


@pytest.mark.slow
@pytest.mark.real
def test_every_file_runs_in_the_base_environment(
    shared: Path, exported: Callable[..., Path], base_python: Path
) -> None:
    pairs = [str(path) for name in PEERS for path in (exported(name), shared / "peers" / name / "expected.npz")]
    run = subprocess.run([base_python, "-I", "-c", BASE, *pairs], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    worst = json.loads(run.stdout)
    assert len(worst) == len(PEERS)
    assert max(worst.values()) <= TOLERANCE, worst


@pytest.mark.real
def test_no_folder_is_left_out(shared: Path) -> None:
    assert {folder.name for folder in (shared / "peers").iterdir()} == set(PEERS)
    assert len(PEERS) >= 22
