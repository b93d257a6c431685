"""`vit-edge export`: what it prints, what it refuses, and that a refusal leaves nothing behind."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import load_file, save_file

from vit_edge.checkpoints import LoadOptions, load_checkpoint
from vit_edge.cli import main
from vit_edge.runtime import Predictor

Fails = Callable[..., str]


@pytest.fixture
def bare(checkpoint: Path, tmp_path: Path) -> Path:
    """The small model under timm's names, with nothing that tells heads or preprocessing."""
    state = load_file(checkpoint)
    for block in range(2):
        for part in ("weight", "bias"):
            packed = [state.pop(f"blocks.{block}.attn.{layer}.{part}") for layer in "qkv"]
            state[f"blocks.{block}.attn.qkv.{part}"] = torch.cat(packed)
    path = tmp_path / "bare.safetensors"
    save_file(state, path)
    return path


def test_report_names_model_preprocessing_and_parity(
    checkpoint: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["export", str(checkpoint), "-o", str(tmp_path / "m.onnx")]) == 0
    out = capsys.readouterr().out
    for expected in ("small", "heads        2", "mean 0.5 0.5 0.5", "parity       file: max|Δ|", "onnxruntime 1.23"):
        assert expected in out
    assert [path.name for path in tmp_path.iterdir()] == ["m.onnx"]


def test_bare_weights_need_heads_and_preprocessing(bare: Path, tmp_path: Path, fails: Fails) -> None:
    assert "--heads" in fails("export", bare, "-o", tmp_path / "m.onnx")
    message = fails("export", bare, "-o", tmp_path / "m.onnx", "--heads", "2")
    assert "imagenet, half, clip, unit" in message
    command = ["export", str(bare), "-o", str(tmp_path / "m.onnx"), "--heads", "2", "--preprocess", "half"]
    assert main(command) == 0
    assert Predictor(tmp_path / "m.onnx").manifest.provenance["preprocess_origin"] == "--preprocess half"


def test_labels_file_replaces_the_checkpoints_own(checkpoint: Path, tmp_path: Path) -> None:
    (tmp_path / "names.json").write_text(json.dumps(["v", "w", "x", "y", "z"]))
    arguments = ["export", str(checkpoint), "-o", str(tmp_path / "m.onnx"), "--labels", str(tmp_path / "names.json")]
    assert main(arguments) == 0
    assert Predictor(tmp_path / "m.onnx").labels == ("v", "w", "x", "y", "z")


@pytest.mark.slow
def test_other_resolution(checkpoint: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["export", str(checkpoint), "-o", str(tmp_path / "m.onnx"), "--image-size", "40x48"]) == 0
    assert "positions resampled from 4x4 to 5x6" in capsys.readouterr().err
    assert Predictor(tmp_path / "m.onnx").manifest.input.preprocess.size == (40, 48)


def _wrong_inputs(checkpoint: Path, tmp_path: Path) -> dict[str, tuple[list[str | Path], str]]:
    """Name -> arguments behind `export`, and what the message must say."""
    (tmp_path / "empty.safetensors").touch()
    Image.new("RGB", (8, 8)).save(tmp_path / "photo.jpg")
    (tmp_path / "photo.safetensors").write_bytes((tmp_path / "photo.jpg").read_bytes())
    (tmp_path / "cut.safetensors").write_bytes(checkpoint.read_bytes()[:5000])
    (tmp_path / "three.txt").write_text("a\nb\nc\n")
    (tmp_path / "file").touch()
    out: list[str | Path] = ["-o", tmp_path / "m.onnx"]
    return {
        "missing file": ([tmp_path / "none.safetensors", *out], "no such file"),
        "empty file": ([tmp_path / "empty.safetensors", *out], "empty"),
        "jpeg as checkpoint": ([tmp_path / "photo.safetensors", *out], "JPEG"),
        "truncated safetensors": ([tmp_path / "cut.safetensors", *out], "truncated"),
        "zero heads": ([checkpoint, *out, "--heads", "0"], "heads"),
        "heads that do not divide": ([checkpoint, *out, "--heads", "5"], "5 heads do not divide width 32"),
        "labels of the wrong length": ([checkpoint, *out, "--labels", tmp_path / "three.txt"], "3 names"),
        "image size not divisible": ([checkpoint, *out, "--image-size", "30"], "24 or 32"),
        "output folder missing": ([checkpoint, "-o", tmp_path / "none" / "m.onnx"], "no such folder"),
        "output under a file": ([checkpoint, "-o", tmp_path / "file" / "m.onnx"], "no such folder"),
        "output without suffix": ([checkpoint, "-o", tmp_path / "m"], ".onnx"),
        "opset too low": ([checkpoint, *out, "--opset", "11"], "17 to 24"),
        "unknown preprocessing": ([checkpoint, *out, "--preprocess", "imagnet"], "imagenet"),
        "no images": ([checkpoint, *out, "--images", tmp_path / "none"], "none"),
    }


