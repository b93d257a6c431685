"""Do the labels of a data set count the classes as the model does?

A list that starts at 1, or classes sorted by name where the model sorts by number, makes every accuracy a chance
hit. It would be reported as a broken model, or, worse, two equally wrong accuracies would pass as "no drop".
Three signs are looked for, none of which a model that is merely bad shows:

- two models agree with each other, and neither with the labels;
- predictions are the labels shifted by one fixed number;
- predictions determine the labels, but not as the same class: relabelled by what half of the images teach, they
  fit the other half far better than as they are.
"""

import numpy as np
import numpy.typing as npt

from vit_edge.accuracy.errors import MisalignedError

__all__ = ["check_alignment", "looks_misaligned"]

Classes = npt.NDArray[np.int64]  # (n,)

_FEWEST = 20  # images; fewer are too few to tell a wrong order from bad luck
_AGREE = 0.5
_SHIFTED = 0.25
_CONSISTENT = 0.3  # of what the commonest label leaves open
_DOMINANT = 0.5  # a class predicted more often than this: the model is stuck, whatever the labels are


def _chance(predicted: Classes, labels: Classes) -> float:
    """The accuracy that is expected if the labels are dealt out at random: sum of p(class) q(class)."""
    size = int(max(predicted.max(), labels.max())) + 1
    shares = np.bincount(predicted, minlength=size) * np.bincount(labels, minlength=size)
    return float(shares.sum()) / len(labels) ** 2


def _at_chance(right: int, n: int, chance: float) -> bool:
    """No more right than chance gives, within three standard deviations (and two images, where it is rare)."""
    return bool(right <= n * chance + max(3 * np.sqrt(n * chance * (1 - chance)), 2))


def _shift(predicted: Classes, labels: Classes) -> tuple[int, float]:
    """The commonest difference of prediction and label, and the share of images that have it."""
    values, counts = np.unique(predicted - labels, return_counts=True)
    return int(values[counts.argmax()]), float(counts.max()) / len(labels)


def _relabelled(predicted: Classes, labels: Classes) -> float:
    """The accuracy if each prediction stood for its commonest label, learned on half of the images each time."""
    order, right = np.argsort(labels, kind="stable"), 0  # every class is dealt out to both halves
    halves = (order[::2], order[1::2])
    for learn, test in (halves, halves[::-1]):
        pairs, counts = np.unique(np.stack([predicted[learn], labels[learn]]), axis=1, return_counts=True)
        rising = np.argsort(counts, kind="stable")
        best = dict(zip(pairs[0, rising].tolist(), pairs[1, rising].tolist(), strict=True))  # the commonest comes last
        said = np.array([best.get(p, -1) for p in predicted[test].tolist()])
        right += int((said == labels[test]).sum())
    return right / len(labels)


def _largest_share(values: Classes) -> float:
    return float(np.bincount(values).max()) / len(values)


def looks_misaligned(labels: Classes, predicted: Classes, other: Classes | None = None) -> str | None:
    """What speaks for misaligned labels, in words, or None.

    Args:
        labels: (n,) int64.
        predicted: (n,) int64, the classes that the more trustworthy model (the baseline) predicts.
        other: (n,) int64, what a second model predicts.
    """
    n, right = len(labels), int((predicted == labels).sum())
    if n < _FEWEST:
        return None
    top1 = right / n
    at_chance = _at_chance(right, n, _chance(predicted, labels))
    stuck = _largest_share(predicted) > max(_DOMINANT, _largest_share(labels))
    if other is not None and at_chance and not stuck:
        agree = float((predicted == other).mean())
        if agree >= _AGREE and agree > 2 * _chance(predicted, other):
            return f"baseline and model agree on {agree:.0%} of the images, and only {top1:.1%} fit the labels"
    shift, share = _shift(predicted, labels)
    if shift != 0 and at_chance and share >= _SHIFTED and not stuck:
        return f"{share:.0%} of the predictions are the label {shift:+d}, and only {top1:.1%} are the label"
    fitting, common = _relabelled(predicted, labels), _largest_share(labels)
    if fitting > 2 * top1 and fitting - common > _CONSISTENT * (1 - common):
        return f"predictions tell the labels of {fitting:.0%} of the images, but as other classes: {top1:.1%} fit"
    return None


def check_alignment(labels: Classes, predicted: Classes, other: Classes | None = None) -> None:
    """Stop where the labels count the classes in another order than the model.

    Raises:
        MisalignedError: `looks_misaligned` found a sign of it.
    """
    sign = looks_misaligned(labels, predicted, other)
    if sign:
        raise MisalignedError(f"labels look misaligned: {sign}; compare the order of classes with `vit-edge inspect`")
