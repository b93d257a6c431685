"""A candidate's process that does not do what it should, and one that is left alone."""

import os
import subprocess
import sys
import time
from collections.abc import Callable

import pytest

from vit_edge.bench import BenchError, Candidate, process
from vit_edge.bench.process import Worker

MakeEngine = Callable[..., Candidate]
DIES = 'print("I am ill", file=sys.stderr, flush=True); sys.exit(7)'


def test_dies_in_the_middle(engine: MakeEngine) -> None:
    with Worker(engine("a", before=DIES)) as worker, pytest.raises(BenchError, match="code 7: I am ill"):
        worker.burst(1, 3)


def test_is_killed_in_the_middle(engine: MakeEngine) -> None:
    killed = engine("a", before="import os; os.kill(os.getpid(), 9)")
    with Worker(killed) as worker, pytest.raises(BenchError, match="a: its process ended by signal 9"):
        worker.burst(1, 3)


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        (b"{no json\n", "expected JSON"),
        (b'{"\xff\xfe": \n', "expected JSON"),
        (b'{"load": 1}\n', "without load, first and precision"),
        (b'{"load": -1, "first": NaN, "precision": "fp32"}\n', "without load, first and precision"),
        (b'{"error": "no such file"}\n', "^a: no such file$"),
        (b"", "ended with exit code 0"),
    ],
)
def test_first_answers_that_are_none(engine: MakeEngine, answer: bytes, problem: str) -> None:
    code = f"import sys; sys.stdin.readline(); sys.stdout.buffer.write({answer!r}); sys.stdout.flush()"
    with pytest.raises(BenchError, match=problem):
        Worker(engine("a", code=code))


@pytest.mark.parametrize("seconds", ["[]", "[1.0]", '["1", "2", "3"]', "None"])
def test_bursts_without_their_seconds(engine: MakeEngine, seconds: str) -> None:
    before = f'print(json.dumps({{"seconds": {seconds}, "rss": 1}}), flush=True); continue'
    with Worker(engine("a", before=before)) as worker, pytest.raises(BenchError, match="without the seconds of 3 runs"):
        worker.burst(1, 3)


def test_what_a_process_says_is_bounded_and_drives_no_terminal(engine: MakeEngine) -> None:
    code = r"""import json; input(); print(json.dumps({"error": "\x1b[31m" + 9999 * "x"}), flush=True); input()"""
    with pytest.raises(BenchError, match=r"^a: \ufffd\[31mx+…x+$") as caught:
        Worker(engine("a", code=code))
    assert len(str(caught.value)) < 700
    endless = "import sys; input(); sys.stdout.write('{' * 3_000_000); sys.stdout.flush(); input()"
    with pytest.raises(BenchError, match="expected JSON"):
        Worker(engine("a", code=endless))


def test_no_answer(engine: MakeEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    with Worker(engine("a", before="time.sleep(60)")) as worker:
        monkeypatch.setattr(process, "_PATIENCE", 0.1)
        with pytest.raises(BenchError, match="a: no answer within"):
            worker.burst(1, 3)


def test_a_command_that_does_not_start() -> None:
    with pytest.raises(BenchError, match=r"/no/engine does not start: No such file"):
        Worker(Candidate("a.onnx", command=("/no/engine",)))


def test_no_process_is_left_when_the_measuring_one_is_killed() -> None:
    """The worker's input ends then, also without anybody closing it in an orderly way."""
    code = (
        "import sys, time; from vit_edge.bench import Candidate; from vit_edge.bench.process import Worker\n"
        "engine = 'import json, os, sys; sys.stdin.readline(); print(json.dumps(dict(load=1, first=1, "
        "precision=str(os.getpid()))), flush=True); [None for _ in sys.stdin]'\n"
        "worker = Worker(Candidate('a', command=(sys.executable, '-c', engine)))\n"
        "print(worker.facts['precision'], flush=True); time.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        number = int(parent.stdout.readline())
        assert _runs(number)
        parent.kill()
    for _ in range(100):
        if not _runs(number):
            return
        time.sleep(0.1)
    pytest.fail(f"process {number} is still there")


def _runs(number: int) -> bool:
    try:
        os.kill(number, 0)
        with open(f"/proc/{number}/stat", encoding="utf-8") as stat:
            return stat.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
