"""Measure candidates against the first of them."""

import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from vit_edge.bench.candidate import Candidate
from vit_edge.bench.errors import BenchError
from vit_edge.bench.estimate import Latency, Ratio, latency, ratio
from vit_edge.bench.machine import Idleness, Machine, this_machine
from vit_edge.bench.process import Worker
from vit_edge.bench.rounds import Plan, Rounds, measure
from vit_edge.runtime.errors import ConfigError

__all__ = ["Bench", "CandidateResult", "bench"]

_MOST = 16  # candidates: each holds a model in memory


@dataclass(frozen=True, slots=True, kw_only=True)
class CandidateResult:
    """One candidate.

    Attributes:
        name: see `Candidate.name`.
        precision: of a model file, like "int8"; "no model file" of other files.
        providers: that the session really has.
        nodes: provider -> nodes that it really ran; empty where interrupted, and of other engines.
        latency: of one image.
        ratio: to the first candidate; None of the first itself.
        throughput: batch size -> images a second; batches that it cannot run, or that there was no time for, are not
            there.
        failed: batch size -> why it cannot run it.
        load_ms: to open the file, without its check.
        first_ms: the first inference.
        rss: peak memory of its process with one image a run, in bytes, Python and libraries included.
        bytes: of the file, with weights beside it.
    """

    name: str
    precision: str
    providers: tuple[str, ...]
    nodes: dict[str, int]
    latency: Latency
    ratio: Ratio | None
    throughput: dict[int, float]
    failed: dict[int, str]
    load_ms: float
    first_ms: float
    rss: int
    bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """What `bench` found.

    Attributes:
        machine: where.
        candidates: in their order.
        verdicts: a sentence for each candidate behind the first.
        busy: share of the CPUs that others used in the pauses; None where the system does not say.
        notices: what makes the figures doubtful.
        interrupted: by the user; what was measured until then is here.
    """

    machine: Machine
    candidates: tuple[CandidateResult, ...]
    verdicts: tuple[str, ...]
    busy: float | None
    notices: tuple[str, ...]
    interrupted: bool


