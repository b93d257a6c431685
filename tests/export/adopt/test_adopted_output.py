"""What an output is, from its shape and values, and what a wrong word about it is answered with."""

import numpy as np
import pytest

from vit_edge.export.adopted_output import output_info
from vit_edge.export.errors import ExportError
from vit_edge.runtime.errors import ConfigError

SIZE = (32, 64)


def normal(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).standard_normal((7, *shape)).astype(np.float32)


def softmax(rows: np.ndarray) -> np.ndarray:
    exponentials = np.exp(rows)
    return exponentials / exponentials.sum(axis=1, keepdims=True)


@pytest.mark.parametrize(
    ("outputs", "kind", "classes", "shape"),
    [
        (normal(5), "logits", 5, ()),
        (softmax(normal(5)), "probabilities", 5, ()),
        (normal(5, 1, 1), "logits", 5, ()),
        (normal(1, 1, 5), "logits", 5, ()),
        (normal(1), "features", 1, ()),
        (normal(1, 8, 8), "map", 64, (8, 8)),
        (normal(8, 8, 1), "map", 64, (8, 8)),
        (normal(4, 8), "map", 32, (4, 8)),  # of the images' proportions
    ],
)
def test_kinds_are_told(outputs, kind, classes, shape):
    info = output_info("y", outputs, None, SIZE)
    assert (info.kind, info.classes, info.shape) == (kind, classes, shape)


def test_what_is_not_clear_is_asked():
    with pytest.raises(ConfigError, match=r"\('N', 17, 32\).*features or tokens, or map"):
        output_info("y", normal(17, 32), None, SIZE)
    with pytest.raises(ConfigError, match=r"features or tokens$"):
        output_info("y", normal(4, 8, 8), None, SIZE)
    with pytest.raises(ConfigError, match="one sigmoid a class"):
        output_info("y", 1 / (1 + np.exp(-normal(5))), None, SIZE)
    assert output_info("y", normal(17, 32), "tokens", SIZE).shape == (17, 32)
    assert output_info("y", normal(4, 8, 8), "features", SIZE).classes == 256


def test_wrong_words_about_scores_are_refused():
    with pytest.raises(ConfigError, match="--output probabilities: the outputs are within -"):
        output_info("y", normal(5), "probabilities", SIZE)
    with pytest.raises(ConfigError, match=r"--output logits: .*sum to 1"):
        output_info("y", softmax(normal(5)), "logits", SIZE)
    with pytest.raises(ConfigError, match="a map is"):
        output_info("y", normal(2, 8, 8), "map", SIZE)


def test_outputs_that_prove_nothing_are_refused():
    with pytest.raises(ExportError, match="not finite"):
        output_info("y", np.full((7, 5), np.nan, np.float32), None, SIZE)
    with pytest.raises(ExportError, match="hardly depend on the image"):
        output_info("y", np.ones((7, 5), np.float32), None, SIZE)
