"""Two models on the same images: how much accuracy was lost, how sure that is, and the verdict.

Only images that one model gets right and the other wrong (discordant pairs) carry information about the
difference. With n images, `lost` of them right before and wrong now, `gained` the other way round::

    drop = (lost - gained) / n

Interval: Tango's score interval for the difference of paired proportions (T. Tango, Statistics in Medicine
17:891-908, 1998). It inverts the score test: a drop D belongs to it while::

    |lost - gained - n D| <= z sqrt(n (2 q + D (1 - D)))

where q is the most likely share of gained images given D. It stays honest where few pairs are discordant, which
is the usual case for a quantized model: with none at all it is +-z^2 / (n + z^2), the "rule of three"; Wald's
interval is then 0 wide, and Newcombe's method 10 too narrow where accuracy is near 50 %.

p-value: McNemar's exact test, the binomial test of `lost` among the discordant pairs at 1/2 (Q. McNemar,
Psychometrika 12:153-157, 1947), two-sided, in exact integer arithmetic.
"""

import math
from dataclasses import dataclass
from statistics import NormalDist
from typing import Literal

import numpy as np
import numpy.typing as npt

from vit_edge.runtime.errors import ConfigError

__all__ = ["Paired", "Verdict", "check_budget", "images_needed", "judge", "mcnemar_p", "pair", "tango_interval"]

CONFIDENCE = 0.95
POWER = 0.8
_BISECTIONS = 60  # of an interval no longer than 2: far below float64's resolution

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Paired:
    """The paired comparison of a model with its baseline.

    Attributes:
        images: How many.
        both_right: Right in both.
        lost: Right in the baseline, wrong in the model.
        gained: Wrong in the baseline, right in the model.
        both_wrong: Wrong in both.
        drop: In points of top-1 (100 * (lost - gained) / images); negative where the model is better.
        interval: The 95 % interval of the drop, in points.
        p: McNemar's exact p-value for "no difference".
    """

    images: int
    both_right: int
    lost: int
    gained: int
    both_wrong: int
    drop: float
    interval: tuple[float, float]
    p: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """May the model replace its baseline?

    Attributes:
        outcome: `pass`: the whole interval lies within the budget; `fail`: the whole interval lies above it;
            `undecided`: neither.
        max_drop: The budget, in points.
        images_needed: For an undecided verdict, about how many images prove the budget at the measured discordance:
            at the measured drop, or, where that is not within the budget, if there is no drop at all.
        message: One sentence.
    """

    outcome: Literal["pass", "fail", "undecided"]
    max_drop: float
    images_needed: int | None
    message: str


def _score_statistic(lost: Floats, gained: Floats, images: Floats, drop: Floats) -> Floats:
    """Tango's statistic at a supposed drop, standard normal if that is the true one; falls as `drop` grows."""
    linear = (2 * images - lost + gained) * drop - lost - gained
    root = np.sqrt(np.maximum(linear**2 + 8 * images * gained * drop * (1 - drop), 0))
    share = (root - linear) / (4 * images)  # of gained images, most likely given the drop
    variance = np.maximum(images * (2 * share + drop * (1 - drop)), 0)
    difference = lost - gained - images * drop
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(variance > 0, difference / np.sqrt(variance), np.sign(difference) * np.inf)


def tango_interval(
    lost: npt.ArrayLike, gained: npt.ArrayLike, images: npt.ArrayLike, confidence: float = CONFIDENCE
) -> tuple[Floats, Floats]:
    """Tango's score interval of the drop (lost - gained) / images.

    Args:
        lost: Images that only the baseline gets right: a number, or an array of any shape.
        gained: Images that only the model gets right, the same shape.
        images: All images, the same shape; at least lost + gained, and 1.
        confidence: Two-sided.

    Returns:
        The lower and the upper limits, each in -1..1, in the shape of the arguments.
    """
    b, c, n = np.broadcast_arrays(*(np.asarray(each, np.float64) for each in (lost, gained, images)))
    z = NormalDist().inv_cdf(0.5 + confidence / 2)
    limits = []
    for edge, target in ((-1.0, z), (1.0, -z)):
        inner, outer = (b - c) / n, np.full(b.shape, edge)
        for _ in range(_BISECTIONS):
            middle = (inner + outer) / 2
            within = np.abs(_score_statistic(b, c, n, middle)) <= abs(target)
            inner, outer = np.where(within, middle, inner), np.where(within, outer, middle)
        limits.append((inner + outer) / 2)
    return limits[0], limits[1]


