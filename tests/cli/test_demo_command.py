"""`vit-edge demo`: it succeeds, and its last line is a command that runs."""

import subprocess
from pathlib import Path

import pytest

from vit_edge.cli import main


@pytest.mark.slow
def test_the_last_line_is_a_command_that_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["demo", "-o", "demo out"]) == 0  # a blank has to be quoted
    name, command = capsys.readouterr().out.splitlines()[-1].split(": ", maxsplit=1)
    assert name == "Try it"
    assert "demo out/test/7/" in command
    run = subprocess.run(command, shell=True, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    assert run.stdout.splitlines()[1].split()[1] == "7", run.stdout  # behind the image's name: score, label
