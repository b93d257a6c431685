"""The ways to quantize, each a record of what can be chosen about it."""

from dataclasses import dataclass
from typing import ClassVar, TypeAlias

from vit_edge.export.quantization.trial import Trial

__all__ = ["SCHEMES", "W8A16", "Fp16", "Int4", "Int8", "Int8Dynamic", "Int8Qdq", "Scheme", "Target"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """How near a quantized model has to come, on the calibration images and without labels.

    Attributes:
        agreement: share of images with the same predicted class; nothing is asked of models that name no classes.
        l2: ||difference|| / ||outputs||.
        float_share: of the weights, that may stay float for it; 0.02 makes an int8 file 6 % larger.
        worst_agreement: below it no file is written.
        worst_l2: above it no file is written.
    """

    agreement: float = 0.98
    l2: float = 0.06
    float_share: float = 0.02
    worst_agreement: float = 0.90
    worst_l2: float = 0.30

    def met(self, trial: Trial) -> bool:
        """Is it reached?"""
        return trial.within(self.agreement, self.l2)

    def bearable(self, trial: Trial) -> bool:
        """May a file be written?"""
        return trial.within(self.worst_agreement, self.worst_l2)


@dataclass(frozen=True, slots=True, kw_only=True)
class Int8:
    """uint8 activations with static scales, int8 weights a channel: the fastest in onnxruntime on CPUs.

    Attributes:
        target: layers are kept float until it is reached.
        keep_float: names of layers that stay float in any case.
    """

    name: ClassVar[str] = "int8"
    purpose: ClassVar[str] = "speed on CPUs with onnxruntime; answers do not depend on the batch"
    target: Target = Target()
    keep_float: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Int8Dynamic:
    """uint8 activations with scales found anew in every batch, int8 weights a channel.

    Attributes:
        target: layers are kept float until it is reached.
        keep_float: names of layers that stay float in any case.
    """

    name: ClassVar[str] = "int8-dynamic"
    purpose: ClassVar[str] = "no calibration images at hand; slower, and an answer depends on its batch mates"
    target: Target = Target()
    keep_float: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Int8Qdq:
    """As `Int8`, written with standard QuantizeLinear and DequantizeLinear.

    Attributes:
        target: layers are kept float until it is reached.
        keep_float: names of layers that stay float in any case.
    """

    name: ClassVar[str] = "int8-qdq"
    purpose: ClassVar[str] = "other engines: OpenVINO, QNN, XNNPACK, TensorRT; standard operators only"
    target: Target = Target()
    keep_float: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class W8A16:
    """uint16 activations, int8 weights, written with QuantizeLinear and DequantizeLinear; needs opset 21.

    Attributes:
        target: layers are kept float until it is reached.
        keep_float: names of layers that stay float in any case.
    """

    name: ClassVar[str] = "w8a16"
    purpose: ClassVar[str] = "accelerators with 16-bit activations, models that int8 breaks; slow on CPUs"
    target: Target = Target()
    keep_float: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Int4:
    """4-bit weights in blocks, float activations.

    Attributes:
        block: weights that share a scale, a power of two from 16 on.
        target: layers are kept float until it is reached.
        keep_float: names of layers that stay float in any case.
    """

    name: ClassVar[str] = "int4"
    purpose: ClassVar[str] = "the smallest file; slower than fp32 on CPUs, and loses some accuracy"
    block: int = 32
    target: Target = Target(agreement=0.95, l2=0.15, float_share=0.03, worst_agreement=0.75, worst_l2=0.5)
    keep_float: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Fp16:
    """Half-precision weights.

    Attributes:
        compute: also compute in half precision, for engines that have it; by default weights are cast to float32.
        target: what has to be reached.
    """

    name: ClassVar[str] = "fp16"
    purpose: ClassVar[str] = "half the size without loss; as fast as fp32 on CPUs"
    compute: bool = False
    target: Target = Target(agreement=0.99, l2=0.01)


Scheme: TypeAlias = Int8 | Int8Dynamic | Int8Qdq | W8A16 | Int4 | Fp16
SCHEMES: tuple[type[Scheme], ...] = (Int8, Int8Dynamic, Int8Qdq, W8A16, Int4, Fp16)
