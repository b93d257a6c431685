"""What a foreign file itself says: the reference that the adopted file must reproduce."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from vit_edge.export.errors import ExportError
from vit_edge.export.foreign import Foreign
from vit_edge.export.model_file import save
from vit_edge.export.parity import OPTIMIZATION, TOLERANCES, Tolerance, deviation
from vit_edge.runtime.session import ORT_ERRORS, Optimization, one_line, open_session

__all__ = ["ForeignRunner", "Noise", "find_batch", "own_noise", "precision"]

Array32 = npt.NDArray[np.float32]

_QUANTIZED = re.compile(r"QLinear|QuantizeLinear|Integer|NBits|QAttention|QGemm|DynamicQuant")
_SEEDS = range(3)
_PERTURBATION = 1e-7  # relative: a rounding error of float32
_MAX_CANDIDATES = 48  # of batch sizes to try
_LARGEST_BATCH = 256
_LONGEST_SHAPE = 8


class ForeignRunner:
    """Runs the file as it is, one image at a time; where its batch is fixed, with copies of the image."""

    def __init__(
        self, foreign: Foreign, batch: int, optimization: Optimization = "none", path: Path | None = None
    ) -> None:
        self.foreign, self.batch = foreign, batch
        self._session = open_session(path or foreign.path, optimization=optimization)

    def __call__(self, images: Array32) -> Array32:
        """The outputs.

        Args:
            images: (n, C, height, width) float32, normalised; whole numbers 0..255 for a file that takes uint8.

        Returns:
            (n, ...) float32.

        Raises:
            ExportError: it does not run at this batch, or does not give one output an image.
        """
        return np.stack([self.together(np.repeat(image[None], self.batch, axis=0))[0] for image in images])

    def together(self, images: Array32) -> Array32:
        """The outputs of images that run as one batch; see `__call__`."""
        taken = self.foreign.input
        feed = images.transpose(0, 2, 3, 1) if taken.layout == "nhwc" else images
        feed = np.rint(feed).astype(np.uint8) if taken.dtype == "uint8" else feed
        try:
            outputs: Array32 = self._session.run([self.foreign.output], {taken.name: np.ascontiguousarray(feed)})[0]
        except ORT_ERRORS as error:
            raise ExportError(f"{self.foreign.path} does not run at batch {len(images)}: {one_line(error)}") from error
        if outputs.ndim < 2 or len(outputs) != len(images):
            raise ExportError(f"gives {outputs.shape} for {len(images)} images, expected (N, ...)")
        return outputs


def find_batch(foreign: Foreign, image: Array32) -> int:
    """A batch size that the file runs at: its fixed one, else 1, else what its constants suggest.

    Raises:
        ExportError: it runs at none of them.
    """
    if foreign.input.batch is not None:
        return foreign.input.batch
    candidates = sorted({size for value in _constants(foreign) for size in _sizes(value)})[:_MAX_CANDIDATES]
    first: ExportError | None = None
    for batch in (1, *candidates):
        try:
            ForeignRunner(foreign, batch)(image[None])
            return batch
        except ExportError as error:
            first = first or error
    assert first is not None
    raise first


def _constants(foreign: Foreign) -> Iterator[ir.TensorProtocol]:
    for node in foreign.nodes():
        for value in node.inputs:
            tensor = None if value is None else ir.convenience.get_const_tensor(value)
            if tensor is not None:
                yield tensor


def _sizes(tensor: ir.TensorProtocol) -> list[int]:
    """The first number of a constant that may be a shape: the batch where one was baked in."""
    if tensor.dtype != ir.DataType.INT64 or not 1 <= tensor.size <= _LONGEST_SHAPE:
        return []
    return [size for size in tensor.numpy().ravel()[:1].tolist() if 1 < size <= _LARGEST_BATCH]


def precision(foreign: Foreign) -> str:
    """The manifest's word: int8 with any quantized operator, fp16 with half-precision weights, else fp32."""
    if any(_QUANTIZED.search(node.op_type) for node in foreign.nodes()):
        return "int8"
    half = ("float16", "bfloat16")
    return "fp16" if any(weight.dtype in half for weight in foreign.file.weights) else "fp32"


@dataclass(frozen=True, slots=True)
class Noise:
    """Twice the band in which a quantized file's own outputs move; int8 outputs are chaotic, elsewhere they move too.

    alone: when a rounding error is added to an image; together: also when it has batch mates, which matters where
    scales are computed for a whole batch.
    """

    alone: Tolerance
    together: Tolerance


def own_noise(foreign: Foreign, batch: int, images: Array32, folder: Path) -> Noise | None:
    """Measure a quantized file's noise; None for a float32 file: the table's tolerance holds.

    A file that takes uint8 hides a rounding error of its input; its float weights are perturbed instead.

    Args:
        foreign: the file.
        batch: a size that it runs at.
        images: (n, C, height, width) float32, normalised.
        folder: for perturbed copies.
    """
    if precision(foreign) == "fp32":
        return None
    alone, together = [(0.0, 0.0)], [(0.0, 0.0)]
    for optimization in OPTIMIZATION:
        run = ForeignRunner(foreign, batch, optimization)
        expected = run(images)
        for seed in _SEEDS:
            rng = np.random.default_rng(seed)
            if foreign.input.dtype == "uint8":
                path = _perturbed(foreign, rng, folder / "perturbed.onnx")
                got = ForeignRunner(foreign, batch, optimization, path)(images)
            else:
                got = run((images * (1 + _PERTURBATION * rng.standard_normal(images.shape))).astype(np.float32))
            alone += [deviation(*rows) for rows in zip(got, expected, strict=True)]
        if batch == 1 and any(node.op_type.startswith("DynamicQuant") for node in foreign.nodes()):
            together += [deviation(*rows) for rows in zip(run.together(images), expected, strict=True)]
    return Noise(_twice(alone), _twice(alone + together))


def _twice(deviations: Sequence[tuple[float, float]]) -> Tolerance:
    floor = TOLERANCES["adopted"]
    max_abs, l2 = (2 * max(values) for values in zip(*deviations, strict=True))
    return Tolerance(max(floor.max_abs, max_abs), max(floor.l2, l2))


def _perturbed(foreign: Foreign, rng: np.random.Generator, path: Path) -> Path:
    """A copy of the file with a rounding error in every float32 weight."""
    graph = foreign.graph.clone()
    for value in graph.graph.initializers.values():
        if value.const_value is not None and value.dtype == ir.DataType.FLOAT and value.const_value.size > 1:
            weight = value.const_value.numpy()
            noisy = weight * (1 + _PERTURBATION * rng.standard_normal(weight.shape))
            value.const_value = ir.tensor(noisy.astype(np.float32), name=value.name)
    return save(graph, path, graph.ir_version)
