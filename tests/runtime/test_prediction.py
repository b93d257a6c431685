"""Scores are what the logits say, sorted, named, and there only where they mean something."""

import numpy as np
import pytest

from vit_edge.runtime.errors import ConfigError
from vit_edge.runtime.prediction import Label, Prediction


def test_prediction_without_labels_and_with_ties():
    prediction = Prediction(np.array([1.0, 3.0, 3.0, 2.0], np.float32))
    assert [label.index for label in prediction.top] == [1, 2, 3, 0]
    assert prediction.top[0] == Label(1, "1", prediction.top[0].score)
    assert prediction.best(99) == prediction.top
    with pytest.raises(ConfigError, match="got k = 0"):
        prediction.best(0)


def test_softmax_neither_overflows_nor_loses_small_scores():
    prediction = Prediction(np.array([1e4, 1e4 - 40, -1e4], np.float32))
    assert prediction.top[0].score == 1.0
    assert prediction.top[1].score == pytest.approx(np.exp(-40), rel=1e-12)
    assert prediction.top[2].score == 0.0


def test_probabilities_are_scores_as_they_are():
    prediction = Prediction(np.array([0.25, 0.75], np.float32), ("a", "b"), "probabilities")
    assert prediction.top == (Label(1, "b", 0.75), Label(0, "a", 0.25))


@pytest.mark.parametrize("kind", ["features", "tokens"])
def test_features_have_no_scores(kind):
    prediction = Prediction(np.zeros(3, np.float32), (), kind)
    with pytest.raises(ConfigError, match=f"the model gives {kind}, not class scores"):
        prediction.best(1)
