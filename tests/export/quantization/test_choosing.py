"""Which sites stay float, with errors whose squares add up as they should."""

from collections.abc import Callable

import pytest

from vit_edge.export.quantization.choosing import choose_float
from vit_edge.export.quantization.schemes import Target
from vit_edge.export.quantization.trial import Trial

DAMAGE = {"a": 0.03, "b": 0.2, "c": 0.04, "d": 0.05}
WEIGHTS = {"a": 10, "b": 100, "c": 100, "d": 1000}


def model(damage: dict[str, float]) -> Callable[[frozenset[str]], Trial]:
    def attempt(kept: frozenset[str]) -> Trial:
        l2 = sum(value**2 for name, value in damage.items() if name not in kept) ** 0.5
        return Trial(1 - l2 / 4, l2, 96)

    return attempt


def test_nothing_stays_float_where_the_target_is_met() -> None:
    choice = choose_float(model(DAMAGE), DAMAGE, WEIGHTS, Target(l2=0.3, agreement=0.9))
    assert choice.reached
    assert not choice.kept


def test_the_site_that_gains_most_for_its_bytes_comes_first() -> None:
    choice = choose_float(model(DAMAGE), DAMAGE, WEIGHTS, Target(l2=0.08, float_share=0.2))
    assert choice.reached
    assert choice.kept == {"b"}


def test_the_share_of_float_weights_is_kept() -> None:
    choice = choose_float(model(DAMAGE), DAMAGE, WEIGHTS, Target(l2=0.001, float_share=0.1))
    assert not choice.reached
    assert sum(WEIGHTS[name] for name in choice.kept) <= 0.1 * sum(WEIGHTS.values())
    assert "b" in choice.kept


def test_a_broken_model_may_exceed_the_share() -> None:
    damage = {**DAMAGE, "d": 2.0}
    weights = {**WEIGHTS, "d": 150}
    choice = choose_float(model(damage), damage, weights, Target(float_share=0.01))
    assert "d" in choice.kept
    assert choice.trial.l2 <= 0.3


def test_models_without_classes_are_judged_by_distance_alone() -> None:
    attempt = model(DAMAGE)
    choice = choose_float(lambda kept: Trial(None, attempt(kept).l2, 9), DAMAGE, WEIGHTS, Target(l2=0.3))
    assert choice.reached


@pytest.mark.parametrize("l2", [float("inf"), float("nan")])
def test_what_is_not_finite_is_neither_reached_nor_bearable(l2: float) -> None:
    assert not Target().met(Trial(1.0, l2, 9))
    assert not Target().bearable(Trial(1.0, l2, 9))
