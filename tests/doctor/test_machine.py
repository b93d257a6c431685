"""What doctor says of a machine, and of an onnxruntime that does not load."""

import signal
import sys

import pytest

from vit_edge.doctor import Onnxruntime, import_onnxruntime, this_machine
from vit_edge.doctor.machine import _notes
from vit_edge.runtime.memory import Memory

NO_MEMORY = Memory(None, None, None)


def test_the_installed_one():
    found = import_onnxruntime()
    assert found.problem == ""
    assert "CPUExecutionProvider" in found.providers
    assert found.version


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        (f"import os; os.kill(os.getpid(), {signal.SIGILL.value})", "uses instructions that this CPU does not have"),
        (f"import os; os.kill(os.getpid(), {signal.SIGKILL.value})", "memory ran out"),
        (f"import os; os.kill(os.getpid(), {signal.SIGUSR1.value})", "ended by SIGUSR1"),
        ("raise ImportError('GLIBC_2.28 not found')", "ImportError: GLIBC_2.28 not found"),
        ("raise ModuleNotFoundError(\"No module named 'onnxruntime'\")", "not installed: pip install onnxruntime"),
        ("raise SystemExit(3)", "exit code 3"),
    ],
)
def test_an_import_that_fails_is_a_sentence(script, expected):
    problem = import_onnxruntime(script=script).problem
    assert problem.startswith("onnxruntime cannot be imported: ")
    assert expected in problem
    assert "\n" not in problem


def test_an_interpreter_that_is_not_there():
    assert "cannot be started" in import_onnxruntime(python=sys.executable + "-none").problem


def test_a_machine_without_onnxruntime_is_told_of():
    machine = this_machine(Onnxruntime(problem="broken"))
    assert machine.onnxruntime.problem == "broken"
    assert machine.threads >= 1


@pytest.mark.parametrize(
    ("features", "machine", "threads", "ram", "expected"),
    [
        ({"avx2"}, "x86_64", 2, NO_MEMORY, ["no VNNI"]),
        ({"avx"}, "amd64", 2, NO_MEMORY, ["no VNNI", "no AVX2"]),
        ({"avx2", "avx_vnni"}, "x86_64", 2, NO_MEMORY, []),
        ({"neon"}, "aarch64", 2, NO_MEMORY, ["no dotprod"]),
        ({"neon", "dotprod"}, "arm64", 1, NO_MEMORY, ["leaves 1 of 2 CPUs"]),
        (set(), "riscv64", 2, Memory(4 << 30, None, 256 << 20), ["256 MiB of memory"]),
        (set(), "x86_64", 2, NO_MEMORY, []),
    ],
)
def test_notes(features, machine, threads, ram, expected):
    notes = _notes(frozenset(features), machine, threads, 2, ram)
    assert len(notes) == len(expected)
    for note, words in zip(notes, expected, strict=True):
        assert words in note
