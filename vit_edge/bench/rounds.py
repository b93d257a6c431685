"""Alternating rounds: what slows the machine for a while slows all candidates alike.

The worker threads of a session spin for a while behind a burst and slow whatever runs next. So each candidate has a
process of its own, bursts are apart by a pause, their first runs are dropped, and every second round goes backwards.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from vit_edge.bench.errors import BenchError
from vit_edge.bench.machine import Idleness
from vit_edge.bench.process import Worker

__all__ = ["Plan", "Rounds", "measure"]

_DROPPED = 2  # the first runs of a burst
_PAUSE = 0.1  # seconds between bursts
_BURST = 0.4  # seconds a burst may take
_FEWEST, _MOST = 5, 200  # runs a burst
Progress = Callable[[str], None]
Seconds = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """How much is measured.

    Attributes:
        rounds: with one image at a time; at least 6, or there is no interval.
        batches: for throughput, with a third of the rounds.
        minutes: no round begins after these.
    """

    rounds: int = 12
    batches: tuple[int, ...] = (1, 4, 16)
    minutes: float = 5.0


@dataclass(slots=True)
class Rounds:
    """What was measured at one batch size.

    Attributes:
        seconds: a candidate: for each finished round the runs of its burst.
        complete: all rounds that were asked for.
        rss: a candidate: bytes its process has held at most.
        failed: candidates that cannot run such a batch, and why.
        interrupted: by the user.
    """

    seconds: list[list[Seconds]]
    complete: bool = False
    rss: list[int] = field(default_factory=list)
    failed: dict[int, str] = field(default_factory=dict)
    interrupted: bool = False

    def medians(self, index: int) -> Seconds:
        """Seconds of one candidate's run, (rounds,)."""
        return np.array([np.median(burst) for burst in self.seconds[index]])


def measure(
    workers: Sequence[Worker], batch: int, rounds: int, deadline: float, idle: Idleness, progress: Progress
) -> Rounds:
    """Run all candidates round by round.

    Args:
        workers: the candidates' processes.
        batch: images a run.
        rounds: at most; the first of them in any case.
        deadline: `time.monotonic()` behind which no round begins.
        idle: told about the pauses.
        progress: called with a line a round.

    Raises:
        BenchError: a candidate's process ended; a batch that one cannot run is noted in `failed`.
    """
    runs, found = [_FEWEST] * len(workers), Rounds([[] for _ in workers], rss=[0] * len(workers))
    for number in range(-1, rounds):  # round -1 finds out how many runs a burst may have
        if number > 0 and time.monotonic() > deadline:
            return found
        bursts: dict[int, Seconds] = {}
        try:
            progress(f"batch {batch}, round {number + 1} of {rounds}" if number >= 0 else f"batch {batch}")
            for index in range(len(workers))[:: -1 if number % 2 else 1]:
                if index in found.failed:
                    continue
                idle.pause(_PAUSE)
                try:
                    seconds, found.rss[index] = workers[index].burst(batch, _DROPPED + runs[index])
                except BenchError as error:
                    if batch == 1:
                        raise
                    found.failed[index] = str(error)
                    continue
                bursts[index] = np.array(seconds[_DROPPED:])
        except KeyboardInterrupt:
            found.interrupted = True
            return found
        for index, burst in bursts.items():
            if number < 0:
                runs[index] = int(np.clip(_BURST / np.median(burst), _FEWEST, _MOST))
            else:
                found.seconds[index].append(burst)
    found.complete = True
    return found
