"""Calibration images: read through the runtime's own preprocessing, one at a time."""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
import numpy.typing as npt

from vit_edge.runtime.errors import ConfigError, InputError
from vit_edge.runtime.golden import GOLDEN_SET, golden_images
from vit_edge.runtime.images import decode
from vit_edge.runtime.preprocess import Preprocess, normalise, prepare

__all__ = ["FEWEST", "Calibration", "ImageSet", "Synthetic"]

FEWEST = 16  # below it ranges are guesses


class ImageSet(Protocol):
    """Images to run a model on."""

    def __len__(self) -> int: ...

    def images(self) -> Iterator[npt.NDArray[np.float32]]:
        """Each image (C, height, width) float32, normalised."""

    def evenly(self, count: int) -> tuple[int, ...]:
        """The numbers of so many of them, or of all, evenly spaced."""

    def subset(self, numbers: Sequence[int]) -> "ImageSet":
        """Some of them."""

    def sha256(self) -> str:
        """Of all contents, in order."""


def _evenly(total: int, count: int) -> tuple[int, ...]:
    count = min(count, total)
    return tuple(index * total // count for index in range(count))


@dataclass(frozen=True, slots=True)
class Synthetic:
    """Golden images, for schemes that need none: they show little of what photographs do to a model."""

    count: int
    preprocess: Preprocess
    numbers: tuple[int, ...] = ()

    def __len__(self) -> int:
        return len(self.numbers) or self.count

    def images(self) -> Iterator[npt.NDArray[np.float32]]:
        """Each image (C, height, width) float32, normalised."""
        spec = self.preprocess
        made = normalise(golden_images(self.count, *spec.size, spec.channels), spec)
        yield from made[list(self.numbers)] if self.numbers else made

    def evenly(self, count: int) -> tuple[int, ...]:
        """The numbers of so many of them, or of all, evenly spaced."""
        return _evenly(len(self), count)

    def subset(self, numbers: Sequence[int]) -> "Synthetic":
        """Some of them."""
        return Synthetic(self.count, self.preprocess, tuple(numbers))

    def sha256(self) -> str:
        """Of the set's name."""
        return hashlib.sha256(f"{GOLDEN_SET} {self.count}".encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class Calibration:
    """Image files, and how they are prepared."""

    paths: tuple[Path, ...]
    preprocess: Preprocess

    @classmethod
    def of(cls, paths: Sequence[Path], preprocess: Preprocess) -> "Calibration":
        """Check that there are enough.

        Raises:
            ConfigError: too few files.
        """
        if len(paths) < FEWEST:
            raise ConfigError(
                f"got {len(paths)} calibration images, expected {FEWEST} or more: 64 to 200 like those the model will "
                "see do well, labels are not needed"
            )
        return cls(tuple(sorted(paths)), preprocess)

    def __len__(self) -> int:
        return len(self.paths)

    def images(self) -> Iterator[npt.NDArray[np.float32]]:
        """Each image (C, height, width) float32, normalised.

        Raises:
            ConfigError: some cannot be read; it is raised at the end and counts all of them.
        """
        bad: list[str] = []
        for path in self.paths:
            try:
                yield prepare(decode(path), self.preprocess)
            except InputError as error:
                bad.append(str(error))
        if bad:
            raise ConfigError(
                f"{len(bad)} of {len(self.paths)} calibration images cannot be read: {'; '.join(bad[:5])}"
            )

    def evenly(self, count: int) -> tuple[int, ...]:
        """The numbers of so many of them, or of all, evenly spaced."""
        return _evenly(len(self), count)

    def subset(self, numbers: Sequence[int]) -> "Calibration":
        """Some of them."""
        return Calibration(tuple(self.paths[number] for number in numbers), self.preprocess)

    def sha256(self) -> str:
        """Of all files' contents, in order: what the figures of a quantized file rest on."""
        digest = hashlib.sha256()
        for path in self.paths:
            digest.update(hashlib.sha256(path.read_bytes()).digest())
        return digest.hexdigest()
