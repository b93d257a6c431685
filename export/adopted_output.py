"""What the output of a foreign file is: told from its shape and values, or said by the user."""

import math
from typing import Literal

import numpy as np
import numpy.typing as npt

from vit_edge.export.errors import ExportError
from vit_edge.runtime.errors import ConfigError
from vit_edge.runtime.manifest import OutputInfo

__all__ = ["OutputKind", "output_info"]

Array32 = npt.NDArray[np.float32]
OutputKind = Literal["logits", "probabilities", "features", "tokens", "map"]

_LEAST_SPREAD = 1e-4  # of the largest output, as in `parity`
_SUM = 1e-4  # how far a row of float32 probabilities may be from 1


def output_info(name: str, outputs: Array32, chosen: OutputKind | None, size: tuple[int, int]) -> OutputInfo:
    """Decide what an output is.

    Args:
        name: of the output.
        outputs: (n, ...) float32, for n images.
        chosen: by the user.
        size: (height, width) of the images.

    Raises:
        ExportError: the outputs are not finite, or do not depend on the image.
        ConfigError: the kind is not clear, or is not what the values say.
    """
    if not np.isfinite(outputs).all():
        raise ExportError("the outputs are not finite")
    if outputs.std(axis=0).max() <= _LEAST_SPREAD * np.abs(outputs).max():
        raise ExportError(
            "the outputs hardly depend on the image, so that no comparison would prove anything: "
            "is the model trained, and is this the output that is meant (--output-name)?"
        )
    shape = outputs.shape[1:]
    kind = chosen or _kind(outputs, size)
    if kind == "map":
        return OutputInfo(name=name, kind=kind, classes=math.prod(shape), shape=_sides(shape))
    if kind in ("logits", "probabilities"):
        _check_scores(kind, outputs)
    return OutputInfo(name=name, kind=kind, classes=math.prod(shape), shape=shape if kind == "tokens" else ())


def _kind(outputs: Array32, size: tuple[int, int]) -> OutputKind:
    shape = outputs.shape[1:]
    if len(shape) == 1 or math.prod(shape[1:]) == 1 or (len(shape) == 3 and math.prod(shape[:2]) == 1):
        return _scores(outputs.reshape(len(outputs), -1))
    if len(shape) == 3 and 1 in (shape[0], shape[2]):
        return "map"
    if len(shape) == 2 and shape[0] * size[1] == shape[1] * size[0]:  # of the images' proportions
        return "map"
    raise ConfigError(
        f"gives {('N', *shape)}: say what that is: --output features or tokens"
        f"{', or map for (N, height, width)' if len(shape) == 2 else ''}"
    )


def _scores(rows: Array32) -> OutputKind:
    if rows.shape[1] == 1:
        return "features"
    if rows.min() < 0 or rows.max() > 1:
        return "logits"
    if np.abs(rows.sum(axis=1) - 1).max() <= _SUM:
        return "probabilities"
    raise ConfigError(
        "all outputs are within 0..1 but an image's do not sum to 1 (one sigmoid a class?): "
        "give --output probabilities to take them as scores, or features"
    )


def _check_scores(kind: OutputKind, outputs: Array32) -> None:
    """Scores would be wrong without a sign of it: softmax twice, or not at all."""
    rows = outputs.reshape(len(outputs), -1)
    within = rows.min() >= 0 and rows.max() <= 1
    if kind == "probabilities" and not within:
        raise ConfigError(f"--output probabilities: the outputs are within {rows.min():.3g}..{rows.max():.3g}")
    if kind == "logits" and within and np.abs(rows.sum(axis=1) - 1).max() <= _SUM:
        raise ConfigError("--output logits: each image's outputs are within 0..1 and sum to 1: probabilities")


def _sides(shape: tuple[int, ...]) -> tuple[int, int]:
    """(height, width) of (h, w), (1, h, w) or (h, w, 1)."""
    if len(shape) == 3 and shape[0] == 1:
        shape = shape[1:]
    elif len(shape) == 3 and shape[2] == 1:
        shape = shape[:2]
    if len(shape) != 2:
        raise ConfigError(f"gives {('N', *shape)}, a map is (N, height, width) or has one channel")
    return shape[0], shape[1]
