"""Frames of a camera, threads and asyncio; events decide who goes first, never the clock."""

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from vit_edge.runtime import Predictor
from vit_edge.runtime.errors import ConfigError, InputError

WAIT = 60  # seconds after which a test fails instead of hanging


@pytest.fixture
def predictor(write_model):
    return Predictor(write_model(), threads=1)


@pytest.fixture(scope="module")
def pixels():
    return np.random.default_rng(3).integers(0, 256, size=(8, 8, 8, 3), dtype=np.uint8)


def test_nothing_is_dropped_where_the_source_waits(predictor, pixels):
    found = list(predictor.stream(iter(pixels), max_queue=2, drop="none"))
    assert [each.index for each in found] == list(range(8))
    for each in found:
        np.testing.assert_array_equal(each.frame, pixels[each.index])
        np.testing.assert_array_equal(each.prediction.logits, predictor(pixels[each.index]).logits)


@pytest.mark.parametrize(("max_queue", "expected"), [(1, [0, 7]), (3, [0, 5, 6, 7])])
def test_the_oldest_are_dropped_where_the_model_is_slower(predictor, pixels, max_queue, expected):
    taken, all_read = threading.Event(), threading.Event()

    def camera():
        yield pixels[0]
        assert taken.wait(WAIT)  # the model has the first frame; all others come while it works
        yield from pixels[1:]
        all_read.set()

    found = []
    for each in predictor.stream(camera(), max_queue=max_queue):
        found.append(each.index)
        taken.set()
        assert all_read.wait(WAIT)
    assert found == expected


def test_an_error_of_the_source_is_raised_behind_its_frames(predictor, pixels):
    def camera():
        yield pixels[0]
        raise OSError("the cable is out")

    stream = predictor.stream(camera(), drop="none")
    assert next(stream).index == 0
    with pytest.raises(OSError, match="the cable is out"):
        next(stream)
    assert list(stream) == []


@pytest.mark.parametrize("drop", ["oldest", "none"])
def test_leaving_the_loop_ends_the_source(predictor, pixels, drop):
    left, closed = threading.Event(), threading.Event()

    def camera():
        try:
            yield pixels[0]
            yield pixels[1]
            assert left.wait(WAIT)
            while True:
                yield pixels[2]
        finally:
            closed.set()

    stream = predictor.stream(camera(), drop=drop)
    next(stream)
    stream.close()
    left.set()
    assert closed.wait(WAIT)


def test_a_frame_that_cannot_be_read_ends_the_stream(predictor, pixels):
    with pytest.raises(InputError):
        list(predictor.stream([pixels[0], b"no image"], drop="none"))


def test_an_empty_source(predictor):
    assert list(predictor.stream([])) == []


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"max_queue": 0}, ConfigError, "got max_queue 0"),
        ({"max_queue": 10**6}, ConfigError, "expected a whole number, 1..1024"),
        ({"drop": "newest"}, ConfigError, "got drop 'newest', expected oldest or none"),
        ({"frames": "cat.jpg"}, InputError, "got one str, expected several"),
    ],
)
def test_wrong_arguments_are_told_at_once(predictor, arguments, error, message):
    frames = arguments.pop("frames", [])
    with pytest.raises(error, match=message):
        predictor.stream(frames, **arguments)


def test_asyncio(predictor, pixels):
    async def main():
        return await asyncio.gather(*(asyncio.to_thread(predictor, image) for image in pixels))

    for image, prediction in zip(pixels, asyncio.run(main()), strict=True):
        np.testing.assert_array_equal(prediction.logits, predictor(image).logits)


def test_threads_share_a_predictor(predictor, pixels):
    """All begin together, and each gets the answer to its own image."""
    expected = [predictor(image).logits for image in pixels]
    begin = threading.Barrier(len(pixels), timeout=WAIT)

    def work(i):
        begin.wait()
        return [predictor(pixels[(i + step) % len(pixels)]).logits for step in range(20)]

    with ThreadPoolExecutor(len(pixels)) as pool:
        for i, answers in enumerate(pool.map(work, range(len(pixels)))):
            for step, logits in enumerate(answers):
                np.testing.assert_array_equal(logits, expected[(i + step) % len(pixels)])
