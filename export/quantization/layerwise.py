"""Quantization layer by layer: observe, plan, mend, measure, and keep float what breaks the target."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from vit_edge.export.errors import ParityError, QuantizationError
from vit_edge.export.parity import TOLERANCES, deviation
from vit_edge.export.quantization.calibration import ImageSet
from vit_edge.export.quantization.choosing import Choice, choose_float
from vit_edge.export.quantization.integer import bias_corrections
from vit_edge.export.quantization.linears import Site, find_sites
from vit_edge.export.quantization.observation import Observation, TokenPeaks, observe
from vit_edge.export.quantization.planning import SitePlan, mend, mended_rows, plain_plan, plan_site
from vit_edge.export.quantization.ranges import Range
from vit_edge.export.quantization.schemes import Target
from vit_edge.export.quantization.sensitivity import Writer, damages, describe_shape, describe_streams
from vit_edge.export.quantization.trial import Trial, compare, run
from vit_edge.runtime.errors import ConfigError

__all__ = ["LayerReport", "Layerwise", "Numbers", "quantize_layers"]

Array = npt.NDArray[np.float32]
Progress = Callable[[str], None]

_DAMAGE_IMAGES = 12
_TRIAL_IMAGES = 96
_LEAST_SPREAD = 1e-4  # of the largest output, as in `parity`


@dataclass(frozen=True, slots=True)
class LayerReport:
    """What was found about a site and what was done about it.

    Attributes:
        name: of the layer, or of those that read the same tensor.
        damage: relative L2 of the outputs when it alone is quantized, without remedies.
        largest: magnitude in what it reads.
        p999: the 99.9th percentile of magnitudes in what it reads.
        found: in words; empty where nothing is unusual.
        decision: "float", or the scheme and the remedies.
        weights: how many it has.
    """

    name: str
    damage: float
    largest: float
    p999: float
    found: str
    decision: str
    weights: int


@dataclass(frozen=True, slots=True)
class Numbers:
    """How a scheme stores layers.

    Attributes:
        name: of the scheme.
        writer: makes of what was observed what puts quantized layers into a graph.
        levels: of the activations' integers.
        mends: whether folds and splits help; they do not where activations stay float.
    """

    name: str
    writer: Callable[[Mapping[str, Observation]], Writer]
    levels: int = 256
    mends: bool = True


@dataclass(frozen=True, slots=True)
class _Survey:
    """What calibration images showed: each site's tensor, the residual stream, the float graph's outputs."""

    sites: Mapping[str, Observation]
    streams: Mapping[str, TokenPeaks]
    reference: Array


@dataclass(frozen=True, slots=True)
class _Mended:
    """The float graph after folds and splits, and what its sites need to be quantized."""

    model: ir.Model
    ranges: Mapping[str, Range]
    corrections: Mapping[str, Array]

    def written(self, write: Writer, kept: Iterable[str]) -> ir.Model:
        kept = set(kept)
        ranges = {name: chosen for name, chosen in self.ranges.items() if name not in kept}
        return write(self.model, ranges, self.corrections)


@dataclass(frozen=True, slots=True)
class Layerwise:
    """A graph whose layers can be quantized or left float one by one."""

    mended: _Mended
    name: str
    write: Writer
    sites: tuple[Site, ...]
    plans: Mapping[str, SitePlan]
    survey: _Survey
    damage: Mapping[str, float]
    images: ImageSet
    classes: bool

    def written(self, kept: Iterable[str]) -> ir.Model:
        """The quantized graph with these sites float."""
        return self.mended.written(self.write, kept)

    def attempt(self, kept: Iterable[str]) -> Trial:
        """How near it is to the float graph, on some of the calibration images."""
        chosen = self.images.evenly(_TRIAL_IMAGES)
        got = run(self.written(kept), self.images.subset(chosen).images())
        return compare(got, self.survey.reference[list(chosen)], classes=self.classes)

    def choose(self, target: Target, kept: Iterable[str] = ()) -> Choice:
        """Keep float what the target needs.

        Raises:
            QuantizationError: the model is broken whatever stays float.
        """
        left = {name: self.damage[name] * _remedied(plan) for name, plan in self.plans.items()}
        weights = {site.name: site.weight.size for site in self.sites}
        choice = choose_float(self.attempt, left, weights, target, kept)
        if not target.bearable(choice.trial):
            raise QuantizationError(self._refusal(choice, target))
        return choice

    def _refusal(self, choice: Choice, target: Target) -> str:
        worst = sorted(self.reports(choice.kept), key=lambda each: each.damage, reverse=True)[:3]
        layers = "; ".join(f"{each.name} ({each.found or f'damage {each.damage:.2f}'})" for each in worst)
        asked = Trial(target.worst_agreement if self.classes else None, target.worst_l2, choice.trial.n)
        return (
            f"{self.name} breaks this model: {choice.trial}; the least that is accepted is {asked}. Worst: "
            f"{layers}. Try --scheme w8a16, or fp16 for size"
        )

    def reports(self, kept: Iterable[str]) -> tuple[LayerReport, ...]:
        """Of every site, in the order of the graph."""
        kept = frozenset(kept)
        return tuple(self._report(site, site.name in kept) for site in self.sites)

    def _report(self, site: Site, is_float: bool) -> LayerReport:
        seen = self.survey.sites[site.name]
        return LayerReport(
            name=site.name,
            damage=self.damage[site.name],
            largest=float(seen.peak.max()),
            p999=seen.p999,
            found=describe_shape(seen),
            decision=_decision(self.name, self.plans[site.name], is_float),
            weights=site.weight.size,
        )

    @property
    def found(self) -> str:
        """About the residual stream, in words; empty where nothing is unusual."""
        return describe_streams(self.survey.streams)


def quantize_layers(
    model: ir.Model,
    images: ImageSet,
    numbers: Numbers,
    *,
    classes: bool,
    progress: Progress = lambda step: None,
) -> Layerwise:
    """Find what quantization does to each layer and mend what can be mended exactly.

    Args:
        model: the float graph; not changed.
        images: like those that the model will see.
        numbers: of the scheme.
        classes: whether the largest output is an answer.
        progress: called with each step.

    Raises:
        ParityError: folding and splitting changed what the graph computes.
        ConfigError: a calibration image cannot be used, or all are the same.
        QuantizationError: nothing in the graph can be quantized.
    """
    sites = tuple(find_sites(model.graph))
    if not sites:
        raise QuantizationError("has no MatMul or Gemm with constant float32 weights: nothing to quantize")
    progress(f"{len(images)} images through {len(sites)} places")
    survey = _survey(model, sites, images)
    progress("remedies")
    of, levels, write = survey.sites, numbers.levels, numbers.writer(survey.sites)
    plain = {site.name: plain_plan(site, of[site.name], levels) for site in sites}
    plans = plain
    if numbers.mends:
        plans = {site.name: plan_site(model.graph, site, of[site.name], levels) for site in sites}
    mended = _mended(model, plans, of)
    chosen = images.evenly(_DAMAGE_IMAGES)
    few, expected = list(images.subset(chosen).images()), survey.reference[list(chosen)]
    _check_parity(mended.model, few[:4], expected[:4])
    progress("damage of each layer")
    damage = damages(model, plain, write, few, expected)
    progress("the whole model")
    return Layerwise(mended, numbers.name, write, sites, plans, survey, damage, images, classes)


def _survey(model: ir.Model, sites: Iterable[Site], images: ImageSet) -> _Survey:
    by_value = {str(site.source.name): site.name for site in sites}
    normalised = (node.inputs[0] for node in model.graph if node.op_type == "LayerNormalization")
    streams = dict.fromkeys(str(value.name) for value in normalised if value is not None and value.producer())
    seen, peaks, reference = observe(model, list(by_value), images.images(), len(images), streams=list(streams))
    if reference.std(axis=0).max() <= _LEAST_SPREAD * np.abs(reference).max():
        raise ConfigError("the calibration images all give the same outputs: are they all the same image?")
    return _Survey({by_value[value]: each for value, each in seen.items()}, peaks, reference)


def _mended(model: ir.Model, plans: Mapping[str, SitePlan], of: Mapping[str, Observation]) -> _Mended:
    made = mend(model, plans)
    corrections: dict[str, Array] = {}
    for site in find_sites(made.graph):
        plan = plans[site.name]
        corrections.update(bias_corrections(site, mended_rows(plan, of[site.name].rows), plan.range))
    return _Mended(made, {name: plan.range for name, plan in plans.items()}, corrections)


def _check_parity(mended: ir.Model, images: list[Array], reference: Array) -> None:
    """Folds and splits are exact: the same gate as for every other stage."""
    tolerance = TOLERANCES["simplified"]
    for got, expected in zip(run(mended, images), reference, strict=True):
        max_abs, l2 = deviation(got, expected)
        if max_abs > tolerance.max_abs or l2 > tolerance.l2:
            raise ParityError(f"mended graph: max|Δ| {max_abs:.1e} and L2 {l2:.1e} of the float graph's outputs")


def _remedied(plan: SitePlan) -> float:
    """The factor by which remedies lessen a site's error."""
    return float(np.sqrt(min(1.0, plan.error / plan.plain_error))) if plan.plain_error > 0 else 1.0


def _decision(scheme: str, plan: SitePlan, is_float: bool) -> str:
    if is_float:
        return "float"
    channels = ", ".join(map(str, plan.channels))
    apart = f", channel{'s' if len(plan.channels) > 1 else ''} {channels} apart in float" if channels else ""
    return scheme + (", rescaled" if plan.scales is not None and (plan.scales != 1).any() else "") + apart
