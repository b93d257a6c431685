"""`adopt`, and every command that takes what it wrote."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from PIL import Image

from vit_edge.cli import main

Fails = Callable[..., str]
CLASSIFIER = """<ir_version: 8, opset_import: ["" : 17]>
g (float[N,3,8,8] x) => (float[N,3] y) {
  means = ReduceMean <axes = [2, 3], keepdims = 0> (x)
  y = Softmax (means)
}"""
MAP = """<ir_version: 8, opset_import: ["" : 17]>
g (float[N,8,16,3] x) => (float[N,8,16] y) { y = ReduceMean <axes = [3], keepdims = 0> (x) }"""


def foreign(text: str, folder: Path) -> Path:
    onnx.save(onnx.parser.parse_model(text), folder / "foreign.onnx")
    return folder / "foreign.onnx"


def run(*arguments: str | Path) -> None:
    assert main([str(argument) for argument in arguments]) == 0


def test_a_classifier_all_the_way(tmp_path: Path, image: Path, capsys: pytest.CaptureFixture[str]) -> None:
    labels, adopted = tmp_path / "labels.txt", tmp_path / "adopted.onnx"
    labels.write_text("red\ngreen\nblue\n")
    run("adopt", foreign(CLASSIFIER, tmp_path), "-o", adopted, "--preprocess", "unit", "--labels", labels)
    out = capsys.readouterr().out
    for expected in ("foreign: by unknown, fp32", "y: probabilities, 3 an image", "labels       3", "onnxruntime 1.12"):
        assert expected in out
    Image.new("RGB", (20, 20), (250, 10, 10)).save(tmp_path / "red.png")
    run("predict", adopted, tmp_path / "red.png", "--json")
    assert json.loads(capsys.readouterr().out)["top"][0]["name"] == "red"
    run("verify", adopted)
    run("inspect", adopted)
    assert "adopted .onnx, sha256" in capsys.readouterr().out


def test_maps_are_written_as_pictures(
    tmp_path: Path, image: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    adopted = tmp_path / "adopted.onnx"
    run("adopt", foreign(MAP, tmp_path), "-o", adopted, "--preprocess", "unit")
    assert "y: map, 8 x 16 an image" in capsys.readouterr().out
    run("predict", adopted, image, image, "--map-dir", tmp_path / "maps")
    assert sorted(path.name for path in (tmp_path / "maps").iterdir()) == ["noise-2.map.png", "noise.map.png"]
    assert f"{tmp_path}/maps/noise.map.png  " in capsys.readouterr().out
    monkeypatch.chdir(tmp_path)
    run("predict", adopted, image, "--json")
    record = json.loads(capsys.readouterr().out)
    assert (record["map"], set(record)) == ("noise.map.png", {"file", "map", "min", "max"})
    pixels = np.asarray(Image.open(tmp_path / "noise.map.png"))
    assert pixels.shape == (8, 16)
    assert (pixels.min(), pixels.max()) == (round(255 * record["min"]), round(255 * record["max"]))


def test_refusals(tmp_path: Path, image: Path, checkpoint: Path, fails: Fails) -> None:
    source, out = foreign(CLASSIFIER, tmp_path), tmp_path / "out.onnx"
    assert "give --preprocess imagenet, half, clip, unit, " in fails("adopt", source, "-o", out)
    half = ("--preprocess", "half")
    assert "not an ONNX file" in fails("adopt", image, "-o", out, *half)
    assert "does not exist" in fails("adopt", tmp_path / "none.onnx", "-o", out, *half)
    assert "is the source itself" in fails("adopt", source, "-o", source, *half)
    assert "no such folder" in fails("adopt", source, "-o", tmp_path / "none" / "out.onnx", *half)
    labels = tmp_path / "labels.txt"
    labels.write_text("red\n")
    assert "got 1 names, the model has 3 classes" in fails("adopt", source, "-o", out, *half, "--labels", labels)
    foreign(CLASSIFIER.replace("N,3,8,8", "1,3,8,8"), tmp_path)
    assert "input of fixed batch 1: --fix-batch" in fails("adopt", source, "-o", out, *half)
    assert not out.exists()
    run("adopt", source, "-o", out, *half, "--fix-batch")
    assert "has no checkpoint" in fails("verify", out, "--checkpoint", checkpoint)
