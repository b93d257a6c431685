"""Standard streams that are closed, full or gone, and names no terminal should see as they are."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from vit_edge.cli import main
from vit_edge.export.model_file import write_manifest
from vit_edge.runtime.manifest import read_manifest
from vit_edge.runtime.onnxfile import read

Fails = Callable[..., str]
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="/dev/full, and names that are no text")


def shell(command: str, *arguments: str | Path) -> "subprocess.CompletedProcess[str]":
    """Run a line of sh in which "$@" is vit-edge with these arguments."""
    line = ["sh", "-c", command, "sh", sys.executable, "-m", "vit_edge", *map(str, arguments)]
    return subprocess.run(line, capture_output=True, text=True, timeout=60)


@pytest.mark.parametrize(
    ("command", "code", "message"),
    [
        ('"$@" >&-', 1, "standard output is closed"),
        ('"$@" >/dev/full', 1, "No space left on device"),
        ('"$@" 2>&-', 0, ""),
        ('{ "$@"; echo "code $?" >&2; } | true', 0, ""),
    ],
)
def test_standard_output_that_takes_nothing(command: str, code: int, message: str, model_file: Path) -> None:
    run = shell(command, "inspect", model_file)
    lines = [line for line in run.stderr.splitlines() if not line.startswith("code ")]
    assert run.returncode == code
    assert len(lines) == bool(message), run.stderr
    assert message in run.stderr


def test_standard_input_that_gives_nothing(model_file: Path) -> None:
    for command, message in (
        ('"$@" <&-', "standard input is closed"),
        ('"$@" 0>/dev/null', "standard input cannot be read"),
        ('"$@" </dev/null', "got 0 bytes"),
    ):
        run = shell(command, "predict", model_file, "-")
        assert run.returncode == 1
        assert run.stderr.count("\n") == 1
        assert message in run.stderr


def test_names_that_are_no_text(
    model_file: Path, image: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], fails: Fails
) -> None:
    picture, model = tmp_path / "a\udcff\x1b[31m\n.png", tmp_path / "m\udcff.onnx"
    picture.write_bytes(image.read_bytes())
    model.write_bytes(model_file.read_bytes())
    assert main(["predict", str(model_file), str(picture)]) == 0
    assert capsys.readouterr().out.splitlines()[0] == f"{tmp_path}/a\ufffd\ufffd[31m\ufffd.png"
    assert main(["predict", str(model_file), str(picture), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["file"] == str(picture)
    assert main(["inspect", str(model)]) == 0
    assert main(["inspect", str(model), "--json"]) == 0
    for command in (["predict", model, image], ["verify", model]):
        assert "not UTF-8 text" in fails(*command)
    assert os.fsencode(picture) not in os.fsencode(fails("predict", model_file, f"{picture}x"))


def test_labels_cannot_act_on_a_terminal(
    model_file: Path, image: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "m.onnx"
    path.write_bytes(model_file.read_bytes())
    manifest = read_manifest(read(path))
    labels = ("\x1b[2J\napple", *manifest.labels[1:])
    write_manifest(path, replace(manifest, labels=labels, model=replace(manifest.model, name="\x9b31m")))
    for command in (["predict", str(path), str(image)], ["inspect", str(path)]):
        for option in ([], ["--json"]):
            assert main(command + option) == 0
            out = capsys.readouterr().out
            assert "apple" in out
            assert out.replace("\n", "").isprintable()