def bench(candidates: Sequence[Candidate], plan: Plan, progress: Callable[[str], None] = lambda step: None) -> Bench:
    """Measure candidates in alternating rounds, each in its own process.

    Args:
        candidates: the first is what the others are compared with.
        plan: how much.
        progress: called with each step as it begins.

    Raises:
        BenchError: a candidate does not load, computes something else here than where it was made, or its process
            ended; or not one round was finished.
        ConfigError: there are no candidates, too many, two of one name, or the plan cannot be followed.
    """
    _check(candidates, plan)
    deadline, idle = time.monotonic() + 60 * plan.minutes, Idleness()
    measured: dict[int, Rounds] = {}
    with ExitStack() as stack:
        workers = []
        for candidate in candidates:
            progress(f"load {candidate.name}")
            workers.append(stack.enter_context(Worker(candidate)))
        for batch in (1, *sorted(set(plan.batches) - {1})):
            rounds = plan.rounds if batch == 1 else max(1, plan.rounds // 3)
            measured[batch] = measure(workers, batch, rounds, deadline, idle, progress)
            if measured[batch].interrupted or time.monotonic() > deadline:
                break
        interrupted = any(each.interrupted for each in measured.values())
        nodes, unknown = _nodes([] if interrupted else workers)  # behind all that is timed
        nodes += [{} for _ in workers[len(nodes) :]]
        facts = [{**worker.facts, "nodes": each} for worker, each in zip(workers, nodes, strict=True)]
    if not measured[1].seconds[0]:
        raise BenchError("interrupted before a round was finished: nothing was measured")
    found = tuple(_result(i, each, facts[i], measured) for i, each in enumerate(candidates))
    verdicts = tuple(_verdict(found[0], each) for each in found[1:])
    return Bench(
        machine=this_machine(),
        candidates=found,
        verdicts=verdicts,
        busy=idle.busy,
        notices=(*_notices(plan, idle, measured), *unknown),
        interrupted=interrupted,
    )


def _check(candidates: Sequence[Candidate], plan: Plan) -> None:
    if not 1 <= len(candidates) <= _MOST:
        raise ConfigError(f"got {len(candidates)} candidates, expected 1..{_MOST}")
    names = [each.name for each in candidates]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ConfigError(f"two candidates are named {twice[0]}: rename a file, or compare different settings")
    if not 1 <= plan.rounds <= 1000 or not 0 < plan.minutes <= 24 * 60:
        raise ConfigError(f"got {plan.rounds} rounds and {plan.minutes} minutes, expected 1..1000 and up to a day")
    if any(not 1 <= batch <= 4096 for batch in plan.batches):
        raise ConfigError(f"got the batches {plan.batches}, expected 1..4096")


def _nodes(workers: Sequence[Worker]) -> tuple[list[dict[str, int]], list[str]]:
    """Each candidate's nodes by provider, and what is to be said where they cannot be told: nothing timed is lost."""
    nodes: list[dict[str, int]] = []
    unknown = []
    for worker in workers:
        try:
            nodes.append(worker.nodes())
        except BenchError as error:  # its process ended with a batch that was too much for it
            nodes.append({})
            unknown.append(f"which provider ran the nodes is not known: {error}")
        except KeyboardInterrupt:
            return nodes, [*unknown, "interrupted before it was known which provider ran the nodes"]
    return nodes, unknown


def _result(index: int, candidate: Candidate, facts: dict[str, object], measured: dict[int, Rounds]) -> CandidateResult:
    alone = measured[1]
    compared = None if index == 0 else ratio(alone.medians(0), alone.medians(index))
    throughput = {
        batch: batch / latency(rounds.seconds[index]).p50 * 1000
        for batch, rounds in measured.items()
        if rounds.seconds[index]
    }
    return CandidateResult(
        name=candidate.name,
        precision=str(facts["precision"]),
        providers=tuple(str(each) for each in facts.get("providers", ())),  # type: ignore[attr-defined]
        nodes=facts["nodes"],  # type: ignore[arg-type]
        latency=latency(alone.seconds[index]),
        ratio=compared,
        throughput=throughput,
        failed={batch: rounds.failed[index] for batch, rounds in measured.items() if index in rounds.failed},
        load_ms=1000 * float(facts["load"]),  # type: ignore[arg-type]
        first_ms=1000 * float(facts["first"]),  # type: ignore[arg-type]
        rss=alone.rss[index],
        bytes=_size(Path(candidate.path)),
    )


def _size(path: Path) -> int:
    """Of a file, and of the weights beside it: the ONNX convention of a `.data` file, OpenVINO's `.bin`."""
    beside = [path.with_name(path.name + ".data"), path.with_suffix(".data"), path.with_suffix(".bin")]
    return sum(each.stat().st_size for each in {path, *beside} if each.is_file())


def _verdict(base: CandidateResult, other: CandidateResult) -> str:
    found = other.ratio
    assert found is not None
    if found.low is None or found.high is None:
        return f"{other.name}: {found.value:.2f}x of {base.name}; {found.rounds} rounds are too few for an interval"
    interval = f"(95 % interval {found.low:.2f} … {found.high:.2f}, {found.rounds} rounds)"
    match found.outcome:
        case "faster":
            return f"{other.name} is {found.value:.2f}x as fast as {base.name} here {interval}"
        case "slower" if base.precision == "fp32" and other.precision not in ("fp32", "no model file"):
            smaller = " unless size decides" if other.bytes < base.bytes else ""
            return (
                f"{other.name} is slower here: {found.value:.2f}x of {base.name} {interval}: ship {base.name}{smaller}"
            )
        case "slower":
            return f"{other.name} is slower here: {found.value:.2f}x of {base.name} {interval}"
        case _:
            return f"{other.name} is neither faster nor slower than {base.name} here, as far as can be told {interval}"


def _notices(plan: Plan, idle: Idleness, measured: dict[int, Rounds]) -> tuple[str, ...]:
    notices = [idle.notice] if idle.notice else []
    done = len(measured[1].seconds[0])
    missing = sorted(set(plan.batches) - set(measured))
    if done < plan.rounds:
        notices.append(f"{done} of {plan.rounds} rounds were measured")
    if missing:
        notices.append(f"no time was left for batches of {', '.join(map(str, missing))}")
    return tuple(notices)
