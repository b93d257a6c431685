"""`vit-edge doctor`."""

import json
import subprocess
import sys

import onnx

from vit_edge.cli import main


def test_without_a_model(capsys):
    assert main(["doctor", "--json"]) == 0
    record = json.loads(capsys.readouterr().out)
    assert {"threads", "cpu_features", "memory", "providers", "onnxruntime"} <= set(record)
    assert record["onnxruntime"]["problem"] == ""


def test_with_a_model(model_file, capsys):
    assert main(["doctor", str(model_file)]) == 0
    out = capsys.readouterr().out
    assert "ok   golden" in out
    assert "cpu      runs" in out
    assert main(["doctor", str(model_file), "--json"]) == 0
    record = json.loads(capsys.readouterr().out)
    assert [finding["passed"] for finding in record["self_test"]] == [True, True]
    targets = {target["target"]: target for target in record["targets"]}
    assert targets["cpu"]["minimum"] == "1.23"
    assert targets["webgpu"]["fallback"] == {"Attention": 2}


def test_with_a_plain_onnx_file(model_file, tmp_path, capsys):
    proto = onnx.load(model_file)
    del proto.metadata_props[:]
    onnx.save(proto, tmp_path / "plain.onnx")
    assert main(["doctor", str(tmp_path / "plain.onnx")]) == 1
    out = capsys.readouterr().out
    assert "plain ONNX file" in out
    assert "cpu      runs" in out


def test_a_runtime_that_does_not_load_is_no_crash(model_file, monkeypatch, capsys):
    from vit_edge.doctor import Onnxruntime, machine

    monkeypatch.setattr(machine, "import_onnxruntime", lambda: Onnxruntime(problem="uses other instructions"))
    assert main(["doctor", str(model_file)]) == 1
    assert "onnxruntime  uses other instructions" in capsys.readouterr().out


def test_the_command_line_does_not_import_onnxruntime():
    script = "import sys, vit_edge.cli, vit_edge.doctor; assert 'onnxruntime' not in sys.modules"
    subprocess.run([sys.executable, "-c", script], check=True)
