"""The other end of `worker`: start a candidate's process, ask it, notice when it ends."""

import json
import queue
import subprocess
import threading
import time
from types import TracebackType
from typing import Any

from vit_edge.bench.candidate import Candidate
from vit_edge.bench.errors import BenchError

__all__ = ["Worker"]

_PATIENCE = 300.0  # seconds for one answer: the largest models load in less
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
        self._answers: queue.Queue[str | None] = queue.Queue()
        self._said: list[str] = []
        self._process = subprocess.Popen(
            candidate.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        for target in (self._listen, self._overhear):
            threading.Thread(target=target, daemon=True).start()
        request: dict[str, object] = {
            "path": candidate.path,
            "threads": candidate.threads,
            "providers": list(candidate.providers),
            "entries": candidate.entries,
        }
        try:
            self.facts = self._ask(request)
        except BaseException:
            self.close()
            raise

    def burst(self, batch: int, runs: int) -> tuple[list[float], int]:
        """Seconds of each run, and the peak memory of the process in bytes.

        Raises:
            BenchError: it cannot run such a batch, or has ended.
        """
        answer = self._ask({"batch": batch, "runs": runs})
        return answer["seconds"], answer["rss"]

    def close(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.wait()

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
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise BenchError(f"{self.candidate.name}: {answer['error']}")
        return answer

    def _last_words(self) -> str:
        code = self._process.wait(timeout=10)
        time.sleep(0.05)  # until the last of it is read
        said = " ".join("".join(self._said).split())[-_TAIL:]
        reason = f" by signal {-code}" if code < 0 else f" with exit code {code}"
        return f"{reason}: {said}" if said else reason

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith("{"):  # a library may print
                self._answers.put(line)
        self._answers.put(None)

    def _overhear(self) -> None:
        assert self._process.stderr is not None
        for line in self._process.stderr:
            self._said = [*self._said[-20:], line]
