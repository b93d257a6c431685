"""The other end of `worker`: start a candidate's process, ask it, notice when it ends."""

import json
import math
import queue
import subprocess
import threading
from contextlib import suppress
from types import TracebackType
from typing import Any

from vit_edge.bench.candidate import Candidate
from vit_edge.bench.errors import BenchError
from vit_edge.runtime.text import printable, shortened

__all__ = ["Worker"]

_PATIENCE = 300.0  # seconds for one answer: the largest models load in less
_LAST = 5.0  # seconds for an ended process to be seen as such
_MOST_AHEAD = 100  # answers that nobody asked for, in memory
_LONGEST = 1_000_000  # characters of a line: an answer has 20 a run
_TAIL = 300  # characters of what a process said before it ended


class Worker:
    """A candidate in a process of its own.

    Attributes:
        candidate: what runs in it.
        facts: its first answer: seconds to load and for the first inference, and what else it said.

    Raises:
        BenchError: the candidate does not load.
    """

    def __init__(self, candidate: Candidate) -> None:
        self.candidate = candidate
        self._answers: queue.Queue[str | None] = queue.Queue(_MOST_AHEAD)
        self._said: list[str] = []
        try:
            self._process = subprocess.Popen(
                candidate.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                encoding="utf-8", errors="replace", start_new_session=True,  # Ctrl-C is for us alone
            )  # fmt: skip
        except OSError as error:
            raise BenchError(f"{candidate.name}: {candidate.command[0]} does not start: {error.strerror}") from error
        self._threads = [threading.Thread(target=each, daemon=True) for each in (self._listen, self._overhear)]
        for thread in self._threads:
            thread.start()
        request: dict[str, object] = {
            "path": candidate.path,
            "threads": candidate.threads,
            "providers": list(candidate.providers),
            "entries": candidate.entries,
        }
        try:
            self.facts = self._ask(request)
            missing = [key for key in ("load", "first") if not _is_time(self.facts.get(key))]
            if missing or not isinstance(self.facts.get("precision"), str):
                raise BenchError(f"{candidate.name}: its process answered without load, first and precision")
        except BaseException:
            self.close()
            raise

    def burst(self, batch: int, runs: int) -> tuple[list[float], int]:
        """Seconds of each run, and the peak memory of the process in bytes.

        Raises:
            BenchError: it cannot run such a batch, or has ended.
        """
        answer = self._ask({"batch": batch, "runs": runs})
        seconds, rss = answer.get("seconds"), answer.get("rss")
        if not isinstance(seconds, list) or len(seconds) != runs or not all(_is_time(each) for each in seconds):
            raise BenchError(f"{self.candidate.name}: its process answered without the seconds of {runs} runs")
        if type(rss) is not int:
            raise BenchError(f"{self.candidate.name}: its process answered without its memory")
        return seconds, rss

    def nodes(self) -> dict[str, int]:
        """How many nodes each provider ran; empty for another engine.

        Raises:
            BenchError: it has ended, or what it says is no such table.
        """
        if self.candidate.command != Candidate("").command:
            return {}
        nodes = self._ask({"nodes": True}).get("nodes")
        if not isinstance(nodes, dict):
            raise BenchError(f"{self.candidate.name}: its process answered without its nodes")
        return {str(provider): int(count) for provider, count in nodes.items()}

    def close(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.wait()
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):  # what it no longer reads
            self._process.stdin.close()
        for thread in self._threads:
            thread.join(timeout=_LAST)

    def __enter__(self) -> "Worker":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _ask(self, request: dict[str, object]) -> dict[str, Any]:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(request) + "\n")
            self._process.stdin.flush()
            line = self._answers.get(timeout=_PATIENCE)
        except BrokenPipeError:
            line = None
        except queue.Empty:
            raise BenchError(f"{self.candidate.name}: no answer within {_PATIENCE:.0f} s") from None
        if line is None:
            raise BenchError(f"{self.candidate.name}: its process ended{self._last_words()}")
        try:
            answer: dict[str, Any] = json.loads(line)
        except ValueError as error:
            raise BenchError(
                f"{self.candidate.name}: its process answered {line[:60].rstrip()!r}, expected JSON"
            ) from error
        if "error" in answer:
            raise BenchError(f"{self.candidate.name}: {shortened(printable(str(answer['error'])), _TAIL * 2)}")
        return answer

    def _last_words(self) -> str:
        try:
            code = self._process.wait(timeout=_LAST)
        except subprocess.TimeoutExpired:
            return ": it closed its output"
        self._threads[1].join(timeout=_LAST)  # until the last of it is read
        said = printable(" ".join("".join(self._said).split())[-_TAIL:])
        reason = f" by signal {-code}" if code < 0 else f" with exit code {code}"
        return f"{reason}: {said}" if said else reason

    def _listen(self) -> None:
        stdout = self._process.stdout
        assert stdout is not None
        for line in iter(lambda: stdout.readline(_LONGEST), ""):
            if line.startswith("{"):  # a library may print
                self._answers.put(line)
        stdout.close()
        self._answers.put(None)

    def _overhear(self) -> None:
        stderr = self._process.stderr
        assert stderr is not None
        for line in iter(lambda: stderr.readline(_LONGEST), ""):
            self._said = [*self._said[-20:], line]
        stderr.close()


def _is_time(value: object) -> bool:
    return isinstance(value, float | int) and math.isfinite(value) and value >= 0
