"""Makes and measures on this machine, and stops in time."""

import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from vit_edge.accuracy import open_model, score
from vit_edge.accuracy.alignment import check_alignment
from vit_edge.accuracy.metrics import correct
from vit_edge.bench import BenchError, Plan, bench
from vit_edge.bench import Candidate as Timed
from vit_edge.runtime.errors import VitEdgeError
from vit_edge.runtime.onnxfile import file_sha256
from vit_edge.tune.errors import OutOfTime
from vit_edge.tune.halving import Timing
from vit_edge.tune.images import Images
from vit_edge.tune.making import Source, make
from vit_edge.tune.space import BASE, Candidate, Variant
from vit_edge.tune.state import State

__all__ = ["RealBench"]

_MAKING, _SCORING = 0.5, 0.85  # of the time; the rest is for timing
_CHUNK = 25  # images between two looks at the clock
_TOGETHER = 8  # candidates timed at once: each holds a model in memory


class RealBench:
    """A `Workbench` that really does it.

    Args:
        source: the given model.
        folder: for the files it makes.
        images: to calibrate with and to answer.
        state: where hashes of files are kept.
        minutes: from now.
        progress: called with each step.
    """

    def __init__(
        self, source: Source, folder: Path, images: Images, state: State, minutes: float,
        progress: Callable[[str], None],
    ) -> None:  # fmt: skip
        self._source, self._folder, self._images, self._state = source, folder, images, state
        self._progress, self._begin, self._seconds = progress, time.monotonic(), 60 * minutes

    def path(self, variant: Variant) -> Path:
        """Of a file that was made."""
        return self._source.model if variant == BASE else self._folder / f"{variant.name}.onnx"

    def make(self, variant: Variant) -> str | None:
        """See `Workbench`."""
        self._look(_MAKING)
        try:
            path = make(variant, self._source, self._folder, self._images.calibration, self._step)
            open_model(path)  # computes here what it should
        except VitEdgeError as error:
            if variant == BASE:
                raise
            return str(error)
        self._state.made[variant.name] = file_sha256(path)
        return None

    def score(self, variant: Variant, first: int, last: int) -> str:
        """See `Workbench`."""
        self._look(_SCORING)
        predictor, bits = open_model(self.path(variant)), ""
        labels = np.array(self._images.labels, np.int64)
        for start in range(first, last, _CHUNK):
            stop = min(last, start + _CHUNK)
            self._look(_SCORING)
            (outputs,) = score([predictor], self._images.paths[start:stop])
            if variant == BASE and start == 0:
                check_alignment(labels[:stop], outputs.argmax(axis=1).astype(np.int64))
            bits += "".join("1" if right else "0" for right in correct(outputs, labels[start:stop]))
        return bits

    def time(self, candidates: Sequence[Candidate], rounds: int) -> dict[str, Timing | str]:
        """See `Workbench`. The given model is in every group, and what others take is told by it."""
        base, others = candidates[0], list(candidates[1:])
        found: dict[str, Timing | str] = {}
        for start in range(0, max(1, len(others)), _TOGETHER - 1):
            if not self._left(1.0):
                break
            group = [base, *others[start : start + _TOGETHER - 1]]
            try:
                times = self._bench(group, rounds)
            except BenchError as error:
                if len(group) == 1:
                    raise
                times = self._one_by_one(group, rounds, str(error))
            first = found.setdefault(base.name, times[base.name]) if base.name in times else found.get(base.name)
            for name, each in times.items():
                same = isinstance(each, Timing) and isinstance(first, Timing) and name != base.name
                found[name] = Timing(first.p50 / each.speed, each.speed) if same else found.get(name, each)  # type: ignore[union-attr]
        return found

    def _one_by_one(self, group: Sequence[Candidate], rounds: int, problem: str) -> dict[str, Timing | str]:
        """Find those of a group that cannot be timed."""
        found: dict[str, Timing | str] = {}
        for each in group[1:]:
            if not self._left(1.0):
                break
            try:
                found |= self._bench([group[0], each], rounds)
            except BenchError as error:
                found[each.name] = str(error)
        return found

    def _bench(self, group: Sequence[Candidate], rounds: int) -> dict[str, Timing | str]:
        timed = [Timed(str(self.path(each.variant)), entries=dict(each.entries), label=each.name) for each in group]
        left = max(self._left(1.0), 1.0) / 60
        result = bench(timed, Plan(rounds=rounds, batches=(1,), minutes=left), self._step)
        if result.interrupted:
            raise KeyboardInterrupt
        return {
            each.name: Timing(each.latency.p50, each.ratio.value if each.ratio else 1.0) for each in result.candidates
        }

    def _left(self, share: float) -> float:
        """Seconds until that share of the time is used; 0 when it is."""
        return max(0.0, self._begin + share * self._seconds - time.monotonic())

    def _look(self, share: float) -> None:
        if not self._left(share):
            raise OutOfTime

    def _step(self, step: str) -> None:
        self._progress(step)
        self._look(1.0)
