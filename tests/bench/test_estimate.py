"""Figures from rounds: quantiles, and the sign test's interval against a published table."""

import numpy as np
import pytest

from vit_edge.bench.estimate import Ratio, latency, ratio


def test_quantiles_are_in_milliseconds_over_all_bursts() -> None:
    seconds = np.arange(101) / 1000  # 0 … 100 ms
    found = latency([seconds[:40], seconds[40:]])
    assert (found.p50, found.p90, found.p99) == pytest.approx((50, 90, 99))
    assert found.runs == 101


# Order statistics that enclose the median with at least 95 %: a standard table of the sign test, two-sided 0.05.
@pytest.mark.parametrize(("rounds", "rank"), [(6, 1), (8, 1), (9, 2), (12, 3), (15, 4), (20, 6), (25, 8)])
def test_interval_of_the_sign_test(rounds: int, rank: int) -> None:
    base = np.random.default_rng(0).permutation(np.arange(1.0, rounds + 1))
    found = ratio(base, np.ones(rounds))
    assert (found.low, found.high) == (rank, rounds + 1 - rank)
    assert found.value == (rounds + 1) / 2
    assert found.rounds == rounds


@pytest.mark.parametrize("rounds", [1, 2, 5])
def test_too_few_rounds_give_no_interval(rounds: int) -> None:
    found = ratio(np.full(rounds, 2.0), np.ones(rounds))
    assert found == Ratio(2.0, None, None, rounds)
    assert found.outcome == "undecided"


@pytest.mark.parametrize(
    ("low", "high", "outcome"),
    [(1.1, 1.3, "faster"), (0.7, 0.9, "slower"), (0.9, 1.1, "undecided"), (1.0, 1.2, "undecided")],
)
def test_outcomes(low: float, high: float, outcome: str) -> None:
    assert Ratio((low + high) / 2, low, high, 12).outcome == outcome


def test_a_slow_round_that_slows_both_changes_nothing() -> None:
    slow = np.where(np.arange(12) < 5, 10.0, 1.0)  # five rounds beside other work
    found = ratio(2 * slow, slow)
    assert (found.low, found.value, found.high) == (2, 2, 2)
