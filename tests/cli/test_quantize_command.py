"""`vit-edge quantize` and its exit codes."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from vit_edge.cli import main
from vit_edge.cli.quantize import PURPOSES
from vit_edge.export.quantization import SCHEMES
from vit_edge.runtime import Predictor
from vit_edge.runtime.golden import golden_images

Fails = Callable[..., str]


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("photos")
    for number, image in enumerate(golden_images(20, 32, 32, 3)):
        Image.fromarray(image).save(folder / f"{number:02}.png")
    return folder


def test_help_tells_every_scheme_and_its_purpose(capsys: pytest.CaptureFixture[str]) -> None:
    assert {kind.name: kind.purpose for kind in SCHEMES} == PURPOSES
    assert main(["quantize", "--help"]) == 0
    text = capsys.readouterr().out
    assert all(f"{name:<13} {purpose}" in text for name, purpose in PURPOSES.items())


def test_quantize_writes_a_file_and_shows_the_layers(
    model_file: Path, photos: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "q.onnx"
    assert main(["quantize", str(model_file), "-o", str(out), "--calib", str(photos), "--all-layers"]) == 0
    text = capsys.readouterr().out
    assert "blocks.1.mlp.fc2" in text
    assert f"wrote        {out}: " in text
    assert "20 images: 100.0% of 20 images agree" in text
    assert max(map(len, text.splitlines())) <= 80 + len(str(out))
    assert Predictor(out).manifest.model.precision == "int8"


def test_a_quantized_file_is_not_compared_with_its_checkpoint(
    model_file: Path, checkpoint: Path, photos: Path, tmp_path: Path, fails: Fails
) -> None:
    out = tmp_path / "q.onnx"
    assert main(["quantize", str(model_file), "-o", str(out), "--calib", str(photos)]) == 0
    assert main(["verify", str(out)]) == 0
    message = fails("verify", str(out), "--checkpoint", str(checkpoint))
    assert "is quantized (int8)" in message
    assert "--baseline" in message


def test_the_verdict_is_the_exit_code(model_file: Path, photos: Path, tmp_path: Path) -> None:
    predictor = Predictor(model_file)
    for photo in sorted(photos.iterdir()):
        folder = tmp_path / "data" / predictor(photo).top[0].name
        folder.mkdir(parents=True, exist_ok=True)
        (folder / photo.name).write_bytes(photo.read_bytes())
    arguments = ["quantize", str(model_file), "--calib", str(photos), "--data", str(tmp_path / "data")]
    assert main([*arguments, "-o", str(tmp_path / "a.onnx"), "--max-drop", "90"]) == 0
    assert main([*arguments, "-o", str(tmp_path / "b.onnx"), "--max-drop", "0.1"]) == 3
    assert Predictor(tmp_path / "b.onnx").manifest.provenance["accuracy"]["verdict"]["outcome"] == "undecided"  # type: ignore[index]


def test_what_cannot_be_done_is_one_line(model_file: Path, photos: Path, tmp_path: Path, fails: Fails) -> None:
    out = tmp_path / "q.onnx"
    assert "give --calib DIR" in fails("quantize", model_file, "-o", out)
    assert "no such folder" in fails("quantize", model_file, "-o", out, "--calib", tmp_path / "none")
    assert "must end in .onnx" in fails("quantize", model_file, "-o", tmp_path / "q.txt", "--calib", photos)
    assert "is the source itself" in fails("quantize", model_file, "-o", model_file, "--calib", photos)
    text = tmp_path / "text.onnx"
    text.write_text("no model")
    assert str(text) in fails("quantize", text, "-o", out, "--calib", photos)
    assert not out.exists()


@pytest.mark.parametrize(
    "options", [["--data", "d"], ["--max-drop", "1"], ["--block", "32"], ["--compute"], ["--scheme", "int3"]]
)
def test_options_that_do_not_go_together_are_usage(
    options: list[str], model_file: Path, photos: Path, tmp_path: Path
) -> None:
    assert main(["quantize", str(model_file), "-o", str(tmp_path / "q.onnx"), "--calib", str(photos), *options]) == 2


@pytest.mark.slow
@pytest.mark.real
def test_real_vit_tiny_keeps_its_accuracy(shared: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """48 images calibrate, 120 others judge; aims and limits of the design's table, figures in docs/accuracy.md."""
    weights = shared / "data" / "vit_tiny_patch16_224.safetensors"
    fp32, int8 = tmp_path / "t.onnx", tmp_path / "t8.onnx"
    assert main(["export", str(weights), "--arch", "vit_tiny_patch16_224", "-o", str(fp32)]) == 0
    files = sorted((shared / "data" / "imagenet_val_800").rglob("*.JPEG"))
    calib = tmp_path / "calib"
    calib.mkdir()
    for path in files[:48]:
        (calib / path.name).write_bytes(path.read_bytes())
    capsys.readouterr()
    assert main(["quantize", str(fp32), "-o", str(int8), "--calib", str(calib)]) == 0
    assert "outlier channel 417" in capsys.readouterr().out
    assert int8.stat().st_size <= 7_000_000
    logits = [
        np.stack([each.logits for each in Predictor(path).batch(files[200:320], batch_size=1)]) for path in (fp32, int8)
    ]
    assert logits[0].std(axis=0).min() > 0.1
    agreement = (logits[0].argmax(axis=1) == logits[1].argmax(axis=1)).mean()
    assert agreement >= 0.97
    assert np.linalg.norm(logits[1] - logits[0]) <= 0.09 * np.linalg.norm(logits[0])
