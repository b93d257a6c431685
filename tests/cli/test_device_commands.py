"""`predict`, `inspect` and `verify`: what a device runs."""

import io
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch

from vit_edge.checkpoints import load_checkpoint
from vit_edge.cli import main
from vit_edge.runtime.images import decode
from vit_edge.runtime.preprocess import prepare

Fails = Callable[..., str]


def test_predict_agrees_with_the_model(
    model_file: Path, checkpoint: Path, image: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["predict", str(model_file), str(image), "--top", "2", "--json"]) == 0
    record = json.loads(capsys.readouterr().out)
    loaded = load_checkpoint(checkpoint)
    assert loaded.preprocess is not None
    scores = loaded.model(torch.from_numpy(prepare(decode(image), loaded.preprocess))[None])[0].softmax(-1)
    assert float(scores.std()) > 0.01
    best = [entry["index"] for entry in record["top"]]
    assert best == scores.argsort(descending=True)[:2].tolist()
    # 1e-5: five times the noise of float32 logits (export/parity.py)
    np.testing.assert_allclose([entry["score"] for entry in record["top"]], scores[best].numpy(), atol=1e-5)
    assert record["top"][0]["name"] == loaded.labels[best[0]]


def test_predict_reads_folders_and_standard_input(
    model_file: Path, image: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(image.read_bytes())))
    assert main(["predict", str(model_file), str(image.parent), "-", "--json"]) == 0
    records = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [record["file"] for record in records] == [str(image), "-"]
    assert records[0]["top"] == records[1]["top"]


