"""Metrics against formulas written down another way."""

import numpy as np
import pytest
from scipy import special, stats

from vit_edge.accuracy.metrics import (
    accuracy,
    agreement,
    class_losses,
    confidences,
    correct,
    reliability,
    wilson_interval,
)


@pytest.fixture
def logits() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Baseline and model outputs (1100, 10) float32, and labels: more rows than are worked on at a time."""
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 10, 1100)
    before = rng.standard_normal((1100, 10)).astype(np.float32)
    before[np.arange(1100), labels] += 2
    return before, (before + 0.3 * rng.standard_normal((1100, 10))).astype(np.float32), labels


def test_top_k_counts_the_label_among_the_best(logits: tuple[np.ndarray, ...]) -> None:
    before, _, labels = logits
    order = np.argsort(-before, axis=1, kind="stable")
    for k in (1, 5):
        expected = [label in row[:k] for row, label in zip(order.tolist(), labels.tolist(), strict=True)]
        assert correct(before, labels, k).tolist() == expected
    assert 0.3 < accuracy(before, labels).top1 < 0.9


def test_of_equal_outputs_the_lower_index_comes_first() -> None:
    outputs = np.zeros((2, 8), np.float32)
    assert correct(outputs, np.array([0, 1])).tolist() == [True, False]
    assert correct(outputs, np.array([4, 5]), 5).tolist() == [True, False]
    assert accuracy(np.zeros((2, 5), np.float32), np.array([0, 1])).top5 is None


def test_agreement_equals_the_formulas(logits: tuple[np.ndarray, ...]) -> None:
    before, after, _ = logits
    found = agreement(before, after)
    a, b = before.astype(np.float64), after.astype(np.float64)
    ratios = [np.linalg.norm(y - x) / np.linalg.norm(x) for x, y in zip(a, b, strict=True)]
    p, q = special.softmax(a, axis=1), special.softmax(b, axis=1)
    assert found.argmax == np.mean(a.argmax(1) == b.argmax(1)) < 1
    assert found.relative_l2 == pytest.approx(np.linalg.norm(b - a) / np.linalg.norm(a), rel=1e-12)
    assert found.relative_l2_median == pytest.approx(np.median(ratios), rel=1e-12)
    assert found.relative_l2_worst == pytest.approx(max(ratios), rel=1e-12)
    assert found.sqnr_db == pytest.approx(10 * np.log10((a**2).sum() / ((b - a) ** 2).sum()), rel=1e-12)
    assert found.kl == pytest.approx(stats.entropy(p, q, axis=1).mean(), rel=1e-9)
    assert found.kl != pytest.approx(stats.entropy(q, p, axis=1).mean(), rel=1e-3)  # the direction matters


def test_probabilities_are_taken_as_they_are(logits: tuple[np.ndarray, ...]) -> None:
    before, after, labels = logits
    p, q = (special.softmax(x.astype(np.float64), axis=1).astype(np.float32) for x in (before, after))
    assert agreement(p, q, "probabilities").kl == pytest.approx(agreement(before, after).kl, rel=1e-4)
    assert accuracy(p, labels, "probabilities").ece == pytest.approx(accuracy(before, labels).ece, abs=1e-3)


def test_equal_outputs_have_no_noise(logits: tuple[np.ndarray, ...]) -> None:
    found = agreement(logits[0], logits[0])
    assert (found.argmax, found.relative_l2, found.sqnr_db, found.kl) == (1, 0, None, 0)


def test_probabilities_of_zero_do_not_make_infinity() -> None:
    p = np.array([[1, 0]], np.float32)
    q = np.array([[0, 1]], np.float32)
    assert np.isfinite(agreement(p, q, "probabilities").kl)


def test_calibration_error_of_a_model_that_knows_what_it_knows() -> None:
    rng = np.random.default_rng(0)
    score = rng.uniform(0.2, 1, 200_000)
    bins = reliability(score, rng.uniform(size=score.size) < score)
    gap = sum(each.images * abs(each.confidence - each.accuracy) for each in bins) / score.size
    assert gap < 0.006  # sampling noise of 13,000 images a bin is 0.004
    assert sum(each.images for each in bins) == score.size


def test_calibration_error_by_hand() -> None:
    score = np.array([0.95, 0.99, 0.5, 0.0, 1.0])
    right = np.array([True, False, True, False, True])
    bins = {each.images: each for each in reliability(score, right)}
    assert sorted(each.images for each in reliability(score, right)) == [1, 1, 3]
    assert bins[3].accuracy == pytest.approx(2 / 3)
    assert bins[3].confidence == pytest.approx((0.95 + 0.99 + 1) / 3)


def test_confidence_and_margin() -> None:
    found = confidences(np.log(np.array([[0.7, 0.2, 0.1], [0.3, 0.3, 0.4]], np.float32)))
    assert found.predicted.tolist() == [0, 2]
    np.testing.assert_allclose(found.score, [0.7, 0.4], rtol=1e-6)
    np.testing.assert_allclose(found.margin, [0.5, 0.1], rtol=1e-5)


@pytest.mark.parametrize(("right", "n"), [(0, 10), (10, 10), (7, 10), (660, 800)])
def test_wilson_interval_is_scipys(right: int, n: int) -> None:
    expected = stats.binomtest(right, n).proportion_ci(method="wilson")
    np.testing.assert_allclose(wilson_interval(right, n), [expected.low, expected.high], atol=1e-12)


def test_classes_that_lost_most_come_first() -> None:
    labels = np.array([0, 0, 0, 1, 1, 7])
    before = np.array([1, 1, 1, 1, 0, 0], bool)
    after = np.array([0, 0, 1, 1, 1, 0], bool)
    found = class_losses(before, after, labels)
    rows = [(each.label, each.images, each.baseline_right, each.model_right) for each in found]
    assert rows == [(0, 3, 3, 1), (7, 1, 0, 0), (1, 2, 1, 2)]
