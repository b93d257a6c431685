"""Candidates with their figures, and those of them that no other beats in both accuracy and time."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from vit_edge.accuracy import Paired
from vit_edge.tune.space import Candidate

__all__ = ["Point", "front", "ranked"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """A measured candidate.

    Attributes:
        candidate: what was measured.
        right: images answered rightly.
        images: of so many.
        interval: 95 % of the accuracy (Wilson), 0..1.
        paired: against the given model on the same images.
        p50: milliseconds of one image.
        speed: times as fast as the given model, rounds paired.
        rounds: of timing.
    """

    candidate: Candidate
    right: int
    images: int
    interval: tuple[float, float]
    paired: Paired
    p50: float
    speed: float
    rounds: int

    @property
    def accuracy(self) -> float:
        """Share of the images, 0..1."""
        return self.right / self.images


def front(points: Iterable[Point]) -> tuple[Point, ...]:
    """The Pareto front, fastest first: each is more accurate than all that are as fast or faster.

    So accuracy rises with latency, always. Of equal accuracy the faster stays, of equal time the more accurate; what
    is left is decided by name.
    """
    chosen: list[Point] = []
    for each in sorted(points, key=lambda point: (point.p50, -point.accuracy, point.candidate.name)):
        if not chosen or each.accuracy > chosen[-1].accuracy:
            chosen.append(each)
    return tuple(chosen)


def ranked(points: Sequence[Point]) -> tuple[Point, ...]:
    """All of them, front by front: the first front, then the front of what is left, and so on."""
    left, order = list(points), list[Point]()
    while left:
        best = front(left)
        order += best
        left = [each for each in left if each not in best]
    return tuple(order)
