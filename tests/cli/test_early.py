"""Mistakes in a command line are told before torch is imported or a checkpoint is read."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from vit_edge.cli import early, main
from vit_edge.export import tracing
from vit_edge.runtime.errors import ConfigError

Fails = Callable[..., str]
WITHOUT_TORCH = """
import sys
sys.modules["torch"] = sys.modules["onnx"] = None  # importing them fails
from vit_edge.cli import main
for line in sys.stdin.read().splitlines():
    print(main(line.split("\\t")), file=sys.stderr)
"""


def test_without_torch(checkpoint: Path, model_file: Path, tmp_path: Path) -> None:
    text = tmp_path / "text.txt"
    text.write_text("a\n")
    export, out = ["export", checkpoint], ["-o", tmp_path / "m.onnx"]
    cases = [
        ([*export, "-o", tmp_path / "m.bin"], "must end in .onnx"),
        ([*export, "-o", tmp_path / "none" / "m.onnx"], "no such folder; create it first"),
        ([*export, *out, "--opset", "16"], "expected 17 to 24"),
        ([*export, *out, "--preprocess", "imagnet"], "did you mean imagenet?"),
        ([*export, *out, "--arch", "vit_tinny_patch16_224"], "did you mean vit_tiny_patch16_224, "),
        ([*export, *out, "--preprocess", text], "is not JSON"),
        ([*export, *out, "--labels", tmp_path / "none.txt"], "cannot be read (No such file"),
        ([*export, *out, "--images", tmp_path / "none"], "no such folder"),
        (["export", tmp_path / "none.pth", *out], "no such file or folder"),
        (["export", "https://huggingface.co/timm/vit_tiny/blob/main/x", *out], "or give hf:timm/vit_tiny"),
        (["export", "x" * 5000, *out], "is no name of a file"),
        (["export", model_file, "-o", model_file], "is the source itself"),
        (["adopt", tmp_path / "none.onnx", *out], "does not exist"),
        (["adopt", model_file, *out], "is a vit-edge model file already"),
        (["adopt", text, *out], "is not an ONNX file"),
    ]
    lines = "\n".join("\t".join(map(str, arguments)) for arguments, _ in cases)
    run = subprocess.run(
        [sys.executable, "-c", WITHOUT_TORCH], input=lines, capture_output=True, text=True, timeout=60, check=True
    )
    told = run.stderr.splitlines()
    assert len(told) == 2 * len(cases), run.stderr
    for (arguments, expected), message, code in zip(cases, told[::2], told[1::2], strict=True):
        assert expected in message, arguments
        assert code == "1"


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have no such names")
def test_names_that_are_no_text_are_one_line(checkpoint: Path, model_file: Path, tmp_path: Path, fails: Fails) -> None:
    folder = tmp_path / "d\udcff"
    folder.mkdir()
    for source in (checkpoint, model_file):
        (folder / source.name).write_bytes(source.read_bytes())
    assert "not UTF-8 text" in fails("export", checkpoint, "-o", folder / "m.onnx")
    assert "not UTF-8 text" in fails("export", folder / checkpoint.name, "-o", tmp_path / "m.onnx")
    assert "not UTF-8 text" in fails("adopt", folder / model_file.name, "-o", tmp_path / "m.onnx")


def test_names_in_any_script_are_taken(checkpoint: Path, tmp_path: Path) -> None:
    assert main(["export", str(checkpoint), "-o", str(tmp_path / "ö 模型.onnx")]) == 0


def test_opsets_are_those_of_the_exporter() -> None:
    assert early.OPSETS == tracing.OPSETS


def test_source_and_output_may_be_one_file_under_two_names(tmp_path: Path) -> None:
    (tmp_path / "a.onnx").write_text("x")
    (tmp_path / "b.onnx").symlink_to("a.onnx")
    with pytest.raises(ConfigError, match="is the source itself"):
        early.check_output(str(tmp_path / "a.onnx"), str(tmp_path / "b.onnx"))
