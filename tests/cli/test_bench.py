"""`vit-edge bench` with real files."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import onnx
import pytest

from vit_edge.cli import main

Fails = Callable[..., str]
QUICK = ("--rounds", "1", "--batch", "1")


def test_two_settings_of_one_file(model_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = tmp_path / "bench.json"
    code = main(["bench", str(model_file), f"{model_file}@threads=1", *QUICK, "--json", str(target)])
    captured = capsys.readouterr()
    assert code == 0, captured.err
    assert "small (threads=1): " in captured.out
    assert "nodes  " not in captured.out, "all of them run where they should"
    first, second = json.loads(target.read_text(encoding="utf-8"))["candidates"]
    assert (first["precision"], first["providers"]) == ("fp32", ["CPUExecutionProvider"])
    assert first["nodes"]["CPUExecutionProvider"] > 10
    assert (first["ratio"], second["ratio"]["rounds"]) == (None, 1)


def test_a_fixed_batch_size_is_told(model_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    proto = onnx.load(model_file)
    del proto.metadata_props[:]
    for value in (*proto.graph.input, *proto.graph.output):
        value.type.tensor_type.shape.dim[0].dim_value = 1
    onnx.save(proto, tmp_path / "one.onnx")
    assert main(["bench", str(tmp_path / "one.onnx"), "--rounds", "1", "--batch", "3", "--json", "-"]) == 0
    (found,) = json.loads(capsys.readouterr().out)["candidates"]
    assert found["precision"] == "no model file"
    assert found["failed"] == {"3": "one: its batch size is fixed to 1"}


def test_what_cannot_be_measured_is_one_line(model_file: Path, tmp_path: Path, fails: Fails) -> None:
    (tmp_path / "cut.onnx").write_bytes(model_file.read_bytes()[:3000])
    proto = onnx.load(model_file)
    values = onnx.numpy_helper.to_array(proto.graph.initializer[0]).copy()
    proto.graph.initializer[0].CopyFrom(onnx.numpy_helper.from_array(values + 1, proto.graph.initializer[0].name))
    onnx.save(proto, tmp_path / "changed.onnx")
    assert "does not exist" in fails("bench", tmp_path / "none.onnx", *QUICK)
    assert "truncated" in fails("bench", model_file, tmp_path / "cut.onnx", *QUICK)
    assert "not those its manifest was written for" in fails("bench", tmp_path / "changed.onnx", *QUICK)
    assert "no setting 'speed'" in fails("bench", f"{model_file}@speed=1", *QUICK)
    assert "two candidates are named small" in fails("bench", model_file, model_file, *QUICK)
    assert "there is no folder" in fails("bench", model_file, "--json", tmp_path / "none" / "b.json")


@pytest.mark.parametrize("command", ["bench", "verify", "predict", "eval"])
def test_a_provider_that_is_not_there(command: str, model_file: Path, image: Path, fails: Fails) -> None:
    more = {"predict": [image], "eval": ["--data", image.parent], "bench": QUICK}.get(command, [])
    told = fails(command, model_file, *more, "--provider", "NopeExecutionProvider")
    assert "has no NopeExecutionProvider, only" in told
    assert "CPUExecutionProvider: choose among these" in told


@pytest.mark.parametrize("arguments", [[], ["a.onnx", "--rounds", "0"], ["a.onnx", "--batch", "0"]])
def test_usage(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", *arguments]) == 2
    assert "Error" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="looks for processes in /proc")
def test_ctrl_c_shows_what_there_is_and_leaves_no_process(model_file: Path) -> None:
    command = [sys.executable, "-m", "vit_edge", "bench", str(model_file), "--rounds", "1000"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, "start_new_session": True}
    with subprocess.Popen(command, **pipes) as process:  # type: ignore[call-overload]
        for line in process.stderr:
            if "round 3 of" in line:
                break
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text(encoding="ascii").split()
        assert children
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does
        out, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "one image" in out
    assert "rounds were measured" in err
    assert "Traceback" not in err
    assert not [each for each in children if Path(f"/proc/{each}").exists()]
