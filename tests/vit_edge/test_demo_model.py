"""The model and the ten images that ship with the package."""

from importlib import resources

import numpy as np
import pytest
import torch
from PIL import Image

from vit_edge.checkpoints import load_checkpoint
from vit_edge.runtime.preprocess import normalise, prepare

DEMO = resources.files("vit_edge.demo")


@pytest.fixture(scope="module")
def digits():
    with resources.as_file(DEMO / "digits.safetensors") as path:
        return load_checkpoint(path)


def test_the_file_is_smaller_than_a_megabyte():
    assert len((DEMO / "digits.safetensors").read_bytes()) < 1_000_000


def test_the_checkpoint_says_what_it_is(digits):
    assert digits.name == "digits"
    assert digits.labels == tuple("0123456789")
    assert not digits.heads_assumed
    assert digits.preprocess.size == digits.model.config.image_size == (28, 28)
    assert digits.preprocess.channels == digits.model.config.channels == 1


def test_the_accuracy_it_states_was_measured_on_the_whole_test_set(digits):
    assert digits.about["data"] == "MNIST"
    assert digits.about["test_images"] == 10_000
    assert digits.about["test_accuracy"] >= 0.985


def test_the_ten_images_are_classified_right_and_most_with_confidence(digits):
    images = [Image.open(DEMO / "digits" / f"{digit}.png") for digit in range(10)]
    assert {(image.size, image.mode) for image in images} == {((28, 28), "L")}
    inputs = np.stack([prepare(image, digits.preprocess) for image in images])
    scores = digits.model(torch.from_numpy(inputs)).softmax(dim=1)
    assert scores.argmax(1).tolist() == list(range(10))
    assert int((scores.amax(1) > 0.9).sum()) >= 8


@pytest.mark.real
def test_the_accuracy_on_the_real_test_images_is_what_it_states(shared, digits):
    with np.load(shared / "data" / "mnist.npz") as data:
        # every fifth image: the file is sorted by class, so its first 2,000 are zeros and ones only
        pixels, classes = data["x_test"][::5], data["y_test"][::5]
    assert len(classes) == 2_000
    assert np.bincount(classes, minlength=10).min() > 150
    inputs = torch.from_numpy(normalise(pixels[..., np.newaxis], digits.preprocess))
    right = (digits.model(inputs).argmax(1).numpy() == classes).mean()
    assert right >= 0.985
    assert right == pytest.approx(digits.about["test_accuracy"], abs=0.005)
