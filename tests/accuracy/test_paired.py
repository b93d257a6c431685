"""The statistics hold what they promise: coverage, p-values, and verdicts at the edges."""

import math

import numpy as np
import pytest
from scipy import optimize, stats

from vit_edge.accuracy.paired import Paired, images_needed, judge, mcnemar_p, pair, tango_interval
from vit_edge.runtime.errors import ConfigError

SIMULATIONS = 2000


def _simulate(n: int, lost: float, gained: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    counts = np.random.default_rng(seed).multinomial(n, [lost, gained, 1 - lost - gained], size=SIMULATIONS)
    return counts[:, 0], counts[:, 1]


@pytest.mark.parametrize(
    ("n", "lost", "gained"),
    [
        (100, 0.05, 0.05),
        (200, 0.03, 0.02),
        (800, 0.015, 0.015),
        (800, 0.03, 0.01),
        (2300, 0.012, 0.012),
        (2300, 0.05, 0.03),
        (10_000, 0.010, 0.008),
        (50_000, 0.01, 0.01),
    ],
)
def test_interval_covers_the_true_drop_in_95_percent_of_the_cases(n: int, lost: float, gained: float) -> None:
    low, high = tango_interval(*_simulate(n, lost, gained, seed=1), n)
    drop = lost - gained
    covered = float(((low <= drop) & (drop <= high)).mean())
    assert 0.93 <= covered <= 0.97
    assert (high < drop).mean() < 0.04  # neither side alone may take more than its share, 2.5 %, and some noise
    assert (low > drop).mean() < 0.04


@pytest.mark.parametrize(("n", "lost", "gained"), [(800, 0.002, 0.002), (800, 0.0, 0.004), (50, 0.01, 0.01)])
def test_interval_is_never_too_short_for_a_handful_of_pairs(n: int, lost: float, gained: float) -> None:
    low, high = tango_interval(*_simulate(n, lost, gained, seed=2), n)
    assert ((low <= lost - gained) & (lost - gained <= high)).mean() >= 0.94


def test_the_coverage_test_would_notice_walds_interval() -> None:
    """The canary: Wald's interval is known to be too short here."""
    n, lost, gained = 100, 0.02, 0.01
    b, c = _simulate(n, lost, gained, seed=3)
    half = 1.96 * np.sqrt(b + c - (b - c) ** 2 / n) / n
    assert (np.abs((b - c) / n - (lost - gained)) <= half).mean() < 0.93


def _log_likelihood(q: float, lost: int, gained: int, n: int, drop: float) -> float:
    cells = ((lost, q + drop), (gained, q), (n - lost - gained, 1 - 2 * q - drop))
    return sum(count * math.log(share) for count, share in cells if count)


@pytest.mark.parametrize(("lost", "gained", "n"), [(9, 3, 60), (1, 6, 45), (40, 25, 800), (3, 5, 2300)])
def test_interval_equals_the_definition_solved_by_scipy(lost: int, gained: int, n: int) -> None:
    """The share of gained images by maximising the likelihood, the limits by root finding: no formula of ours."""

    def statistic(drop: float) -> float:
        bounds = (max(0.0, -drop) + 1e-12, (1 - drop) / 2 - 1e-12)
        best = optimize.minimize_scalar(
            lambda q: -_log_likelihood(q, lost, gained, n, drop),
            bounds=bounds,
            method="bounded",
            options={"xatol": 1e-13},
        )
        return float((lost - gained - n * drop) / math.sqrt(n * (2 * best.x + drop * (1 - drop))))

    z, centre = stats.norm.ppf(0.975), (lost - gained) / n
    expected = [
        optimize.brentq(lambda d: statistic(d) - z, centre - 0.3, centre),
        optimize.brentq(lambda d: statistic(d) + z, centre, centre + 0.3),
    ]
    np.testing.assert_allclose(np.array(tango_interval(lost, gained, n)), expected, atol=1e-6)


def test_without_discordant_pairs_the_interval_is_the_rule_of_three() -> None:
    z = stats.norm.ppf(0.975)
    low, high = tango_interval(0, 0, 800)
    assert float(high) == pytest.approx(z**2 / (800 + z**2), abs=1e-12)
    assert float(low) == pytest.approx(-float(high), abs=1e-12)


def test_interval_mirrors_when_the_models_change_places() -> None:
    low, high = tango_interval([9, 0, 5], [2, 7, 5], 200)
    mirrored_low, mirrored_high = tango_interval([2, 7, 5], [9, 0, 5], 200)
    np.testing.assert_allclose(low, -mirrored_high, atol=1e-12)
    np.testing.assert_allclose(high, -mirrored_low, atol=1e-12)


@pytest.mark.parametrize(
    ("lost", "gained"), [(0, 0), (1, 0), (5, 5), (12, 3), (3, 12), (40, 61), (700, 650), (2000, 0)]
)
def test_p_value_is_scipys_exact_binomial_test(lost: int, gained: int) -> None:
    expected = stats.binomtest(lost, lost + gained).pvalue if lost + gained else 1.0
    assert mcnemar_p(lost, gained) == pytest.approx(expected, rel=1e-9)


def test_pair_counts_the_four_cells() -> None:
    before = np.array([1, 1, 1, 0, 0, 1], bool)
    after = np.array([1, 0, 0, 1, 0, 1], bool)
    found = pair(before, after)
    assert (found.images, found.both_right, found.lost, found.gained, found.both_wrong) == (6, 2, 2, 1, 1)
    assert found.drop == pytest.approx(100 / 6)
    assert found.interval[0] < found.drop < found.interval[1]


def _paired(low: float, high: float, *, lost: int = 20, gained: int = 10, n: int = 1000) -> Paired:
    drop = 100 * (lost - gained) / n
    return Paired(images=n, both_right=n, lost=lost, gained=gained, both_wrong=0, drop=drop, interval=(low, high), p=1)


@pytest.mark.parametrize(
    ("low", "high", "outcome"),
    [
        (-0.2, 0.5, "pass"),  # the worst end is exactly the budget
        (-0.2, 0.5000001, "undecided"),
        (0.5, 0.9, "undecided"),  # the best end is exactly the budget: not above
        (0.5000001, 0.9, "fail"),
        (-0.9, -0.1, "pass"),
    ],
)
def test_verdict_at_the_edges_of_the_budget(low: float, high: float, outcome: str) -> None:
    assert judge(_paired(low, high), 0.5).outcome == outcome


@pytest.mark.parametrize("budget", [-0.1, 101, math.nan, math.inf])
def test_a_budget_is_a_number_of_points(budget: float) -> None:
    with pytest.raises(ConfigError, match="budget"):
        judge(_paired(0, 1), budget)


def test_as_many_images_as_are_said_to_be_needed_do_prove_the_budget() -> None:
    """With the promised power, 80 %; simulated."""
    lost, gained, budget = 0.012, 0.010, 1.0
    n = images_needed(lost + gained, 100 * (lost - gained), budget)
    assert n is not None
    _, high = tango_interval(*_simulate(n, lost, gained, seed=4), n)
    assert 0.74 <= (100 * high <= budget).mean() <= 0.88


def test_even_without_any_discordance_a_budget_needs_images() -> None:
    n = images_needed(0.0, 0.0, 0.5)
    assert n is not None
    assert 100 * float(tango_interval(0, 0, n)[1]) <= 0.5 < 100 * float(tango_interval(0, 0, n - 2)[1])


def test_no_number_of_images_proves_a_drop_above_the_budget() -> None:
    assert images_needed(0.05, 0.6, 0.5) is None
    verdict = judge(_paired(-0.2, 2.2), 0.5)  # measured drop: 1 point
    assert verdict.images_needed is not None
    assert "if there is no drop" in verdict.message
    assert judge(_paired(-1, 2, lost=1, gained=1), 0.0).images_needed is None
