"""Calibration images as files, and the tensors that they give."""

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import onnx_ir as ir
import pytest
from PIL import Image

from vit_edge.export import ExportReport
from vit_edge.runtime.golden import golden_images
from vit_edge.runtime.preprocess import Preprocess, normalise

SIZE = (24, 16)  # of tests/export/conftest.py


@pytest.fixture(scope="session")
def write_images() -> Callable[..., list[Path]]:
    """Write uint8 images (H, W, C) as files."""

    def write(folder: Path, images: Sequence[npt.NDArray[np.uint8]]) -> list[Path]:
        folder.mkdir(parents=True, exist_ok=True)
        paths = [folder / f"{number:03}.png" for number in range(len(images))]
        for path, image in zip(paths, images, strict=True):
            Image.fromarray(image.squeeze()).save(path)
        return paths

    return write


@pytest.fixture(scope="session")
def photos(write_images: Callable[..., list[Path]], tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """24 synthetic images as files."""
    return write_images(tmp_path_factory.mktemp("photos"), list(golden_images(24, *SIZE, 3)))


@pytest.fixture(scope="session")
def inputs(checkpoint) -> npt.NDArray[np.float32]:
    """The same, normalised: (24, 3, 24, 16) float32."""
    spec: Preprocess = checkpoint.preprocess
    return normalise(golden_images(24, *SIZE, 3), spec)


@pytest.fixture
def graph(report: ExportReport) -> ir.Model:
    """The small model's exported graph."""
    return ir.load(report.path)
