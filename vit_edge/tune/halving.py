"""Successive halving: many candidates on few images and rounds, the better half of them on more."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from vit_edge.accuracy import pair
from vit_edge.accuracy.metrics import wilson_interval
from vit_edge.tune.errors import OutOfTime, TuneError
from vit_edge.tune.front import Point, ranked
from vit_edge.tune.space import BASE, Candidate, Variant
from vit_edge.tune.state import State

__all__ = ["Found", "Rung", "Timing", "Workbench", "halve", "rungs"]

_FEWEST_IMAGES, _ROUNDS = 50, (3, 6, 12)
_KEPT = 3  # at least, so that there is a front


@dataclass(frozen=True, slots=True)
class Rung:
    """How much is measured of each candidate: the first `images` images, and so many rounds."""

    images: int
    rounds: int


@dataclass(frozen=True, slots=True)
class Timing:
    """Of one candidate: milliseconds, and times as fast as the given model."""

    p50: float
    speed: float


class Workbench(Protocol):
    """What makes and measures. Each method raises OutOfTime when the time is up."""

    def make(self, variant: Variant) -> str | None:
        """Make the file; why it cannot be made, or None."""
        ...

    def score(self, variant: Variant, first: int, last: int) -> str:
        """Answer the images first..last-1: `1` for right and `0` for wrong."""
        ...

    def time(self, candidates: Sequence[Candidate], rounds: int) -> dict[str, Timing | str]:
        """Time candidates, the first of which is the given model.

        Returns:
            Name -> figures, or why there are none; those that there was no time for are absent.
        """
        ...


@dataclass(frozen=True, slots=True)
class Found:
    """What the search found.

    Attributes:
        points: all that reached the last rung that has any, with the same images and rounds.
        dropped: those that an earlier rung left behind.
        failed: name -> why.
        untried: what there was no time for, in words.
    """

    points: tuple[Point, ...]
    dropped: tuple[Point, ...]
    failed: dict[str, str]
    untried: tuple[str, ...]


def rungs(images: int) -> tuple[Rung, ...]:
    """Three steps: about a ninth, a third and all of the images."""
    counts = [min(images, max(_FEWEST_IMAGES, math.ceil(images / share))) for share in (9, 3, 1)]
    return tuple(Rung(*each) for each in zip(counts, _ROUNDS, strict=True))


def halve(
    everything: Sequence[Candidate],
    steps: Sequence[Rung],
    bench: Workbench,
    state: State,
    progress: Callable[[str], None] = lambda step: None,
) -> Found:
    """Search. Each finished piece of work is in `state` before the next begins.

    Args:
        everything: the first is the given model as it is, which stays to the end.
        steps: of `rungs`.
        bench: what makes and measures.
        state: what an earlier, interrupted search has done already.
        progress: called with each step.

    Raises:
        TuneError: nothing could be measured.
    """
    untried: list[str] = []
    alive = _made(everything, bench, state, untried, progress)
    points: tuple[Point, ...] = ()
    dropped: tuple[Point, ...] = ()
    for number, rung in enumerate(steps):
        stopped = _measure(alive, number, rung, bench, state, progress)
        reached = _points(alive, number, rung, state)
        if stopped:
            there = {each.candidate for each in reached}
            depth = f"{rung.images:,} images and {rung.rounds} rounds"
            untried += [f"{each.name}: not with {depth}" for each in alive if each not in there]
            points = points or reached  # figures of unequal weight are not compared: the rung before it stands
            break
        if points:
            dropped += tuple(each for each in points if each.candidate not in alive)
        points = reached
        alive = tuple(each.candidate for each in _better_half(points))
    if not points:
        raise TuneError(
            "the time was too short to measure one candidate: give more --minutes, the same command goes on"
        )
    return Found(points, dropped, dict(state.failed), tuple(untried))


def _made(
    everything: Sequence[Candidate],
    bench: Workbench,
    state: State,
    untried: list[str],
    progress: Callable[[str], None],
) -> tuple[Candidate, ...]:
    """The candidates whose files are there."""
    there: list[Variant] = []
    for variant in dict.fromkeys(each.variant for each in everything):
        if variant.name in state.failed:
            continue
        if variant.name not in state.made:
            progress(f"make {variant.name}")
            try:
                problem = bench.make(variant)
            except OutOfTime:
                untried.append(f"{variant.name}: not made")
                continue
            if problem is not None:
                state.fail(variant.name, problem)
                continue
            state.make(variant.name)
        there.append(variant)
    if BASE not in there:
        raise TuneError(f"the given model cannot be run: {state.failed.get(BASE.name, 'the time is up')}")
    return tuple(each for each in everything if each.variant in there)


def _measure(
    alive: Sequence[Candidate], number: int, rung: Rung, bench: Workbench, state: State,
    progress: Callable[[str], None],
) -> bool:  # fmt: skip
    """One rung; was the time up before it was through?"""
    try:
        _score(alive, rung, bench, state, progress)
        _time(alive, number, rung, bench, state, progress)
    except OutOfTime:
        return True
    return any(state.timing(number, each.name) is None and each.name not in state.failed for each in alive)


def _score(
    alive: Sequence[Candidate], rung: Rung, bench: Workbench, state: State, progress: Callable[[str], None]
) -> None:
    for variant in dict.fromkeys(each.variant for each in alive):
        done = len(state.right.get(variant.name, ""))
        if done < rung.images:
            progress(f"{variant.name}: images {done + 1:,} to {rung.images:,}")
            state.score(variant.name, bench.score(variant, done, rung.images))


def _time(
    alive: Sequence[Candidate], number: int, rung: Rung, bench: Workbench, state: State,
    progress: Callable[[str], None],
) -> None:  # fmt: skip
    missing = [each for each in alive if state.timing(number, each.name) is None and each.name not in state.failed]
    if not missing:
        return
    progress(f"time {len(missing)} candidates, {rung.rounds} rounds")
    base = alive[0]
    found = bench.time([base, *(each for each in missing if each != base)], rung.rounds)
    for name, each in found.items():
        if isinstance(each, str):
            state.fail(name, each)
    state.time(number, {name: (each.p50, each.speed) for name, each in found.items() if isinstance(each, Timing)})


def _points(alive: Sequence[Candidate], number: int, rung: Rung, state: State) -> tuple[Point, ...]:
    """The candidates that have both figures of this rung, compared on the same images."""
    base, points = state.bits(BASE.name, rung.images), []
    for each in alive:
        own, timing = state.bits(each.variant.name, rung.images), state.timing(number, each.name)
        if own is None or timing is None or base is None:
            continue
        right = int(own.sum())
        points.append(
            Point(
                candidate=each, right=right, images=rung.images, interval=wilson_interval(right, rung.images),
                paired=pair(base, own), p50=timing[0], speed=timing[1], rounds=rung.rounds,
            )
        )  # fmt: skip
    return tuple(points)


def _better_half(points: Sequence[Point]) -> tuple[Point, ...]:
    """The given model, then front by front, at least three; in the order they came."""
    count = max(_KEPT, math.ceil(len(points) / 2))
    kept = {point.candidate for point in ranked(points)[:count]} | {points[0].candidate}
    return tuple(point for point in points if point.candidate in kept)
