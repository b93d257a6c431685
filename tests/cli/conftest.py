"""One small checkpoint and the file exported from it, for all tests of the command line."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from vit_edge.checkpoints import save_checkpoint
from vit_edge.cli import main
from vit_edge.config import ViTConfig
from vit_edge.model import ViT
from vit_edge.preprocessing import named

CONFIG = ViTConfig(image_size=(32, 32), patch_size=(8, 8), width=32, depth=2, heads=2, mlp_width=64, classes=5)


@pytest.fixture(scope="session")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random model whose outputs vary, with labels and preprocessing in its header."""
    torch.manual_seed(0)
    model = ViT(CONFIG)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.2)
    path = tmp_path_factory.mktemp("checkpoint") / "small.safetensors"
    labels = ["apple", "bear", "cat", "dog", "elephant"]
    save_checkpoint(model, path, name="small", preprocess=named("half", (32, 32)), labels=labels)
    return path


@pytest.fixture(scope="session")
def model_file(checkpoint: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("exported") / "small.onnx"
    assert main(["export", str(checkpoint), "-o", str(path)]) == 0
    return path


@pytest.fixture
def image(tmp_path: Path) -> Path:
    pixels = np.random.default_rng(0).integers(0, 256, (40, 50, 3), dtype=np.uint8)
    path = tmp_path / "noise.png"
    Image.fromarray(pixels).save(path)
    return path


@pytest.fixture
def fails(capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """Run a command that must exit with 1 and one line on stderr (progress aside); returns that line."""

    def run(*arguments: str | Path, lines: int = 1) -> str:
        capsys.readouterr()
        code = main([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        told = [line for line in captured.err.splitlines() if not line.endswith(" ...")]
        assert code == 1
        assert len(told) == lines, told
        assert told[0].startswith("vit-edge: error: ")
        assert "Traceback" not in captured.err
        return told[0]

    return run
