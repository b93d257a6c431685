"""Calibration images: read through the runtime's own preprocessing, one at a time."""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from vit_edge.runtime.errors import ConfigError, InputError
from vit_edge.runtime.images import decode
from vit_edge.runtime.preprocess import Preprocess, prepare

__all__ = ["FEWEST", "Calibration"]

FEWEST = 16  # below it ranges are guesses
_LEAST_SPREAD = 1e-3  # standard deviation between images, of normalised pixels


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
            ConfigError: some cannot be read (all of them are named, at the end), or all are the same.
        """
        bad: list[str] = []
        first: npt.NDArray[np.float32] | None = None
        spread = 0.0
        for path in self.paths:
            try:
                image = prepare(decode(path), self.preprocess)
            except InputError as error:
                bad.append(str(error))
                continue
            first = image if first is None else first
            spread = max(spread, float(np.abs(image - first).max()))
            yield image
        if bad:
            raise ConfigError(
                f"{len(bad)} of {len(self.paths)} calibration images cannot be read: {'; '.join(bad[:5])}"
            )
        if spread < _LEAST_SPREAD:
            raise ConfigError("all calibration images are the same: ranges would fit nothing else")

    def subset(self, count: int) -> "Calibration":
        """Evenly spaced ones."""
        count = min(count, len(self.paths))
        chosen = tuple(self.paths[index * len(self.paths) // count] for index in range(count))
        return Calibration(chosen, self.preprocess)

    def sha256(self) -> str:
        """Of all files' contents, in order: what the figures of a quantized file rest on."""
        digest = hashlib.sha256()
        for path in self.paths:
            digest.update(hashlib.sha256(path.read_bytes()).digest())
        return digest.hexdigest()
