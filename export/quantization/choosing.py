"""Which sites stay float: the fewest that bring the whole model to its target on calibration images."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from vit_edge.export.quantization.schemes import Target
from vit_edge.export.quantization.trial import Trial

__all__ = ["Choice", "choose_float"]

_MOST_TRIALS = 8
_MARGIN = 0.95  # aimed at a little below the target, because the prediction is rough
_RESCUE_SHARE = 0.5  # of the weights: a model that needs more in float is not worth quantizing


@dataclass(frozen=True, slots=True)
class Choice:
    """Sites that stay float, and what the model then gives."""

    kept: frozenset[str]
    trial: Trial
    reached: bool


def choose_float(
    attempt: Callable[[frozenset[str]], Trial],
    damage: Mapping[str, float],
    weights: Mapping[str, int],
    target: Target,
    start: Iterable[str] = (),
) -> Choice:
    """Keep sites float until the target is reached, those first that gain most for the bytes they cost.

    Errors of different sites are taken as independent: their squares add up. Where the target is out of reach of
    `target.float_share`, the nearest choice within it is taken; if that is below the floor, more may stay float.

    Args:
        attempt: the whole model with these sites float.
        damage: relative L2 of the outputs that each site causes, by name.
        weights: number of weights of each site, by name.
        target: what is to be reached.
        start: sites that stay float in any case.
    """
    kept = frozenset(start)
    tried = [Choice(kept, first := attempt(kept), target.met(first))]
    for share in (target.float_share, _RESCUE_SHARE):
        while len(tried) < _MOST_TRIALS and not tried[-1].reached:
            more = _next(tried[-1], damage, weights, target, share)
            if not more:
                break
            kept = tried[-1].kept | more
            trial = attempt(kept)
            tried.append(Choice(kept, trial, target.met(trial)))
        best = min(tried, key=lambda choice: (not choice.reached, choice.trial.l2))
        if best.reached or target.bearable(best.trial):
            return best
    return best


def _next(
    choice: Choice, damage: Mapping[str, float], weights: Mapping[str, int], target: Target, share: float
) -> frozenset[str]:
    """One site or more, whose errors' squares make up for what is missing, as far as the share goes."""
    left = {name: value**2 for name, value in damage.items() if name not in choice.kept}
    total = sum(left.values())
    if not total:
        return frozenset()
    need = total * (1 - _shrink(choice.trial, target) ** 2)
    room = share * sum(weights.values()) - sum(weights[name] for name in choice.kept if name in weights)
    chosen: set[str] = set()
    for name in sorted(left, key=lambda name: left[name] / weights[name], reverse=True):
        if need <= 0:
            break
        if weights[name] <= room:
            chosen.add(name)
            room -= weights[name]
            need -= left[name]
    return frozenset(chosen)


def _shrink(trial: Trial, target: Target) -> float:
    """The factor by which errors have to fall; images that change their class fall with them."""
    wanted = [target.l2 / trial.l2 if trial.l2 > 0 else 1.0]
    if trial.agreement is not None and trial.agreement < 1:
        wanted.append((1 - target.agreement) / (1 - trial.agreement))
    return _MARGIN * min(1.0, *wanted)