def mcnemar_p(lost: int, gained: int) -> float:
    """McNemar's exact two-sided p-value: what `scipy.stats.binomtest(lost, lost + gained)` gives.

    With k the smaller count of m discordant pairs it is min(1, 2 (C(m,0) + ... + C(m,k)) / 2^m).
    """
    pairs, fewer = lost + gained, min(lost, gained)
    term = total = 1
    for k in range(1, fewer + 1):
        term = term * (pairs - k + 1) // k
        total += term
    if 2 * total >= 1 << pairs:
        return 1.0
    return (2 * total) / (1 << pairs)  # both are integers: Python rounds the quotient correctly, however large


def pair(baseline_right: npt.NDArray[np.bool_], model_right: npt.NDArray[np.bool_]) -> Paired:
    """Compare two models image by image.

    Args:
        baseline_right: (n,) bool, n >= 1.
        model_right: (n,) bool, of the same images in the same order.
    """
    n = len(baseline_right)
    lost, gained = int((baseline_right & ~model_right).sum()), int((~baseline_right & model_right).sum())
    both = int((baseline_right & model_right).sum())
    low, high = tango_interval(lost, gained, n)
    return Paired(
        images=n,
        both_right=both,
        lost=lost,
        gained=gained,
        both_wrong=n - lost - gained - both,
        drop=100 * (lost - gained) / n,
        interval=(100 * float(low), 100 * float(high)),
        p=mcnemar_p(lost, gained),
    )


def images_needed(discordance: float, drop: float, max_drop: float, *, power: float = POWER) -> int | None:
    """About how many images prove that a drop is within the budget.

    The normal approximation (z_0.975 + z_power)^2 (discordance - drop^2) / (max_drop - drop)^2 for non-inferiority
    of paired proportions (J.-P. Liu et al., Statistics in Medicine 21:231-245, 2002); never less than what is needed
    where no pair at all is discordant.

    Args:
        discordance: Share of images that only one of the models gets right, 0..1.
        drop: The true drop supposed, in points; a gain counts as none.
        max_drop: The budget, in points.
        power: The probability that so many images do prove it.

    Returns:
        The number, or None where the supposed drop is not within the budget.
    """
    supposed, budget = max(drop, 0.0) / 100, max_drop / 100
    if supposed >= budget:
        return None
    z, z_power = NormalDist().inv_cdf(0.5 + CONFIDENCE / 2), NormalDist().inv_cdf(power)
    spread = max(discordance - supposed**2, 0.0)
    approximate = (z + z_power) ** 2 * spread / (budget - supposed) ** 2
    return math.ceil(max(approximate, z**2 * (1 - budget) / budget))


def check_budget(max_drop: float) -> None:
    """Refuse what is no number of points.

    Raises:
        ConfigError: It is not in 0..100.
    """
    if not 0 <= max_drop <= 100:
        raise ConfigError(f"got a budget of {max_drop} points, expected 0..100")


def _needed(paired: Paired, max_drop: float) -> tuple[int | None, str]:
    """How many images would prove the budget at the measured discordance, and at which drop."""
    discordance = (paired.lost + paired.gained) / paired.images
    for drop, supposed in ((paired.drop, "at this drop"), (0.0, "if there is no drop")):
        needed = images_needed(discordance, drop, max_drop)
        if needed is not None:
            return max(needed, paired.images + 1), supposed  # as many as there were did not do
    return None, ""


def judge(paired: Paired, max_drop: float) -> Verdict:
    """Hold a comparison against a budget.

    Args:
        paired: The comparison.
        max_drop: How many points of top-1 may be lost, 0..100.

    Raises:
        ConfigError: The budget is none.
    """
    check_budget(max_drop)
    low, high = paired.interval
    found = f"drop {paired.drop:+.2f} points, 95 % interval {low:+.2f} … {high:+.2f}, n = {paired.images:,}"
    if high <= max_drop:
        message = f"{found}: within {max_drop:g}"
        return Verdict(outcome="pass", max_drop=max_drop, images_needed=None, message=message)
    if low > max_drop:
        message = f"{found}: above {max_drop:g}"
        return Verdict(outcome="fail", max_drop=max_drop, images_needed=None, message=message)
    needed, supposed = _needed(paired, max_drop)
    advice = f"about {needed:,} images needed to prove {max_drop:g} {supposed}" if needed else "only a gain proves 0"
    return Verdict(outcome="undecided", max_drop=max_drop, images_needed=needed, message=f"{found}; {advice}")
