"""The whole evaluation on one page: open, score, compare, judge."""

from dataclasses import dataclass
from os import PathLike
from pathlib import Path

import numpy as np
import numpy.typing as npt

from vit_edge.accuracy.alignment import check_alignment
from vit_edge.accuracy.dataset import Dataset, read_dataset
from vit_edge.accuracy.metrics import (
    Accuracy,
    Agreement,
    ClassLoss,
    Kind,
    accuracy,
    agreement,
    class_losses,
    confidences,
    correct,
)
from vit_edge.accuracy.paired import Paired, Verdict, check_budget, judge, pair
from vit_edge.accuracy.scoring import Progress, ScoreOptions, check_comparable, open_model, score
from vit_edge.runtime.errors import ConfigError
from vit_edge.runtime.manifest import Manifest
from vit_edge.runtime.predictor import Predictor

__all__ = ["Comparison", "Evaluation", "Flip", "ModelFacts", "compare", "evaluate"]

Outputs = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelFacts:
    """A model file that was evaluated, and how right it is where there are labels."""

    path: Path
    bytes: int  # with the file beside it
    manifest: Manifest
    accuracy: Accuracy | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Flip:
    """An image for which the two models name different classes.

    Attributes:
        index: The image's number in the data set.
        label: Its class, where there are labels.
        baseline: The class that the baseline names.
        baseline_margin: How far its probability is above the next one's.
        model: The class that the model names.
        model_margin: The same for the model.
    """

    index: int
    label: int | None
    baseline: int
    baseline_margin: float
    model: int
    model_margin: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """A model against its baseline on the same images; what needs labels is None or empty without."""

    agreement: Agreement
    flips: tuple[Flip, ...]  # lost images first, then by falling margin of the baseline
    paired: Paired | None
    classes: tuple[ClassLoss, ...]  # the ones that lost most first
    verdict: Verdict | None  # with a budget


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation:
    """What `evaluate` found."""

    data: Dataset
    names: tuple[str, ...]  # of the classes, or nothing
    model: ModelFacts
    baseline: ModelFacts | None
    comparison: Comparison | None  # with a baseline

    def class_name(self, index: int) -> str:
        """The name of a class, or its number."""
        return self.names[index] if self.names else str(index)


def _flips(baseline: Outputs, model: Outputs, labels: npt.NDArray[np.int64] | None, kind: Kind) -> tuple[Flip, ...]:
    before, after = confidences(baseline, kind), confidences(model, kind)
    flips = [
        Flip(
            index=i,
            label=None if labels is None else int(labels[i]),
            baseline=int(before.predicted[i]),
            baseline_margin=float(before.margin[i]),
            model=int(after.predicted[i]),
            model_margin=float(after.margin[i]),
        )
        for i in np.flatnonzero(before.predicted != after.predicted).tolist()
    ]
    return tuple(sorted(flips, key=lambda flip: (flip.baseline != flip.label, -flip.baseline_margin, flip.index)))


def compare(
    baseline: Outputs,
    model: Outputs,
    labels: npt.NDArray[np.int64] | None = None,
    *,
    kind: Kind = "logits",
    max_drop: float | None = None,
) -> Comparison:
    """Compare two models' outputs for the same images.

    Args:
        baseline: (n, classes) float32, n >= 1.
        model: The same shape, the same images in the same order.
        labels: (n,) int64, the right classes, where they are known.
        kind: What the outputs are.
        max_drop: A budget in points of top-1; needs labels.
    """
    if max_drop is not None and labels is None:
        raise ConfigError("a budget needs labels")
    near, flips = agreement(baseline, model, kind), _flips(baseline, model, labels, kind)
    if labels is None:
        return Comparison(agreement=near, flips=flips, paired=None, classes=(), verdict=None)
    before, after = correct(baseline, labels), correct(model, labels)
    paired = pair(before, after)
    return Comparison(
        agreement=near,
        flips=flips,
        paired=paired,
        classes=class_losses(before, after, labels),
        verdict=None if max_drop is None else judge(paired, max_drop),
    )


def _check_question(data: Dataset, has_baseline: bool, max_drop: float | None) -> None:
    """Is there anything to measure, and does it decide what is asked?"""
    if max_drop is not None:
        check_budget(max_drop)
        if not has_baseline:
            raise ConfigError("a budget (--max-drop) needs a baseline to drop from: give --baseline FP32.onnx")
        if data.labels is None:
            raise ConfigError(
                f"{data.folder}: has no labels, and a budget (--max-drop) needs them: "
                "add labels.csv or one folder per class"
            )
    elif data.labels is None and not has_baseline:
        raise ConfigError(
            f"{data.folder}: has no labels and there is no baseline: nothing to compare with; "
            "add labels.csv, one folder per class, or --baseline FP32.onnx"
        )


def _facts(
    path: str | PathLike[str], predictor: Predictor, outputs: Outputs, labels: npt.NDArray[np.int64] | None
) -> ModelFacts:
    manifest = predictor.manifest
    beside = manifest.external_data.bytes if manifest.external_data else 0
    found = None if labels is None else accuracy(outputs, labels, _kind(manifest))
    return ModelFacts(path=Path(path), bytes=Path(path).stat().st_size + beside, manifest=manifest, accuracy=found)


def _kind(manifest: Manifest) -> Kind:
    return "logits" if manifest.output.kind == "logits" else "probabilities"


def evaluate(
    model: str | PathLike[str],
    data: str | PathLike[str],
    *,
    baseline: str | PathLike[str] | None = None,
    max_drop: float | None = None,
    options: ScoreOptions | None = None,
    progress: Progress | None = None,
) -> Evaluation:
    """Evaluate a model file on a data set, alone or against the file it was made from.

    Args:
        model: A model file that gives logits or probabilities.
        data: A folder in one of the layouts of `vit_edge.accuracy.dataset`.
        baseline: The model file to compare with; it must reproduce its own golden outputs first.
        max_drop: The budget, in points of top-1; needs a baseline and labels.
        options: How the files are run.
        progress: Called with the number of images done, and of all.

    Raises:
        ModelFileError: A file is damaged, or computes something else here than where it was made.
        ConfigError: The files cannot be compared, or what is asked cannot be answered.
        DataError: The data set has defects: lists all of them.
        MisalignedError: The labels count the classes in another order than the model.

    Example:
        >>> found = evaluate("int8.onnx", "val", baseline="fp32.onnx", max_drop=0.5)  # doctest: +SKIP
        >>> found.comparison.verdict.outcome  # doctest: +SKIP
        'undecided'
    """
    options = options or ScoreOptions()
    paths = [model] if baseline is None else [baseline, model]
    predictors = [open_model(path, options) for path in paths]
    reference, own = predictors[0].manifest, predictors[-1].manifest
    check_comparable(own, reference)
    names = own.labels or reference.labels
    dataset = read_dataset(data, own.output.classes, names)
    _check_question(dataset, baseline is not None, max_drop)

    outputs = score(predictors, dataset.paths, batch_size=options.batch_size, progress=progress)
    labels = None if dataset.labels is None else np.array(dataset.labels, np.int64)
    if labels is not None:
        predicted = [each.argmax(axis=1).astype(np.int64) for each in outputs]
        check_alignment(labels, *predicted)
    facts = [_facts(*each, labels) for each in zip(paths, predictors, outputs, strict=True)]
    both = None
    if baseline is not None:
        both = compare(outputs[0], outputs[1], labels, kind=_kind(own), max_drop=max_drop)
    return Evaluation(
        data=dataset,
        names=names,
        model=facts[-1],
        baseline=facts[0] if both else None,
        comparison=both,
    )
