"""Running model files over images: decoded once, preprocessed once, and only the outputs kept."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path

import numpy as np
import numpy.typing as npt

from vit_edge.accuracy.errors import DataError
from vit_edge.runtime.errors import ConfigError, InputError
from vit_edge.runtime.images import decode
from vit_edge.runtime.manifest import Manifest
from vit_edge.runtime.predictor import Predictor
from vit_edge.runtime.preprocess import prepare

__all__ = ["ScoreOptions", "check_comparable", "check_scorable", "open_model", "score"]

Outputs = npt.NDArray[np.float32]  # (n, classes)
Progress = Callable[[int, int], None]  # images done, images in all


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoreOptions:
    """How the files are run.

    Attributes:
        providers: Execution providers of onnxruntime in order of preference; the CPU's by default.
        threads: Threads within one operator; by default all that this process may use.
        batch_size: Images run together. Dynamically quantized models answer differently in company, so the
            default is what a device does.
    """

    providers: tuple[str, ...] | None = None
    threads: int | None = None
    batch_size: int = 1

    def __post_init__(self) -> None:
        if self.batch_size < 1:
            raise ConfigError(f"got batch_size {self.batch_size}, expected 1 or more")


def open_model(path: str | PathLike[str], options: ScoreOptions | None = None) -> Predictor:
    """Open a model file that gives class scores; its content and its golden outputs are checked.

    Raises:
        ModelFileError: It is damaged, or computes something else here than where it was made.
        ConfigError: It gives no class scores.
    """
    options = options or ScoreOptions()
    predictor = Predictor(path, providers=options.providers, threads=options.threads)
    check_scorable(path, predictor.manifest)
    return predictor


def check_scorable(path: str | PathLike[str], manifest: Manifest) -> None:
    """Only class scores can be right or wrong.

    Raises:
        ConfigError: The file gives features, tokens or a map.
    """
    if manifest.output.kind not in ("logits", "probabilities"):
        raise ConfigError(f"{path} gives {manifest.output.kind}: only logits and probabilities can be evaluated")


def check_comparable(model: Manifest, baseline: Manifest) -> None:
    """Two files answer the same question about the same pixels.

    Raises:
        ConfigError: Classes, their names, the kind of output or the preprocessing differ; says which.
    """
    ours, theirs = model.input.preprocess.to_dict(), baseline.input.preprocess.to_dict()
    differ = [f"{name} ({theirs[name]} and {ours[name]})" for name in ours if ours[name] != theirs[name]]
    if differ:
        raise ConfigError(f"baseline and model differ in their preprocessing: {', '.join(differ)}")
    before, now = baseline.output, model.output
    if (before.classes, before.kind) != (now.classes, now.kind):
        raise ConfigError(
            f"baseline and model differ in their output: {before.classes} {before.kind} and {now.classes} {now.kind}"
        )
    if baseline.labels and model.labels:
        for index, (old, new) in enumerate(zip(baseline.labels, model.labels, strict=True)):
            if old != new:
                raise ConfigError(f"baseline and model differ in the name of class {index}: {old!r} and {new!r}")


def score(
    predictors: Sequence[Predictor], paths: Sequence[Path], *, batch_size: int = 1, progress: Progress | None = None
) -> list[Outputs]:
    """Run every image through every model.

    Args:
        predictors: One or more with the same preprocessing (`check_comparable`).
        paths: Image files.
        batch_size: Images run together; no more pixels than theirs are in memory.
        progress: Called with the number of images done, and of all.

    Returns:
        For each predictor (n, classes) float32, its outputs as they are, in the order of `paths`.

    Raises:
        DataError: Images cannot be read: lists all of them.
    """
    spec = predictors[0].manifest.input.preprocess
    outputs = [np.empty((len(paths), each.manifest.output.classes), np.float32) for each in predictors]
    unreadable: list[str] = []
    for start in range(0, len(paths), batch_size):
        pixels = []
        for path in paths[start : start + batch_size]:
            try:
                pixels.append(prepare(decode(path), spec))
            except InputError as error:
                unreadable.append(str(error))
        if not unreadable:  # after the first bad image the rest is only read, so that all bad ones are named
            x = np.stack(pixels)
            for predictor, rows in zip(predictors, outputs, strict=True):
                rows[start : start + len(x)] = predictor.logits(x)
        if progress:
            progress(min(start + batch_size, len(paths)), len(paths))
    if unreadable:
        raise DataError(f"{len(unreadable):,} of {len(paths):,} images cannot be read", unreadable)
    return outputs
