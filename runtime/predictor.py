"""The predictor: from a model file and an image to class scores, on a device."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from os import PathLike
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from vit_edge.runtime import onnxfile
from vit_edge.runtime.arguments import whole_number
from vit_edge.runtime.errors import InputError, ModelFileError
from vit_edge.runtime.golden import GoldenReport, check_golden
from vit_edge.runtime.images import ImageLike, decode
from vit_edge.runtime.manifest import Manifest, read_manifest
from vit_edge.runtime.onnxfile import OnnxFile, ValueInfo
from vit_edge.runtime.prediction import Prediction
from vit_edge.runtime.preprocess import prepare
from vit_edge.runtime.session import ORT_ERRORS, check_runtime_version, one_line, open_session
from vit_edge.runtime.streaming import Drop, FrameReader, StreamedPrediction, check_stream_options

__all__ = ["Predictor", "check_content"]

T = TypeVar("T")
_MOST_TOGETHER = 4096  # images in memory at a time


def _value(values: Sequence[ValueInfo], name: str) -> ValueInfo:
    for value in values:
        if value.name == name:
            return value
    raise ModelFileError(f"the manifest speaks of {name!r}, the graph has {[value.name for value in values]}")


def _check_graph(file: OnnxFile, manifest: Manifest) -> None:
    """The graph takes and gives what the manifest says, so that neither has to be trusted alone."""
    if manifest.input.mode != "float":
        raise ModelFileError(
            f"takes {manifest.input.mode!r} input, which this vit-edge cannot feed yet: "
            "pip install -U vit-edge, or export with --input float"
        )
    spec, classes = manifest.input.preprocess, manifest.output.classes
    taken, given = _value(file.inputs, manifest.input.name), _value(file.outputs, manifest.output.name)
    if len(file.inputs) != 1:
        raise ModelFileError(f"has the inputs {[value.name for value in file.inputs]}, expected one")
    if taken.dtype != "float32" or taken.shape[1:] != (spec.channels, *spec.size):
        raise ModelFileError(
            f"takes {taken.dtype} {taken.shape}, its manifest says float32 "
            f"(N, {spec.channels}, {spec.size[0]}, {spec.size[1]})"
        )
    if given.dtype != "float32" or (len(given.shape) == 2 and given.shape[1] not in (classes, "?")):
        raise ModelFileError(f"gives {given.dtype} {given.shape}, its manifest says float32 (N, {classes})")


def check_content(file: OnnxFile, manifest: Manifest) -> None:
    """Graph, weights and the file beside them are those the manifest was written for."""
    if manifest.seal() != manifest.manifest_sha256:
        raise ModelFileError("its manifest (preprocessing, labels, ...) was changed or damaged: fetch it again")
    if file.content_sha256 != manifest.content_sha256:
        raise ModelFileError(
            "its graph or weights are not those its manifest was written for: "
            f"sha256 {file.content_sha256[:12]}…, expected {manifest.content_sha256[:12]}…: fetch it again"
        )
    data = manifest.external_data
    if list(file.external) != ([data.file] if data else []):
        raise ModelFileError(f"keeps weights in {list(file.external)}, its manifest says otherwise")
    if data is None:
        return
    path = file.path.with_name(data.file)
    if path.stat().st_size != data.bytes:
        raise ModelFileError(f"{data.file} has {path.stat().st_size} bytes, expected {data.bytes}: fetch it again")
    if onnxfile.file_sha256(path) != data.sha256:
        raise ModelFileError(f"{data.file} is damaged: its sha256 is not {data.sha256[:12]}…: fetch it again")


def _chunks(items: Iterable[T], size: int) -> Iterator[list[T]]:
    iterator = iter(items)
    while chunk := list(islice(iterator, size)):
        yield chunk


def _check_several(images: object) -> None:
    """Refuse a single image: a path would be read letter by letter, an array row by row."""
    rows = isinstance(images, np.ndarray) and (images.ndim < 3 or (images.ndim == 3 and images.shape[2] in (1, 3, 4)))
    if rows or isinstance(images, str | bytes | PathLike) or not isinstance(images, Iterable):
        raise InputError(f"got one {type(images).__name__}, expected several images: put it into a list")


class Predictor:
    """A model file, ready to predict. It has no state that changes: threads may share it.

    Args:
        path: A model file that vit-edge wrote.
        providers: Execution providers of onnxruntime in order of preference; the CPU's by default.
        threads: Threads within one operator; by default all that this process may use.
        check: Compare the file with its content hash and run its golden images: some images' time.
        batch_mates: Run the images of a batch together even where the file says that each answer then depends on the
            others (`int8-dynamic`). By default such files get one image at a time.

    Raises:
        ModelFileError: The file is damaged, is no vit-edge model file, or this machine computes
            something else than the machine it was made on.
        ProviderError: A provider is not available.
        ConfigError: `threads` or `providers` cannot be used.

    Example:
        >>> predictor = Predictor("model.onnx")  # doctest: +SKIP
        >>> predictor("cat.jpg").top[0]  # doctest: +SKIP
        Label(index=281, name='tabby', score=0.83)
    """

    def __init__(
        self,
        path: str | PathLike[str],
        *,
        providers: Sequence[str] | None = None,
        threads: int | None = None,
        check: bool = True,
        batch_mates: bool = False,
    ) -> None:
        file = onnxfile.read(path)
        self.manifest: Manifest = read_manifest(file)
        try:
            check_runtime_version(self.manifest.minimum_runtime)
            _check_graph(file, self.manifest)
            if check:
                check_content(file, self.manifest)
            self._alone = self.manifest.batch_dependent and not batch_mates
            entries = self.manifest.session
            self._session = open_session(file.path, providers=providers, threads=threads, entries=entries)
            report = self.golden_report() if check else None
            if report and not report.passed:
                raise ModelFileError(
                    f"{report.message}: the file is damaged, or this CPU or onnxruntime computes differently; "
                    "do not trust its predictions"
                )
        except ModelFileError as error:
            raise ModelFileError(f"{file.path}: {error}") from error

    def golden_report(self) -> GoldenReport:
        """Run the file's golden images here and compare with the outputs it was made with."""
        return check_golden(self.manifest, self._run)

    @property
    def labels(self) -> tuple[str, ...]:
        """The names of the classes; empty where the file has none."""
        return self.manifest.labels

    def _run(self, x: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
        if self._alone and len(x) > 1:
            return np.concatenate([self._run(one[None]) for one in x])
        info = self.manifest
        try:
            (output,) = self._session.run([info.output.name], {info.input.name: x})
        except ORT_ERRORS as error:
            raise ModelFileError(f"onnxruntime cannot run it: {one_line(error)}") from error
        logits: npt.NDArray[np.float32] = output.reshape(output.shape[0], -1)  # tokens, maps
        if logits.shape != (len(x), info.output.classes):
            raise ModelFileError(f"gives {output.shape}, its manifest says ({len(x)}, {info.output.classes})")
        return logits

    def logits(self, x: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
        """Run the model on normalised images.

        Args:
            x: (N, C, H, W) float32, normalised as `manifest.input.preprocess` says, N >= 1.

        Returns:
            (N, classes) float32, the model's output as it is.

        Raises:
            InputError: `x` is something else.
        """
        spec = self.manifest.input.preprocess
        shape = (spec.channels, *spec.size)
        expected = f"expected float32 (N, {spec.channels}, {spec.size[0]}, {spec.size[1]})"
        if not isinstance(x, np.ndarray):
            raise InputError(f"got a {type(x).__name__}, {expected}")
        if x.dtype != np.float32:
            raise InputError(f"got {x.dtype} {x.shape}, {expected}: convert it with .astype(numpy.float32)")
        if x.ndim != 4 or len(x) == 0 or x.shape[1:] != shape:
            raise InputError(f"got float32 {x.shape}, {expected}: this model takes no other size")
        if not np.isfinite(x).all():
            raise InputError(f"got NaN or infinity in {x.shape}, {expected}, all finite")
        logits = self._run(x)
        if not np.isfinite(logits).all():
            raise ModelFileError("the model's output is not finite: do not trust its predictions")
        return logits

    def batch(self, images: Iterable[ImageLike], *, batch_size: int = 16) -> list[Prediction]:
        """Predict many images, `batch_size` of them in memory at a time.

        Args:
            images: Paths, bytes of image files, PIL images or (H, W, C) uint8 arrays, also mixed.
            batch_size: How many images run together.

        Raises:
            InputError: An image cannot be read, or `images` is a single one.
            ConfigError: `batch_size` is no whole number, 1..4096.
        """
        batch_size = whole_number(batch_size, "batch_size", _MOST_TOGETHER)
        _check_several(images)
        predictions: list[Prediction] = []
        for chunk in _chunks(images, batch_size):
            x = np.stack([prepare(decode(image), self.manifest.input.preprocess) for image in chunk])
            info = self.manifest.output
            predictions += [Prediction(logits, self.labels, info.kind, info.shape) for logits in self.logits(x)]
        return predictions

    def __call__(self, image: ImageLike) -> Prediction:
        """Predict one image: a path, the bytes of an image file, a PIL image or (H, W, C) uint8."""
        return self.batch([image])[0]

    def stream(
        self, frames: Iterable[ImageLike], *, max_queue: int = 1, drop: Drop = "oldest"
    ) -> Iterator[StreamedPrediction]:
        """Predict the frames of a camera as they come; what the model is too slow for is dropped.

        The source is read in a thread of its own. Its error is raised here, behind the frames that came before it;
        leaving the loop, or `close()` on the iterator, ends the reading with the next frame.

        Args:
            frames: Images as `batch` takes them, each a new object: a buffer that the camera writes into again would
                change while it waits.
            max_queue: How many frames may wait, 1..1024: with 1 the answer is always to the newest.
            drop: "oldest" keeps up with the camera; "none" lets the source wait, for files.

        Raises:
            InputError: A frame cannot be read, or `frames` is a single image.
            ConfigError: `max_queue` or `drop` cannot be used.

        Example:
            >>> for each in predictor.stream(camera()):  # doctest: +SKIP
            ...     print(each.index, each.prediction.best(1)[0].name)
        """
        _check_several(frames)
        return self._stream(FrameReader(frames, check_stream_options(max_queue, drop), drop))

    def _stream(self, reader: FrameReader) -> Iterator[StreamedPrediction]:
        try:
            for index, frame in reader:
                yield StreamedPrediction(index, frame, self(frame))
        finally:
            reader.stop()
