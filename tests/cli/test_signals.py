"""A command that is ended from outside leaves nothing behind."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

# The export waits inside its staging folder until it is ended, or half a second.
WAITING = """
import sys, time
from vit_edge.cli import main
from vit_edge.export import exporter

def wait(*arguments, **options):
    print("waiting", flush=True)
    time.sleep(float(sys.argv[1]))
    raise exporter.ParityError("nobody came")

exporter.reference = wait
sys.exit(main(sys.argv[2:]))
"""


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(signal, "SIGHUP"), reason="no such signals here")
@pytest.mark.parametrize("name", ["SIGHUP", "SIGTERM", "SIGINT"])
def test_staging_folder_is_removed(name: str, checkpoint: Path, tmp_path: Path) -> None:
    with start(["60", "export", str(checkpoint), "-o", str(tmp_path / "m.onnx")]) as process:
        assert any(path.is_dir() for path in tmp_path.iterdir()), "the staging folder is there"
        process.send_signal(getattr(signal, name))
    assert process.wait(timeout=30) == (130 if name == "SIGINT" else 128 + getattr(signal, name))
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(signal, "SIGHUP"), reason="no such signals here")
def test_nohup_keeps_its_meaning(checkpoint: Path, tmp_path: Path) -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)  # which the new process inherits
    try:
        process = start(["0.5", "export", str(checkpoint), "-o", str(tmp_path / "m.onnx")])
    finally:
        signal.signal(signal.SIGHUP, before)
    with process:
        process.send_signal(signal.SIGHUP)
    assert process.wait(timeout=30) == 1, "it went on until its own error"


def start(arguments: list[str]) -> "subprocess.Popen[str]":
    """Start an export and return when it waits."""
    process = subprocess.Popen(
        [sys.executable, "-c", WAITING, *arguments], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "waiting\n"
    return process
