"""From rounds to figures: quantiles, ratios with intervals, verdicts in words."""

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

__all__ = ["Latency", "Ratio", "latency", "ratio"]

Seconds = npt.NDArray[np.float64]
_CONFIDENCE = 0.95


@dataclass(frozen=True, slots=True)
class Latency:
    """Milliseconds of one run, over all runs that count."""

    p50: float
    p90: float
    p99: float
    runs: int


@dataclass(frozen=True, slots=True)
class Ratio:
    """How many times as fast as the first candidate: median over the rounds, and an interval of at least 95 %.

    `low` and `high` are None with fewer than 6 rounds, which cannot give such an interval.
    """

    value: float
    low: float | None
    high: float | None
    rounds: int

    @property
    def outcome(self) -> str:
        """`faster`, `slower`, or `undecided` where the interval has 1 in it or there is none."""
        if self.low is None or self.high is None or self.low <= 1 <= self.high:
            return "undecided"
        return "faster" if self.low > 1 else "slower"


def latency(bursts: list[Seconds]) -> Latency:
    """Quantiles over the runs of all rounds."""
    runs = np.concatenate(bursts) * 1000
    p50, p90, p99 = np.quantile(runs, [0.5, 0.9, 0.99]).tolist()
    return Latency(p50, p90, p99, len(runs))


def ratio(base: Seconds, other: Seconds) -> Ratio:
    """Compare the medians of two candidates' bursts round by round.

    The interval is that of the sign test, between two order statistics, and supposes nothing about the distribution
    but that rounds are independent (Conover, Practical Nonparametric Statistics, 3rd ed., section 3.2).

    Args:
        base: (rounds,) seconds.
        other: (rounds,) seconds of the same rounds.
    """
    ratios = np.sort(base / other)
    n = len(ratios)
    below = 0.0  # P(fewer than k of n rounds are below the median), for the largest k that keeps the confidence
    rank = 0
    for k in range(n // 2 + 1):
        below += math.comb(n, k) / 2**n
        if 2 * below > 1 - _CONFIDENCE:
            break
        rank = k + 1
    if rank == 0:
        return Ratio(float(np.median(ratios)), None, None, n)
    return Ratio(float(np.median(ratios)), float(ratios[rank - 1]), float(ratios[n - rank]), n)
