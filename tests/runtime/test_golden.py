"""Golden images are the same bits everywhere, and the check sees what it must see."""

import hashlib
from dataclasses import replace

import numpy as np
import pytest

from vit_edge.runtime.errors import ModelFileError
from vit_edge.runtime.golden import check_golden, golden_images


def mix(x):
    x = ((x ^ (x >> 16)) * 0x85EBCA6B) & 0xFFFFFFFF
    x = ((x ^ (x >> 13)) * 0xC2B2AE35) & 0xFFFFFFFF
    return x ^ (x >> 16)


def value(n, s, c, y, x):
    key = mix(0x76697465 + n)
    for part in (s, c, y, x):
        key = mix((key + part) & 0xFFFFFFFF)
    return key >> 24


def pixel(n, y, x, c, height, width):
    """The module docstring, word by word, in Python's own integers."""
    total = 0
    for s in range(5):
        cells = (2, 4, 8, 16, 0)[s]
        row, column = (y, x) if s == 4 else (y * cells // height, x * cells // width)
        total += (6, 4, 3, 2, 1)[(s + n) % 5] * value(n, s, c, row, column)
    return min(255, max(0, 128 + ((total - 2040) >> 3)))


@pytest.mark.parametrize(("height", "width", "channels"), [(7, 19, 3), (20, 5, 1)])
def test_is_what_the_docstring_says(height, width, channels):
    expected = [
        pixel(n, y, x, c, height, width)
        for n in range(6)
        for y in range(height)
        for x in range(width)
        for c in range(channels)
    ]
    got = golden_images(6, height, width, channels)
    assert got.dtype == np.uint8
    assert got.shape == (6, height, width, channels)
    assert got.ravel().tolist() == expected


def test_vector_for_other_languages():
    images = golden_images(10, 224, 224, 3)
    assert images.ravel()[:12].tolist() == [0, 56, 176, 0, 51, 206, 4, 70, 186, 0, 54, 197]
    assert (
        hashlib.sha256(images.tobytes()).hexdigest()
        == "046a4e8208467592a860242838e245cd2644d19365b753b73502cd628cd25df9"
    )


def test_images_differ_and_do_not_depend_on_the_count():
    images = golden_images(5, 32, 32, 3)
    assert (images.std(axis=(1, 2, 3)) > 30).all()
    assert len({image.tobytes() for image in images}) == 5
    np.testing.assert_array_equal(golden_images(2, 32, 32, 3), images[:2])


def test_unknown_set():
    with pytest.raises(ModelFileError, match="unknown golden set 'golden-9'"):
        golden_images(1, 8, 8, 3, "golden-9")


def test_passes_on_the_model_itself(tiny):
    report = check_golden(tiny.manifest, tiny.expected)
    assert report.passed
    assert report.argmax_equal
    assert report.worst < 2e-6
    assert "passed" in report.message


def test_images_are_run_one_at_a_time(tiny):
    sizes = []

    def run(x):
        sizes.append(x.shape)
        return tiny.expected(x)

    check_golden(tiny.manifest, run)
    assert sizes == [(1, 3, 8, 8)] * 3


def test_canary_changed_weight(tiny):
    weight = tiny.weight.copy()
    weight[100, 2] *= 1.01
    report = check_golden(tiny.manifest, lambda x: x.reshape(len(x), -1) @ weight + tiny.bias)
    assert not report.passed
    assert 2e-5 < report.worst < 1e-2
    assert "failed" in report.message


def test_canary_swapped_mean_and_std(tiny):
    spec = tiny.manifest.input.preprocess
    swapped = replace(spec, mean=spec.std, std=spec.mean)
    manifest = replace(tiny.manifest, input=replace(tiny.manifest.input, preprocess=swapped))
    report = check_golden(manifest, tiny.expected)
    assert not report.passed
    assert report.worst > 0.05


@pytest.mark.parametrize(
    "spoil",
    [
        lambda logits: np.full_like(logits, np.nan),
        lambda logits: np.full_like(logits, np.inf),
        lambda logits: logits[:, :-1],
        lambda logits: np.concatenate([logits, logits]),
    ],
    ids=["nan", "inf", "a class less", "two for one"],
)
def test_not_numbers_and_wrong_shapes_fail(tiny, spoil):
    report = check_golden(tiny.manifest, lambda x: spoil(tiny.expected(x)))
    assert not report.passed
    assert report.worst == float("inf")


def test_argmax_is_compared_where_the_margin_is_clear(tiny):
    golden = replace(tiny.manifest.golden, tolerance=0.05)
    manifest = replace(tiny.manifest, golden=golden)
    report = check_golden(manifest, lambda x: -tiny.expected(x))
    assert not report.argmax_equal
    close = replace(golden, outputs=((1.0, 0.99, 0.0, 0.0, 0.0),) * 3)
    report = check_golden(replace(manifest, golden=close), lambda x: np.array([[0.99, 1.0, 0, 0, 0]], np.float32))
    assert report.argmax_equal
    assert report.passed


def test_all_zero_outputs_are_compared_exactly(tiny):
    manifest = replace(tiny.manifest, golden=replace(tiny.manifest.golden, outputs=((0.0,) * 5,) * 3))
    assert check_golden(manifest, lambda x: np.zeros((1, 5), np.float32)).passed
    assert not check_golden(manifest, lambda x: np.full((1, 5), 1e-9, np.float32)).passed
