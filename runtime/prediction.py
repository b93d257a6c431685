"""What a predictor says about one image."""

from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from vit_edge.runtime.arguments import whole_number
from vit_edge.runtime.errors import ConfigError

__all__ = ["Label", "Prediction", "softmax"]


def softmax(logits: npt.NDArray[np.float32]) -> npt.NDArray[np.float64]:
    """The softmax over the last axis, in float64 and without overflow; same shape as `logits`."""
    shifted = logits.astype(np.float64)
    shifted -= shifted.max(axis=-1, keepdims=True)
    exponentials: npt.NDArray[np.float64] = np.exp(shifted)
    exponentials /= exponentials.sum(axis=-1, keepdims=True)
    return exponentials


@dataclass(frozen=True, slots=True)
class Label:
    """One class with its score, 0..1."""

    index: int
    name: str
    score: float


@dataclass(frozen=True, slots=True, eq=False)
class Prediction:
    """The model's answer for one image.

    Attributes:
        logits: (classes,) float32, the model's output as it is.
        labels: The names of the classes, or nothing.
        kind: What the output is; scores exist for logits and probabilities.
        shape: (height, width) of a map; otherwise it may be empty.
    """

    logits: npt.NDArray[np.float32]
    labels: tuple[str, ...] = ()
    kind: Literal["logits", "probabilities", "features", "tokens", "map"] = "logits"
    shape: tuple[int, ...] = ()

    @property
    def map(self) -> npt.NDArray[np.float32]:
        """(height, width) float32, the model's output as it is, at the model's own resolution."""
        if self.kind != "map":
            raise ConfigError(f"the model gives {self.kind}, not a map")
        return self.logits.reshape(self.shape)

    @property
    def scores(self) -> npt.NDArray[np.float64]:
        """(classes,) float64, 0..1: the softmax of the logits, or the probabilities themselves."""
        if self.kind == "logits":
            return softmax(self.logits)
        if self.kind == "probabilities":
            return self.logits.astype(np.float64)
        instead = ".map" if self.kind == "map" else ".logits"
        raise ConfigError(f"the model gives {self.kind}, not class scores: use {instead}")

    @property
    def top(self) -> tuple[Label, ...]:
        """All classes, the best first; of equal ones the lower index first."""
        return self.best(self.logits.size)

    def best(self, k: int) -> tuple[Label, ...]:
        """The `k` best classes, or all where there are fewer.

        Example:
            >>> Prediction(np.array([0.0, 1.0], np.float32), ("cat", "dog")).best(1)[0].name
            'dog'
        """
        k, scores = whole_number(k, "k ="), self.scores
        order = np.argsort(-scores, kind="stable")[:k]
        return tuple(
            Label(index, self.labels[index] if self.labels else str(index), float(scores[index]))
            for index in order.tolist()
        )
