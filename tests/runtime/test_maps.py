"""Maps as pictures: the documented scale, whole files, one line on failure."""

import numpy as np
import pytest
from PIL import Image

from vit_edge.runtime.errors import ConfigError
from vit_edge.runtime.maps import map_pixels, write_map
from vit_edge.runtime.prediction import Prediction


@pytest.mark.parametrize(
    ("values", "pixels"),
    [
        ([[0.0, 0.5], [0.25, 1.0]], [[0, 128], [64, 255]]),
        ([[0.2, 0.2], [0.2, 0.2]], [[51, 51], [51, 51]]),
        ([[-1.0, 0.0], [1.0, 3.0]], [[0, 64], [128, 255]]),
        ([[7.0, 7.0], [7.0, 7.0]], [[0, 0], [0, 0]]),
    ],
)
def test_scale(values, pixels):
    assert map_pixels(np.array(values, np.float32)).tolist() == pixels


def test_the_file_is_a_grey_png_and_nothing_else_is_left(tmp_path):
    values = np.linspace(0, 1, 12, dtype=np.float32).reshape(3, 4)
    write_map(values, tmp_path / "a.map.png")
    with Image.open(tmp_path / "a.map.png") as image:
        assert (image.format, image.mode, image.size) == ("PNG", "L", (4, 3))
        assert np.array_equal(np.asarray(image), map_pixels(values))
    assert [path.name for path in tmp_path.iterdir()] == ["a.map.png"]


def test_a_folder_that_is_not_there(tmp_path):
    with pytest.raises(ConfigError, match="cannot be written"):
        write_map(np.zeros((2, 2), np.float32), tmp_path / "none" / "a.png")


def test_only_a_map_has_a_map():
    values = np.arange(6, dtype=np.float32)
    assert Prediction(values, (), "map", (2, 3)).map.tolist() == [[0, 1, 2], [3, 4, 5]]
    with pytest.raises(ConfigError, match="gives logits, not a map"):
        _ = Prediction(values).map
