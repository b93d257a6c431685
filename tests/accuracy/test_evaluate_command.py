"""`vit-edge eval`: exit codes, files and one-line errors."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from vit_edge.cli import main

Write = Callable[..., Path]


def _run(*arguments: object) -> int:
    return main(["eval", *map(str, arguments)])


def test_exit_codes_are_the_verdict(
    write_model: Write, write_data: Write, worse: np.ndarray, capsys: pytest.CaptureFixture[str]
) -> None:
    model, same, bad, data = write_model(), write_model("same.onnx"), write_model("bad.onnx", worse), write_data(60)
    compare = ("--data", data, "--baseline", model, "--max-drop")
    assert _run(same, *compare, 10) == 0
    assert "pass: " in capsys.readouterr().out
    assert _run(bad, *compare, 1) == 1
    assert "fail: " in capsys.readouterr().out
    assert _run(same, *compare, 1) == 3  # equal, but 60 images cannot prove a single point
    out = capsys.readouterr().out
    assert "undecided: " in out
    assert "images needed" in " ".join(out.split())
    assert _run(bad, "--data", data, "--baseline", model) == 0  # no budget, no verdict
    assert max(map(len, out.splitlines()[1:])) <= 80


def test_files_are_written_and_standard_output_is_json_alone(
    write_model: Write, write_data: Write, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model, data = write_model(), write_data(24)
    assert _run(model, "--data", data, "--json", tmp_path / "r.json", "--html", tmp_path / "r.html") == 0
    assert json.loads((tmp_path / "r.json").read_text())["schema_version"] == 1
    assert (tmp_path / "r.html").read_text().startswith("<!DOCTYPE html>")
    capsys.readouterr()
    assert _run(model, "--data", data, "--json", "-") == 0
    assert json.loads(capsys.readouterr().out)["model"]["accuracy"]["top1"] == 1


def test_usage(write_model: Write, write_data: Write) -> None:
    assert _run(write_model(), "--data", write_data(6), "--max-drop", 1) == 2
    assert _run(write_model()) == 2


def test_errors_exit_with_1_and_say_why(
    write_model: Write, write_data: Write, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model, data = write_model(), write_data(60, labels=[(i + 1) % 6 for i in range(60)])
    assert _run(model, "--data", data) == 1
    assert "labels look misaligned" in capsys.readouterr().err
    assert _run(model, "--data", data, "--html", tmp_path / "none" / "r.html") == 1
    assert "no folder" in capsys.readouterr().err
    (data / "labels.csv").unlink()
    assert _run(model, "--data", data, "--baseline", model, "--max-drop", 1) == 1
    err = capsys.readouterr().err
    assert err.startswith("vit-edge: error: ")
    assert err.count("\n") == 1
    assert "no labels" in err


def test_a_missing_report_package_is_told_before_anything_runs(
    write_model: Write, write_data: Write, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "jinja2", None)
    assert _run(write_model(), "--data", write_data(6), "--html", "r.html") == 1
    err = capsys.readouterr().err
    assert "pip install 'vit-edge[report]'" in err
    assert err.count("\n") == 1


SCRIPT = """
import sys
for name in ("torch", "onnx", "scipy", "matplotlib", "jinja2", "vit_edge.export", "vit_edge.checkpoints"):
    sys.modules[name] = None
import vit_edge.accuracy, vit_edge.cli.evaluate
from vit_edge.cli import main
sys.exit(main(["eval", sys.argv[1], "--data", sys.argv[2], "--baseline", sys.argv[1], "--max-drop", "10"]))
"""


def test_a_device_without_torch_and_report_packages_can_evaluate(write_model: Write, write_data: Write) -> None:
    command = [sys.executable, "-c", SCRIPT, str(write_model()), str(write_data(60))]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "pass: " in done.stdout
