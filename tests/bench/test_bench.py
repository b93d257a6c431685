"""Whole measurements of engines whose times are told: verdicts, batches that fail, budgets, interruption."""

import json
from collections.abc import Callable

import pytest

from vit_edge.bench import Bench, BenchError, Candidate, Plan, bench
from vit_edge.bench import rounds as rounds_module
from vit_edge.bench.process import Worker
from vit_edge.bench.record import to_json
from vit_edge.bench.summary import summary
from vit_edge.runtime.errors import ConfigError

MakeEngine = Callable[..., Candidate]
QUICK = Plan(rounds=6, batches=(1,))


@pytest.fixture(autouse=True)
def _without_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rounds_module, "_PAUSE", 0.001)


def test_faster(engine: MakeEngine) -> None:
    found = bench([engine("a", 4.0), engine("b", 2.0)], QUICK)
    assert found.verdicts == ("b is 2.00x as fast as a here (95 % interval 2.00 … 2.00, 6 rounds)",)
    assert found.candidates[0].latency.p50 == pytest.approx(4)
    assert found.candidates[1].throughput == {1: pytest.approx(500)}
    assert (found.candidates[1].rss, found.candidates[1].load_ms, found.candidates[1].first_ms) == (2000, 100, 200)
    assert not found.interrupted


def test_slower_int8_is_not_to_be_shipped(engine: MakeEngine) -> None:
    found = bench([engine("fp32", 1.0), engine("int8", 2.0, "int8")], QUICK)
    assert found.verdicts[0].startswith("int8 is slower here: 0.50x of fp32")
    assert found.verdicts[0].endswith("ship fp32")


def test_slower_of_two_fp32_is_only_slower(engine: MakeEngine) -> None:
    found = bench([engine("a", 1.0), engine("b", 2.0)], QUICK)
    assert "slower" in found.verdicts[0]
    assert "ship" not in found.verdicts[0]


def test_equal_is_undecided_and_few_rounds_have_no_interval(engine: MakeEngine) -> None:
    assert "neither faster nor slower" in bench([engine("a"), engine("b")], QUICK).verdicts[0]
    found = bench([engine("a", 4.0), engine("b", 2.0)], Plan(rounds=2, batches=(1,)))
    assert found.verdicts == ("b: 2.00x of a; 2 rounds are too few for an interval",)


def test_a_batch_that_cannot_be_run_is_noted(engine: MakeEngine) -> None:
    before = 'if request["batch"] == 4:\n        print(json.dumps({"error": "only one"}), flush=True)\n        continue'
    found = bench([engine("a"), engine("b", before=before)], Plan(rounds=3, batches=(1, 4)))
    assert found.candidates[1].failed == {4: "b: only one"}
    assert set(found.candidates[0].throughput) == {1, 4}
    assert set(found.candidates[1].throughput) == {1}
    assert any(line.startswith("batch 4") and "only one" in line for line in summary(found))


def test_a_process_that_a_batch_ends_costs_no_figures(engine: MakeEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    dies = 'if request["batch"] > 1: sys.exit(9)'
    found = bench([engine("a"), engine("b", before=dies)], Plan(rounds=3, batches=(1, 4, 16)))
    assert set(found.candidates[0].throughput) == {1, 4, 16}
    assert set(found.candidates[1].failed) == {4, 16}
    assert "ended with exit code 9" in found.candidates[1].failed[4]

    def ended(worker: Worker) -> dict[str, int]:
        raise BenchError(f"{worker.candidate.name}: its process ended")

    monkeypatch.setattr(Worker, "nodes", ended)
    found = bench([engine("a")], QUICK)
    assert found.candidates[0].nodes == {}
    assert "which provider ran the nodes is not known: a: its process ended" in found.notices


def test_no_round_begins_behind_the_budget(engine: MakeEngine) -> None:
    found = bench([engine("a")], Plan(rounds=50, batches=(1, 4), minutes=1e-9))
    assert found.candidates[0].latency.runs > 0
    assert "1 of 50 rounds were measured" in found.notices
    assert "no time was left for batches of 4" in found.notices


def interrupted_at(engine: MakeEngine, step: str) -> Bench:
    def stop(told: str) -> None:
        if told == step:
            raise KeyboardInterrupt

    return bench([engine("a"), engine("b")], Plan(rounds=9, batches=(1,)), stop)


def test_interruption_keeps_what_was_measured(engine: MakeEngine) -> None:
    found = interrupted_at(engine, "batch 1, round 3 of 9")
    assert found.interrupted
    assert found.candidates[1].ratio is not None
    assert found.candidates[1].ratio.rounds == 2
    with pytest.raises(BenchError, match="nothing was measured"):
        interrupted_at(engine, "batch 1, round 1 of 9")


def test_text_fits_80_columns(engine: MakeEngine) -> None:
    long = engine("a-name-that-is-longer-than-its-column", 1234.5, "int8")
    found = bench([engine("fp32", 999.4), long], Plan(rounds=6, batches=(1, 4, 16)))
    lines = list(summary(found))
    assert any("verdict" in line for line in lines)
    assert max(map(len, lines)) <= 80, max(lines, key=len)


def test_json_fields(engine: MakeEngine) -> None:
    record = json.loads(to_json(bench([engine("a", 2.0), engine("b")], QUICK)))
    assert list(record) == [
        "schema_version", "vit_edge", "machine", "candidates", "verdicts", "busy", "notices", "interrupted",
    ]  # fmt: skip
    assert record["schema_version"] == 1
    assert list(record["candidates"][1]) == [
        "name", "precision", "providers", "nodes", "latency", "ratio", "throughput", "failed", "load_ms", "first_ms",
        "rss", "bytes", "outcome",
    ]  # fmt: skip
    assert list(record["candidates"][1]["ratio"]) == ["value", "low", "high", "rounds"]
    assert [each["outcome"] for each in record["candidates"]] == [None, "faster"]


@pytest.mark.parametrize(
    ("names", "plan", "problem"),
    [
        ([], QUICK, "got 0 candidates"),
        (["a"] * 17, QUICK, "got 17 candidates"),
        (["a", "a"], QUICK, "two candidates are named a"),
        (["a"], Plan(rounds=0), "got 0 rounds"),
        (["a"], Plan(minutes=float("nan")), "nan minutes"),
        (["a"], Plan(batches=(0,)), "got the batches"),
    ],
)
def test_plans_that_cannot_be_followed(engine: MakeEngine, names: list[str], plan: Plan, problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        bench([engine(name) for name in names], plan)
