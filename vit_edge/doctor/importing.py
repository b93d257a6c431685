"""Whether onnxruntime can be imported, tried in a process of its own: a wrong build ends the process it is in."""

import json
import os
import signal
import subprocess
import sys
from dataclasses import dataclass

from vit_edge.runtime.text import shortened

__all__ = ["Onnxruntime", "import_onnxruntime"]

_SCRIPT = """
import json, onnxruntime
build = onnxruntime.get_build_info() if hasattr(onnxruntime, "get_build_info") else ""
print(json.dumps([onnxruntime.__version__, build, onnxruntime.get_available_providers()]))
"""
_SECONDS = 120  # a slow card reader takes some; more is a hang
_SIGNALS = {
    "SIGILL": "it uses instructions that this CPU does not have: install a build for this CPU, an older version, "
    "or build onnxruntime from source",
    "SIGSEGV": "it crashed: is the wheel one for this system and C library?",
    "SIGBUS": "it crashed: is the file system full or damaged?",
    "SIGKILL": "the system killed it: memory ran out?",
}


@dataclass(frozen=True, slots=True)
class Onnxruntime:
    """The installed onnxruntime; without a version where it cannot be imported, and why."""

    version: str = ""
    build: str = ""
    providers: tuple[str, ...] = ()
    problem: str = ""


def import_onnxruntime(python: str = sys.executable, script: str = _SCRIPT) -> Onnxruntime:
    """Import it in another process and ask what it is.

    Args:
        python: The interpreter.
        script: Prints version, build and providers as one JSON list.
    """
    command = [python, "-c", script]
    # Python 3.11 has this variable: a file onnxruntime.py in the working folder is then not taken for the package.
    environment = {**os.environ, "PYTHONSAFEPATH": "1"}
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, errors="replace", timeout=_SECONDS, env=environment, check=False
        )
    except subprocess.TimeoutExpired:
        return Onnxruntime(problem=f"importing onnxruntime takes more than {_SECONDS} s")
    except OSError as error:
        return Onnxruntime(problem=f"{python} cannot be started: {error.strerror or error}")
    if done.returncode != 0:
        return Onnxruntime(problem=f"onnxruntime cannot be imported: {_reason(done.returncode, done.stderr)}")
    version, build, providers = json.loads(done.stdout.splitlines()[-1])
    return Onnxruntime(version, build, tuple(providers))


def _reason(code: int, stderr: str) -> str:
    """In one sentence."""
    if code < 0:
        try:
            name = signal.Signals(-code).name
        except ValueError:
            name = f"signal {-code}"
        return _SIGNALS.get(name, f"ended by {name}")
    lines = [line.strip() for line in stderr.splitlines() if line.strip()]
    last = lines[-1] if lines else f"exit code {code}"
    if last.startswith("ModuleNotFoundError: No module named 'onnxruntime'"):
        return "it is not installed: pip install onnxruntime"
    return shortened(last, 300)
