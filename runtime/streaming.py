"""Frames of a camera: read in a thread of their own, so that the newest is at hand when the model is free."""

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from threading import Condition, Thread
from typing import Literal, get_args

from vit_edge.runtime.arguments import whole_number
from vit_edge.runtime.errors import ConfigError
from vit_edge.runtime.images import ImageLike
from vit_edge.runtime.prediction import Prediction

__all__ = ["Drop", "FrameReader", "StreamedPrediction", "check_stream_options"]

Drop = Literal["oldest", "none"]

_MOST_WAITING = 1024  # frames in memory


@dataclass(frozen=True, slots=True)
class StreamedPrediction:
    """A frame and what the model says to it; gaps between the numbers are frames that were dropped."""

    index: int  # of the frame in the source, from 0
    frame: ImageLike
    prediction: Prediction


def check_stream_options(max_queue: int, drop: str) -> int:
    """The queue's length.

    Raises:
        ConfigError: One of them cannot be used.
    """
    if drop not in get_args(Drop):
        raise ConfigError(f"got drop {str(drop)[:40]!r}, expected {' or '.join(get_args(Drop))}")
    return whole_number(max_queue, "max_queue", _MOST_WAITING)


class FrameReader:
    """Iterates over (number, frame) while another thread reads the source.

    An error of the source is raised here, behind the frames read before it. After `stop` the thread ends with the
    frame that it is waiting for, and closes the source where that is a generator.
    """

    def __init__(self, frames: Iterable[ImageLike], max_queue: int, drop: Drop) -> None:
        self._frames, self._max_queue, self._drop = frames, max_queue, drop
        self._waiting: deque[tuple[int, ImageLike]] = deque()
        self._changed = Condition()
        self._ended = self._stopped = False
        self._error: BaseException | None = None
        self._thread = Thread(target=self._read, name="vit-edge frames", daemon=True)

    def __iter__(self) -> Iterator[tuple[int, ImageLike]]:
        self._thread.start()
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting or self._ended)
                if not self._waiting:
                    break
                item = self._waiting.popleft()
                self._changed.notify_all()
            yield item
        self._thread.join()
        if self._error is not None:
            raise self._error

    def stop(self) -> None:
        """Read no further frame."""
        with self._changed:
            self._stopped = True
            self._waiting.clear()
            self._changed.notify_all()

    def _read(self) -> None:
        try:
            self._read_all()
        except BaseException as error:  # whatever the source raises belongs to the one who asked for frames
            self._error = error
        finally:
            with self._changed:
                self._ended = True
                self._changed.notify_all()

    def _read_all(self) -> None:
        source = iter(self._frames)
        for item in enumerate(source):
            if not self._put(item):
                close = getattr(source, "close", None)
                if close is not None:
                    close()
                return

    def _put(self, item: tuple[int, ImageLike]) -> bool:
        """Queue a frame; false where none is wanted any more."""
        with self._changed:
            if self._drop == "none":
                self._changed.wait_for(lambda: self._stopped or len(self._waiting) < self._max_queue)
            if self._stopped:
                return False
            if len(self._waiting) >= self._max_queue:
                self._waiting.popleft()
            self._waiting.append(item)
            self._changed.notify_all()
            return True
