"""The examples run as their docstrings say, on data small enough for a test."""

import runpy
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image, ImageChops

from vit_edge.checkpoints import load_checkpoint

ROOT = Path(__file__).resolve().parents[1]


def run_example(name, *options):
    command = [sys.executable, str(ROOT / "examples" / name), *map(str, options)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture
def sorted_data(tmp_path):
    """As mnist.npz, 400 and 100 images: a bright bar whose place tells the class, sorted by class."""
    arrays = {}
    random = np.random.default_rng(0)
    for part, count in (("train", 400), ("test", 100)):
        classes = np.sort(np.arange(count) % 10).astype(np.uint8)
        pixels = random.integers(0, 40, (count, 28, 28), dtype=np.uint8)
        for image, digit in zip(pixels, classes, strict=True):
            image[:, 4 + 2 * digit : 6 + 2 * digit] = 255
        arrays |= {f"x_{part}": pixels, f"y_{part}": classes}
    path = tmp_path / "mnist.npz"
    np.savez(path, **arrays)
    return path


@pytest.mark.slow
def test_train_digits_writes_a_checkpoint_that_loads_and_says_how_it_was_made(sorted_data, tmp_path):
    output = tmp_path / "digits.safetensors"
    options = ("--data", sorted_data, "--output", output, "--epochs", 2, "--limit", 200)
    printed = run_example("train_digits.py", *options)
    assert printed.count("validation accuracy") == 2
    checkpoint = load_checkpoint(output)
    assert checkpoint.labels == tuple("0123456789")
    about = checkpoint.about
    assert (about["train_images"], about["test_images"], about["epochs"], about["seed"]) == (200, 100, 2, 0)
    assert f"test accuracy {about['test_accuracy']:.4f}" in printed


@pytest.mark.slow
def test_train_digits_writes_the_same_bytes_again(sorted_data, tmp_path):
    for name in ("a", "b"):
        options = ("--data", sorted_data, "--output", tmp_path / name, "--epochs", 1)
        run_example("train_digits.py", *options)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_train_digits_holds_out_all_classes_of_a_sorted_file(sorted_data):
    load = runpy.run_path(str(ROOT / "examples" / "train_digits.py"))["load"]
    train, validation, test = load(sorted_data, None)
    assert (len(train), len(validation), len(test)) == (300, 100, 100)
    for part in (train, validation, test):
        assert sorted(set(part.classes.tolist())) == list(range(10))
    assert load(sorted_data, 40)[1].classes.tolist() == validation.classes[:40].tolist()


def test_draw_digits_draws_the_images_that_ship(tmp_path):
    run_example("draw_digits.py", "--output", tmp_path)
    for digit in range(10):
        drawn = Image.open(tmp_path / f"{digit}.png")
        shipped = Image.open(ROOT / "vit_edge" / "demo" / "digits" / f"{digit}.png")
        assert drawn.size == shipped.size
        assert max(ImageChops.difference(drawn, shipped).getextrema()) <= 2  # other versions of Pillow may round
