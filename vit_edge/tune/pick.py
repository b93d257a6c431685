"""Which candidate of the front to take, and why, in a sentence."""

from collections.abc import Sequence
from dataclasses import dataclass

from vit_edge.tune.errors import TuneError
from vit_edge.tune.front import Point

__all__ = ["Pick", "describe", "pick"]


@dataclass(frozen=True, slots=True)
class Pick:
    """The chosen point, and the reason for it."""

    point: Point
    reason: str


def describe(point: Point) -> str:
    """For people: `int8: 2.6x as fast as fp32, drop +0.2 points (-0.9 … +1.3)`."""
    low, high = point.paired.interval
    return (
        f"{point.candidate.name}: {point.speed:.2f}x as fast as fp32, "
        f"drop {point.paired.drop:+.1f} points ({low:+.1f} … {high:+.1f})"
    )


def pick(points: Sequence[Point], max_drop: float | None = None, max_latency: float | None = None) -> Pick:
    """Choose from a front.

    With `max_drop` it is the fastest whose estimated drop is within it. The estimate decides, not the interval: one
    that is within the budget to its upper end is said to be proved, any other to be likely. With `max_latency` alone
    it is the most accurate within it. With neither it is the knee.

    Args:
        points: of `front`: fastest first, at least one.
        max_drop: points of top-1.
        max_latency: milliseconds of one image (p50).

    Raises:
        TuneError: nothing is within what was asked for.
    """
    quick = [each for each in points if max_latency is None or each.p50 <= max_latency]
    if not quick:
        raise TuneError(f"nothing answers within {max_latency:g} ms: {points[0].candidate.name} is the fastest, "
                        f"with {points[0].p50:.2f} ms")  # fmt: skip
    if max_drop is not None:
        return _within(quick, max_drop, max_latency)
    if max_latency is not None:
        return Pick(quick[-1], f"the most accurate within {max_latency:g} ms")
    return _knee(points)


def _within(quick: Sequence[Point], max_drop: float, max_latency: float | None) -> Pick:
    for each in quick:
        if each.paired.drop <= max_drop:
            high = each.paired.interval[1]
            sure = "the whole interval is within it" if high <= max_drop else (
                f"likely, not proved: the interval of {each.images:,} images reaches {high:+.1f}"
            )  # fmt: skip
            return Pick(each, f"the fastest whose estimated drop is within {max_drop:g} points; {sure}")
    least = min(quick, key=lambda point: point.paired.drop)
    also = "" if max_latency is None else f" within {max_latency:g} ms"
    raise TuneError(f"nothing{also} loses {max_drop:g} points or less: the least is {describe(least)}")


def _knee(points: Sequence[Point]) -> Pick:
    """The point farthest above the line from the fastest to the most accurate, both scaled to 0..1."""
    if len(points) == 1:
        return Pick(points[0], "no other is faster or more accurate")
    fastest, best = points[0], points[-1]
    if len(points) == 2:
        if fastest.paired.interval[0] <= 0:
            return Pick(fastest, "the faster of two; its interval does not show that it loses anything")
        return Pick(best, "the more accurate of two; the faster one is proved to lose accuracy")
    time, gain = best.p50 - fastest.p50, best.accuracy - fastest.accuracy
    above = [(each.accuracy - fastest.accuracy) / gain - (each.p50 - fastest.p50) / time for each in points]
    index = max(range(len(points)), key=lambda i: above[i])
    if index == 0:  # all others lie below the line
        return Pick(fastest, "the fastest; no step from it gains accuracy as quickly as it costs time")
    return Pick(points[index], "the knee of the front: beyond it accuracy costs more time than up to it")
