"""Wrong orders of labels are recognised; models that are merely bad are not blamed on the labels."""

import numpy as np
import pytest

from vit_edge.accuracy.alignment import check_alignment, looks_misaligned
from vit_edge.accuracy.errors import MisalignedError


def _noisy(labels: np.ndarray, share: float, classes: int, seed: int) -> np.ndarray:
    """Predictions that are right but for a share of random ones."""
    rng = np.random.default_rng(seed)
    return np.where(rng.uniform(size=labels.size) < share, rng.integers(0, classes, labels.size), labels)


@pytest.fixture
def truth() -> np.ndarray:
    return np.random.default_rng(0).integers(0, 1000, 800)


def test_two_models_that_agree_against_the_labels(truth: np.ndarray) -> None:
    shuffled = np.random.default_rng(1).permutation(1000)[truth]
    sign = looks_misaligned(shuffled, _noisy(truth, 0.2, 1000, 2), _noisy(truth, 0.2, 1000, 3))
    assert sign is not None
    assert "agree" in sign


def test_labels_that_start_at_one(truth: np.ndarray) -> None:
    sign = looks_misaligned(truth + 1, _noisy(truth, 0.3, 1000, 2))
    assert sign is not None
    assert "-1" in sign


def test_ten_classes_sorted_another_way() -> None:
    labels = np.random.default_rng(0).integers(0, 10, 300)
    swapped = np.array([0, 2, 1, 4, 3, 6, 5, 8, 7, 9])[labels]  # two of ten classes are right
    assert looks_misaligned(swapped, _noisy(labels, 0.1, 10, 1)) is not None


def test_two_classes_swapped() -> None:
    labels = np.random.default_rng(0).integers(0, 2, 100)
    with pytest.raises(MisalignedError, match="labels look misaligned"):
        check_alignment(1 - labels, _noisy(labels, 0.1, 2, 1))


@pytest.mark.parametrize("share", [0.0, 0.3, 0.6, 0.9])
def test_right_labels_pass_whatever_the_accuracy(truth: np.ndarray, share: float) -> None:
    before, after = _noisy(truth, share, 1000, 2), _noisy(truth, share, 1000, 3)
    assert looks_misaligned(truth, before) is None
    assert looks_misaligned(truth, before, after) is None


@pytest.mark.parametrize("classes", [2, 10, 1000])
def test_a_broken_model_is_not_blamed_on_the_labels(classes: int) -> None:
    rng = np.random.default_rng(0)
    labels = rng.integers(0, classes, 800)
    stuck = np.full(800, 1)
    assert looks_misaligned(labels, rng.integers(0, classes, 800)) is None
    assert looks_misaligned(labels, stuck) is None
    assert looks_misaligned(labels, _noisy(labels, 0.2, classes, 1), stuck) is None  # a good baseline, a dead model
    uneven = np.where(rng.uniform(size=800) < 0.9, 0, labels)
    assert looks_misaligned(uneven, stuck) is None


def test_a_handful_of_images_accuses_nobody() -> None:
    assert looks_misaligned(np.array([1, 2, 3]), np.array([0, 1, 2]), np.array([0, 1, 2])) is None
