"""The page: self-contained, readable in both themes, and safe with hostile names."""

import re
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from vit_edge.accuracy import Evaluation, evaluate
from vit_edge.accuracy.layers import quantized_layers
from vit_edge.accuracy.report import FLIPS_SHOWN, render, require_packages
from vit_edge.runtime.errors import ConfigError

Write = Callable[..., Path]
EVIL = "<script>alert(1)</script>\"'&$\\frac{"
LAYER = {"name": "blocks.7.mlp.fc2", "damage": 0.31, "max": 219.0, "p999": 2.5, "decision": "int8", "bytes": 1}


@pytest.fixture
def found(write_model: Write, write_data: Write, worse: np.ndarray) -> Evaluation:
    return evaluate(write_model("int8.onnx", worse), write_data(24), baseline=write_model(), max_drop=1)


def _with_layers(found: Evaluation, entry: object) -> Evaluation:
    manifest = replace(found.model.manifest, provenance={"quantization": entry, "note": EVIL})
    return replace(found, model=replace(found.model, manifest=manifest))


def test_page_stands_alone(found: Evaluation) -> None:
    page = render(found)
    links = re.findall(r"(?:src|href|url)\s*[=(]\s*[\"']?([^\"')\s>]*)", page)
    assert links
    assert all(link.startswith(("data:image/jpeg;base64,", "#")) for link in links)
    assert "<script" not in page
    assert "default-src 'none'" in page
    assert page.count("data:image/jpeg") == 4
    assert "<strong>undecided</strong>" in page or "<strong>fail</strong>" in page


def test_plots_have_no_colours_of_their_own(found: Evaluation) -> None:
    """Else they could not be read in one of the themes."""
    page = render(_with_layers(found, {"layers": [LAYER]}))
    figures = re.findall(r"<svg.*?</svg>", page, re.DOTALL)
    assert len(figures) == 4
    assert not re.findall(r"#[0-9a-f]{6}\b", "".join(figures))
    ids = re.findall(r'\bid="([^"]*)"', page)
    assert len(ids) == len(set(ids))


def test_hostile_names_stay_text(found: Evaluation) -> None:
    names = (EVIL, *found.names[1:5], EVIL)
    layers = [{**LAYER, "name": EVIL, "found": EVIL, "decision": EVIL}]
    hostile = _with_layers(replace(found, names=names), {"layers": layers, "scheme": EVIL})
    source = hostile.data.paths[5]
    evil_file = source.with_name("<img src=x onerror=alert(1)>.png")
    source.rename(evil_file)
    paths = (*hostile.data.paths[:5], evil_file, *hostile.data.paths[6:])
    page = render(replace(hostile, data=replace(hostile.data, paths=paths, origin=EVIL)))
    assert "alert(1)" in page
    assert "<script" not in page
    assert "<img src=x" not in page


def test_as_many_flips_as_a_page_bears(write_model: Write, write_data: Write, worse: np.ndarray) -> None:
    found = evaluate(write_model("int8.onnx", worse), write_data(6 * (FLIPS_SHOWN + 2)), baseline=write_model())
    page = render(found)
    assert page.count("data:image/jpeg") == FLIPS_SHOWN
    assert f"{FLIPS_SHOWN} of {FLIPS_SHOWN + 2}" in page


def test_pages_without_labels_or_baseline(write_model: Write, write_data: Write, worse: np.ndarray) -> None:
    folder = write_data(24)
    assert "Flipped images" not in render(evaluate(write_model(), folder))
    (folder / "labels.csv").unlink()
    page = render(evaluate(write_model("int8.onnx", worse), folder, baseline=write_model()))
    assert "agreement only" in page
    assert "Calibration" not in page


def test_mended_layers_are_marked(found: Evaluation) -> None:
    mended = {**LAYER, "decision": "int8, channel 417 in float", "found": "channel 417"}
    page = render(_with_layers(found, {"scheme": "int8", "layers": [LAYER, mended]}))
    assert "int8, channel 417 in float" in page
    layers, problem = quantized_layers(_with_layers(found, {"layers": [LAYER, mended]}).model.manifest)
    assert [layer.mended for layer in layers] == [False, True]
    assert problem == ""


@pytest.mark.parametrize(
    ("entry", "problem"),
    [
        ("text", "no object"),
        ({"layers": 3}, "no object"),
        ({"layers": [3]}, r"layers\[0\] is no object"),
        ({"layers": [{**LAYER, "damage": "much"}]}, "damage is 'much'"),
        ({"layers": [{**LAYER, "max": -1}]}, "max is '-1'"),
        ({"layers": [{**LAYER, "p999": True}]}, "p999 is 'True'"),
        ({"layers": [LAYER, {**LAYER, "name": None}]}, r"layers\[1\]\.name is 'None'"),
    ],
)
def test_a_bad_quantization_entry_is_told(found: Evaluation, entry: object, problem: str) -> None:
    layers, told = quantized_layers(_with_layers(found, entry).model.manifest)
    assert layers == ()
    assert re.search(problem, told)


def test_a_bad_quantization_entry_is_not_drawn(found: Evaluation) -> None:
    page = render(_with_layers(found, {"layers": 3}))
    assert "quantization entry cannot be drawn" in page
    assert "Range of each layer" not in page


def test_layers_without_any_damage_or_range_are_drawn(found: Evaluation) -> None:
    assert "<svg" in render(_with_layers(found, {"layers": [{**LAYER, "damage": 0, "max": 0, "p999": 0}]}))


def test_a_missing_package_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ConfigError, match=r"pip install 'vit-edge\[report\]'"):
        require_packages()
