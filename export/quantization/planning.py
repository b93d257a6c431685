"""What is done about each site before it is quantized, chosen from the calibration sample alone."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from vit_edge.export.quantization.folding import ALPHAS, apply_scales, balanced_scales, foldable
from vit_edge.export.quantization.linears import Site, find_sites
from vit_edge.export.quantization.observation import Observation
from vit_edge.export.quantization.ranges import Range, choose_range, quantize_weight
from vit_edge.export.quantization.splitting import split_channels

__all__ = ["SitePlan", "mend", "plain_plan", "plan_site"]

Array = npt.NDArray[np.float32]

_MOST_CHANNELS = 8  # that a site's float part may have
# Splitting pays where the error is large (relative, squared) and concentrated: on the real ViT-Tiny, blocks.7.mlp.fc2
# falls 260-fold with one channel, blocks.6 ten-fold and blocks.10 three-fold with two; no other site halves with eight.
_LARGE_ERROR = 3e-4
_CLEAR_GAIN = 2.5
_SMALL_ERROR = 1e-4  # below it more channels gain nothing


@dataclass(frozen=True, slots=True, eq=False)
class SitePlan:
    """How one site is quantized.

    Attributes:
        site: its name.
        scales: t, (K,), by which its channels are divided and its weights' rows multiplied; None leaves them.
        channels: that are taken out and stay float.
        range: of the activation after both.
        error: expected squared error of the layers' outputs relative to their square, from rounding and clipping.
        plain_error: the same without remedies.
    """

    site: str
    scales: Array | None
    channels: tuple[int, ...]
    range: Range
    error: float
    plain_error: float


@dataclass(frozen=True, slots=True)
class _Candidate:
    scales: Array | None
    rows: Array
    low: Array
    high: Array
    weight: Array

    def error(self, channels: Sequence[int], levels: int) -> tuple[float, Range]:
        """Squared error of the outputs without these channels, and the range that has it."""
        kept = np.ones(len(self.low), bool)
        kept[list(channels)] = False
        weight = np.where(kept[:, None], self.weight, 0)
        chosen = choose_range(self.rows, float(self.low[kept].min()), float(self.high[kept].max()), weight, levels)
        return chosen.error + _weight_error(self.rows, weight), chosen


def _weight_error(rows: Array, weight: Array) -> float:
    """Expected squared error of an output row that int8 weights cause, channels taken as independent."""
    numbers, scale = quantize_weight(weight)
    difference = np.square(numbers * scale - weight, dtype=np.float64).sum(axis=1)
    return float(np.square(rows, dtype=np.float64).mean(axis=0) @ difference)


def _candidate(site: Site, seen: Observation, scales: Array | None) -> _Candidate:
    if scales is None:
        return _Candidate(None, seen.rows, seen.low, seen.high, site.weight)
    return _Candidate(scales, seen.rows / scales, seen.low / scales, seen.high / scales, site.weight * scales[:, None])


def plain_plan(site: Site, seen: Observation, levels: int = 256) -> SitePlan:
    """Quantize a site as it is."""
    error, chosen = _candidate(site, seen, None).error((), levels)
    relative = error / _signal(site, seen)
    return SitePlan(site.name, None, (), chosen, relative, relative)


def plan_site(graph: ir.Graph, site: Site, seen: Observation, levels: int = 256) -> SitePlan:
    """Choose the fold with the least error, then take out channels where that clearly pays.

    Args:
        graph: the site's.
        site: of the graph as it is.
        seen: on the calibration images.
        levels: of the activation's integers.
    """
    signal = _signal(site, seen)
    plain = plain_plan(site, seen, levels)
    best = _candidate(site, seen, None)
    if foldable(graph, site) is not None:
        made = [_candidate(site, seen, balanced_scales(seen.peak, site.weight, alpha)) for alpha in ALPHAS]
        best = min(made, key=lambda candidate: candidate.error((), levels)[0])
    channels = _outliers(best, signal, levels)
    error, chosen = best.error(channels, levels)
    return SitePlan(site.name, best.scales, channels, chosen, error / signal, plain.error)


def _signal(site: Site, seen: Observation) -> float:
    """Mean square of an output row, without bias."""
    return max(float(np.square(seen.rows @ site.weight, dtype=np.float64).sum(axis=1).mean()), 1e-30)


def _outliers(candidate: _Candidate, signal: float, levels: int) -> tuple[int, ...]:
    """The fewest channels that do nearly all that taking channels out can do; none where it does little."""
    whole = candidate.error((), levels)[0] / signal
    if whole < _LARGE_ERROR:
        return ()
    order = np.argsort(-np.maximum(-candidate.low, candidate.high), kind="stable")
    most = min(_MOST_CHANNELS, len(order) // 8)
    counts = [count for count in (1, 2, 4, 8) if count <= most]
    errors = {count: candidate.error(order[:count].tolist(), levels)[0] / signal for count in counts}
    if not errors or min(errors.values()) * _CLEAR_GAIN > whole:
        return ()
    enough = max(1.5 * min(errors.values()), _SMALL_ERROR)
    count = next(count for count, error in errors.items() if error <= enough)
    return tuple(sorted(int(channel) for channel in order[:count]))


def mend(model: ir.Model, plans: Mapping[str, SitePlan]) -> ir.Model:
    """Fold and split as planned; the function of the graph stays the same.

    Args:
        model: not changed.
        plans: by site name.
    """
    made = apply_scales(model, {name: plan.scales for name, plan in plans.items() if plan.scales is not None})
    for site in find_sites(made.graph):
        plan = plans.get(site.name)
        if plan is not None and plan.channels:
            made = split_channels(made, site.name, plan.channels)
    return made


def mended_rows(plan: SitePlan, rows: Array) -> Array:
    """The calibration sample as the mended site sees it."""
    made = rows if plan.scales is None else rows / plan.scales
    if plan.channels:
        made = made.copy()
        made[:, list(plan.channels)] = 0
    return made
