"""The ways to quantize, each a record of what can be chosen about it."""

from dataclasses import dataclass
from typing import ClassVar, TypeAlias

__all__ = ["SCHEMES", "Int8", "Scheme", "Target"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """How near a quantized model has to come, on the calibration images and without labels.

    Attributes:
        agreement: share of images with the same predicted class.
        l2: ||difference|| / ||outputs||.
        worst_agreement: below it no file is written.
        worst_l2: above it no file is written.
    """

    agreement: float = 0.98
    l2: float = 0.06
    worst_agreement: float = 0.90
    worst_l2: float = 0.30


@dataclass(frozen=True, slots=True, kw_only=True)
class Int8:
    """uint8 activations with static scales, int8 weights a channel: the fastest in onnxruntime on CPUs.

    Attributes:
        target: layers are kept float until it is reached.
        keep_float: names of layers that stay float in any case.
    """

    name: ClassVar[str] = "int8"
    levels: ClassVar[int] = 256
    purpose: ClassVar[str] = "speed on CPUs with onnxruntime; answers do not depend on the batch"
    target: Target = Target()
    keep_float: tuple[str, ...] = ()


Scheme: TypeAlias = Int8
SCHEMES: tuple[type[Scheme], ...] = (Int8,)