WRONG = [
    *("missing file", "empty file", "jpeg as checkpoint", "truncated safetensors", "zero heads"),
    *("heads that do not divide", "labels of the wrong length", "image size not divisible", "output folder missing"),
    *("output under a file", "output without suffix", "opset too low", "unknown preprocessing", "no images"),
]


@pytest.mark.parametrize("case", WRONG)
def test_wrong_input_is_one_line_and_writes_nothing(case: str, checkpoint: Path, tmp_path: Path, fails: Fails) -> None:
    arguments, expected = _wrong_inputs(checkpoint, tmp_path)[case]
    before = sorted(tmp_path.iterdir())
    assert expected in fails("export", *arguments)
    assert sorted(tmp_path.iterdir()) == before


def test_every_wrong_input_is_tried(checkpoint: Path, tmp_path: Path) -> None:
    assert sorted(_wrong_inputs(checkpoint, tmp_path)) == sorted(WRONG)


def test_failed_parity_writes_nothing_and_names_the_tensor(
    checkpoint: Path, tmp_path: Path, fails: Fails, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The canary: one weight of the traced copy is changed."""
    from vit_edge.export import exporter

    original = exporter.traceable

    def tampered(model: torch.nn.Module, *, opset: int) -> torch.nn.Module:
        copy = original(model, opset=opset)
        with torch.no_grad():
            copy.get_parameter("blocks.1.mlp.fc2.weight")[3, 5] += 0.5
        return copy

    monkeypatch.setattr(exporter, "traceable", tampered)
    message = fails("export", checkpoint, "-o", tmp_path / "m.onnx")
    assert "traced graph" in message
    assert "blocks.1.mlp.fc2" in message
    assert list(tmp_path.iterdir()) == []


def test_usage_errors_exit_with_2(checkpoint: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["export", str(checkpoint)]) == 2
    assert main(["export", str(checkpoint), "-o", "m.onnx", "--image-size", "big"]) == 2
    assert main(["export", str(checkpoint), "-o", "m.onnx", "--image-size", "0"]) == 2
    assert main(["explode"]) == 2
    assert "Traceback" not in capsys.readouterr().err


def test_architectures_fit_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["export", "--list-archs"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) > 100
    assert max(map(len, lines)) <= 80


@pytest.mark.real
@pytest.mark.slow
def test_real_vit_tiny_predicts_as_pytorch_does(shared: Path, tmp_path: Path) -> None:
    """100 of the real images, one by one, through the exported file and through PyTorch."""
    from vit_edge.runtime.images import decode, find_images
    from vit_edge.runtime.preprocess import prepare

    weights, name = shared / "data" / "vit_tiny_patch16_224.safetensors", "vit_tiny_patch16_224"
    labels = shared / "data" / "imagenet_classes.txt"
    command = ["export", str(weights), "--arch", name, "--labels", str(labels), "-o", str(tmp_path / "t.onnx")]
    assert main(command) == 0
    loaded = load_checkpoint(weights, LoadOptions(arch=name))
    assert loaded.model.config.heads == 3
    assert loaded.preprocess is not None
    predictor = Predictor(tmp_path / "t.onnx")
    photos = find_images(shared / "data" / "imagenet_val_800")[:100]
    prepared = np.stack([prepare(decode(path), loaded.preprocess) for path in photos])
    expected = torch.cat([loaded.model(part) for part in torch.from_numpy(prepared).split(20)]).argmax(dim=1).tolist()
    got = [predictor(path).top[0].index for path in photos]
    assert got == expected
    assert len(set(got)) > 50