def test_predict_goes_on_behind_an_unreadable_image(
    model_file: Path, image: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = image.parent / "text.png"
    text.write_text("not an image")
    assert main(["predict", str(model_file), str(text), str(image)]) == 1
    captured = capsys.readouterr()
    assert str(image) in captured.out
    assert captured.err.count("\n") == 1
    assert str(text) in captured.err


def test_predict_refuses_what_is_no_model_file(
    model_file: Path, checkpoint: Path, image: Path, tmp_path: Path, fails: Fails
) -> None:
    (tmp_path / "cut.onnx").write_bytes(model_file.read_bytes()[:3000])
    (tmp_path / "empty.onnx").touch()
    assert "truncated" in fails("predict", tmp_path / "cut.onnx", image)
    assert "empty" in fails("predict", tmp_path / "empty.onnx", image)
    assert "not an ONNX file" in fails("predict", checkpoint, image)
    assert "does not exist" in fails("predict", tmp_path / "none.onnx", image)
    assert "NoSuchProvider" in fails("predict", model_file, image, "--provider", "NoSuchProvider")


def test_inspect_shows_the_file(model_file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", str(model_file)]) == 0
    out = capsys.readouterr().out
    for expected in ("images float32 (batch, 3, 32, 32)", "apple, bear, cat", "2 Attention", "as exported", "1.23"):
        assert expected in out
    assert main(["inspect", str(model_file), "--json"]) == 0
    record = json.loads(capsys.readouterr().out)
    assert record["manifest"]["model"]["architecture"]["heads"] == 2
    assert record["content_matches_manifest"] is True
    assert record["operators"]["Attention"] == 2


def test_verify_passes_on_an_untouched_file(
    model_file: Path, checkpoint: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["verify", str(model_file)]) == 0
    assert main(["verify", str(model_file), "--checkpoint", str(checkpoint)]) == 0
    assert "all 7 checks passed" in capsys.readouterr().out


def test_verify_names_the_block_of_a_changed_weight(
    model_file: Path, checkpoint: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One number of one weight, 1 % larger."""
    proto = onnx.load(model_file)
    weight = next(tensor for tensor in proto.graph.initializer if tensor.name.startswith("blocks.1.mlp.fc1.weight"))
    values = onnx.numpy_helper.to_array(weight).copy()
    values[2, 7] *= 1.01
    weight.raw_data = values.tobytes()
    onnx.save(proto, tmp_path / "changed.onnx")
    assert main(["verify", str(tmp_path / "changed.onnx"), "--checkpoint", str(checkpoint)]) == 1
    out = capsys.readouterr().out
    assert "FAIL content" in out
    assert "differ from the checkpoint: blocks.1.mlp.fc1.weight" in out


def test_verify_fails_with_another_checkpoint(
    model_file: Path, checkpoint: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from vit_edge.checkpoints import save_checkpoint

    loaded = load_checkpoint(checkpoint)
    assert loaded.preprocess is not None
    with torch.no_grad():
        loaded.model.blocks[1].mlp.fc2.weight.mul_(1.01)
    other = tmp_path / "other.safetensors"
    save_checkpoint(loaded.model, other, name="small", preprocess=loaded.preprocess, labels=loaded.labels)
    assert main(["verify", str(model_file), "--checkpoint", str(other)]) == 1
    out = capsys.readouterr().out
    assert "first diverging tensor: blocks.1.mlp.fc2" in out
    assert "FAIL checkpoint" in out


def test_verify_finds_swapped_mean_and_std(
    model_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The canary for preprocessing: golden inputs are normalised with the manifest's own values."""
    proto = onnx.load(model_file)
    entry = next(prop for prop in proto.metadata_props if prop.key == "vit_edge")
    manifest = json.loads(entry.value)
    manifest["input"]["preprocess"]["std"] = [0.25, 0.25, 0.25]
    entry.value = json.dumps(manifest)
    onnx.save(proto, tmp_path / "other.onnx")
    assert main(["verify", str(tmp_path / "other.onnx")]) == 1
    out = capsys.readouterr().out
    assert "FAIL content      its manifest (preprocessing, labels, ...) was changed" in out
    assert "FAIL golden" in out


def test_options_of_the_comparison_need_a_checkpoint(model_file: Path) -> None:
    assert main(["verify", str(model_file), "--heads", "2"]) == 2


def test_names_cannot_drive_a_terminal(
    model_file: Path, image: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    odd = tmp_path / "a\x1b[31m\nb.png"
    odd.write_bytes(image.read_bytes())
    bad = tmp_path / "c\x1b[31m\nd.png"
    bad.write_text("no image")
    assert main(["predict", str(model_file), str(odd), str(bad)]) == 1
    captured = capsys.readouterr()
    assert "\x1b" not in captured.out + captured.err
    assert captured.out.count("\n") == 6
    assert captured.err.count("\n") == 1


def test_file_names_that_are_not_utf8(
    model_file: Path, image: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    odd = tmp_path / os.fsdecode(b"a\xff.png")
    odd.write_bytes(image.read_bytes())
    assert main(["predict", str(model_file), str(odd)]) == 0
    assert main(["predict", str(model_file), str(odd), "--json"]) == 0
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["file"] == str(odd)


def test_features_are_numbers_not_classes(
    checkpoint: Path, image: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "features.onnx"
    assert main(["export", str(checkpoint), "-o", str(path), "--output", "features"]) == 0
    capsys.readouterr()
    assert main(["predict", str(path), str(image), "--json"]) == 0
    record = json.loads(capsys.readouterr().out)
    assert record["kind"] == "features"
    assert record["shape"] == [32]
    assert len(record["values"]) == 32
    assert np.std(record["values"]) > 0.01
    assert main(["predict", str(path), str(image)]) == 0
    assert "features: 32 numbers, norm " in capsys.readouterr().out


def test_a_full_disk_behind_the_output_is_one_line(model_file: Path) -> None:
    full = Path("/dev/full")
    if not full.exists():
        pytest.skip("needs /dev/full")
    with full.open("w") as out:
        run = subprocess.run(
            [sys.executable, "-m", "vit_edge", "inspect", str(model_file)],
            stdout=out,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert run.returncode == 1
    assert run.stderr.startswith("vit-edge: error: ")
    assert run.stderr.count("\n") == 1
