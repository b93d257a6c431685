"""The whole evaluation on tiny models, and everything that must stop it."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from vit_edge.accuracy import DataError, MisalignedError, ScoreOptions, compare, evaluate
from vit_edge.accuracy.record import record, to_json
from vit_edge.accuracy.summary import summary
from vit_edge.runtime.errors import ConfigError, ModelFileError
from vit_edge.runtime.predictor import Predictor

Write = Callable[..., Path]


def test_a_model_alone(write_model: Write, write_data: Write) -> None:
    found = evaluate(write_model(), write_data())
    assert found.model.accuracy is not None
    assert found.model.accuracy.top1 == 1
    assert found.baseline is None
    assert found.comparison is None
    assert "100.00 %" in "\n".join(summary(found))


def test_a_model_that_lost_a_class(write_model: Write, write_data: Write, worse: np.ndarray) -> None:
    done = []
    found = evaluate(
        write_model("int8.onnx", worse),
        write_data(60),
        baseline=write_model(),
        max_drop=1,
        progress=lambda *counts: done.append(counts),
    )
    both = found.comparison
    assert both is not None
    assert both.paired is not None
    assert both.verdict is not None
    assert (both.paired.lost, both.paired.gained, both.verdict.outcome) == (10, 0, "fail")
    assert both.paired.drop == pytest.approx(100 / 6)
    assert both.agreement.argmax == pytest.approx(5 / 6)
    assert (both.classes[0].label, both.classes[0].baseline_right, both.classes[0].model_right) == (5, 10, 0)
    assert [(flip.label, flip.baseline, flip.model) for flip in both.flips] == [(5, 5, 0)] * 10
    margins = [flip.baseline_margin for flip in both.flips]
    assert margins == sorted(margins, reverse=True)
    assert done[-1] == (60, 60)
    text = summary(found)
    assert max(map(len, text)) <= 80
    assert any("10 → 0 of 10" in line and "yellow" in line for line in text)


def test_names_of_classes_cannot_drive_a_terminal(write_model: Write, write_data: Write, worse: np.ndarray) -> None:
    found = evaluate(write_model("int8.onnx", worse), write_data(60), baseline=write_model())
    evil = replace(found, names=(*found.names[:5], "\x1b[2J" + "x" * 200))
    assert all(line.isprintable() and len(line) <= 80 for line in summary(evil))


def test_outputs_are_the_predictors_own_whatever_the_batch(write_model: Write, write_data: Write) -> None:
    from vit_edge.accuracy import open_model, read_dataset, score

    path, data = write_model(), read_dataset(write_data(7), 6)
    for batch_size in (1, 3, 16):
        (outputs,) = score([open_model(path)], data.paths, batch_size=batch_size)
        expected = np.stack([prediction.logits for prediction in Predictor(path).batch(data.paths)])
        assert outputs.dtype == np.float32
        np.testing.assert_allclose(outputs, expected, rtol=1e-5, atol=1e-5)


def test_without_labels_only_agreement(write_model: Write, write_data: Write, worse: np.ndarray) -> None:
    folder = write_data(12)
    (folder / "labels.csv").unlink()
    found = evaluate(write_model("int8.onnx", worse), folder, baseline=write_model())
    assert found.comparison is not None
    assert found.comparison.paired is None
    assert found.comparison.agreement.argmax == pytest.approx(10 / 12)
    assert len(summary(found)) > 5
    with pytest.raises(ConfigError, match="no labels, and a budget"):
        evaluate(write_model(), folder, baseline=write_model(), max_drop=1)
    with pytest.raises(ConfigError, match="nothing to compare with"):
        evaluate(write_model(), folder)


def test_a_budget_needs_a_baseline(write_model: Write, write_data: Write) -> None:
    with pytest.raises(ConfigError, match="baseline"):
        evaluate(write_model(), write_data(6), max_drop=1)


@pytest.mark.parametrize("damaged", ["baseline", "model"])
def test_a_file_that_fails_its_golden_check_stops(write_model: Write, write_data: Write, damaged: str) -> None:
    manifest = Predictor(write_model()).manifest
    outputs = tuple(tuple(1.01 * value for value in row) for row in manifest.golden.outputs)
    bad, good = write_model("bad.onnx", golden=replace(manifest.golden, outputs=outputs)), write_model("good.onnx")
    pair = {"model": bad, "baseline": good} if damaged == "model" else {"model": good, "baseline": bad}
    with pytest.raises(ModelFileError, match=r"bad\.onnx: golden check failed"):
        evaluate(data=write_data(6), **pair)


def test_files_that_cannot_be_compared(write_model: Write, write_data: Write) -> None:
    manifest, data = Predictor(write_model()).manifest, write_data(6)
    other = replace(manifest.input.preprocess, crop_rounding="floor", interpolation="bicubic")
    bicubic = write_model("other.onnx", input=replace(manifest.input, preprocess=other))
    with pytest.raises(ConfigError, match=r"preprocessing: interpolation \(bilinear and bicubic\), crop_rounding"):
        evaluate(bicubic, data, baseline=write_model())
    scores = write_model("p.onnx", output=replace(manifest.output, kind="probabilities"))
    with pytest.raises(ConfigError, match="output: 6 logits and 6 probabilities"):
        evaluate(scores, data, baseline=write_model())
    swapped = write_model("names.onnx", labels=("green", "red", *manifest.labels[2:]))
    with pytest.raises(ConfigError, match="name of class 0: 'red' and 'green'"):
        evaluate(swapped, data, baseline=write_model())


@pytest.mark.parametrize("kind", ["features", "tokens"])
def test_only_class_scores_can_be_evaluated(write_model: Write, write_data: Write, kind: str) -> None:
    output = replace(Predictor(write_model()).manifest.output, kind=kind)
    with pytest.raises(ConfigError, match=f"gives {kind}: only logits and probabilities"):
        evaluate(write_model("other.onnx", output=output), write_data(6))


def test_all_unreadable_images_are_named(write_model: Write, write_data: Write) -> None:
    folder = write_data(8)
    (folder / "images" / "001.png").write_text("no image")
    (folder / "images" / "006.png").write_bytes((folder / "images" / "005.png").read_bytes()[:60])
    with pytest.raises(DataError, match="2 of 8 images cannot be read") as caught:
        evaluate(write_model(), folder)
    assert ["001.png" in caught.value.defects[0], "006.png" in caught.value.defects[1]] == [True, True]


def test_labels_in_another_order_stop(write_model: Write, write_data: Write) -> None:
    shifted = write_data(60, labels=[(i + 1) % 6 for i in range(60)])
    with pytest.raises(MisalignedError, match="labels look misaligned"):
        evaluate(write_model(), shifted)
    with pytest.raises(MisalignedError, match="labels look misaligned"):
        evaluate(write_model(), shifted, baseline=write_model())


def test_record_is_plain_json_of_a_known_shape(write_model: Write, write_data: Write, worse: np.ndarray) -> None:
    model, data = write_model("int8.onnx", worse), write_data(24)
    found = evaluate(model, data, baseline=write_model(), max_drop=0.5, options=ScoreOptions(batch_size=4))
    read = json.loads(to_json(found))
    assert read["schema_version"] == 1
    keys = "schema_version data confidence model baseline agreement paired verdict classes flips"
    assert set(read) == set(keys.split())
    assert read["verdict"]["outcome"] == "fail"
    assert read["flips"][0]["file"].startswith("images/")
    assert read["classes"][0]["name"] == "yellow"
    alone = record(evaluate(model, data))
    assert alone.keys() == read.keys()
    assert [alone[key] for key in ("baseline", "agreement", "paired", "verdict")] == [None] * 4


def test_equal_outputs_are_json_too(write_model: Write, write_data: Write) -> None:
    found = evaluate(write_model(), write_data(24), baseline=write_model("same.onnx"))
    assert json.loads(to_json(found))["agreement"]["sqnr_db"] is None


def test_compare_needs_labels_for_a_budget() -> None:
    x = np.eye(3, dtype=np.float32)
    with pytest.raises(ConfigError, match="labels"):
        compare(x, x, max_drop=1)


def test_grey_and_large_images_are_read_as_the_predictor_does(write_model: Write, tmp_path: Path) -> None:
    (tmp_path / "red").mkdir()
    Image.new("L", (300, 20), 90).save(tmp_path / "red" / "grey.png")
    assert evaluate(write_model(), tmp_path).model.accuracy is not None


@pytest.mark.real
@pytest.mark.slow
def test_real_model_on_real_images(shared: Path, tmp_path: Path) -> None:
    """ViT-Tiny on 60 ImageNet images: alone it is right on about four of five; shifted labels are recognised."""
    from vit_edge.cli import main

    source, model = shared / "data" / "vit_tiny_patch16_224.safetensors", tmp_path / "t.onnx"
    names = shared / "data" / "imagenet_classes.txt"
    assert (
        main(["export", str(source), "--arch", "vit_tiny_patch16_224", "--labels", str(names), "-o", str(model)]) == 0
    )
    rows = (shared / "data" / "imagenet_val_800" / "labels.csv").read_text().splitlines()[1:61]
    for name, shift in (("right", 0), ("shifted", 1)):
        folder = tmp_path / name
        (folder / "images").mkdir(parents=True)
        lines = ["file,label"]
        for row in rows:
            file, label = row.split(",")
            (folder / "images" / file).write_bytes((shared / "data/imagenet_val_800/images" / file).read_bytes())
            lines.append(f"{file},{(int(label) + shift) % 1000}")
        (folder / "labels.csv").write_text("\n".join(lines))
    found = evaluate(model, tmp_path / "right")
    assert found.model.accuracy is not None
    assert 0.65 < found.model.accuracy.top1 < 0.95
    with pytest.raises(MisalignedError):
        evaluate(model, tmp_path / "shifted")
