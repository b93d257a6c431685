"""A measurement as text, at most 80 columns wide."""

import textwrap
from collections.abc import Iterator

from vit_edge.bench.bench import Bench, CandidateResult

__all__ = ["summary"]

_WIDTH = 80
_NAME = 24


def summary(found: Bench) -> Iterator[str]:
    """Lines for a terminal: machine, one row a candidate in two tables, verdicts."""
    machine = found.machine
    yield f"machine      {machine.cpu}, {machine.threads} threads, onnxruntime {machine.onnxruntime}"
    yield ""
    yield f"{'one image':<{_NAME}}{'p50':>9}{'p90':>9}{'p99':>9}  ratio (95 % interval)"
    for each in found.candidates:
        yield from _named(each.name, "".join(f"{ms:6.1f} ms" for ms in _quantiles(each)) + f"  {_ratio(each)}")
    yield ""
    batches = sorted({batch for each in found.candidates for batch in (*each.throughput, *each.failed)})
    heads = "".join(f"{f'batch {batch}':>10}" for batch in batches)
    yield f"{'images a second':<{_NAME}}{heads}{'load':>9}{'first':>9}"
    for each in found.candidates:
        cells = "".join(f"{each.throughput[b]:10.1f}" if b in each.throughput else f"{'-':>10}" for b in batches)
        yield from _named(each.name, f"{cells}{each.load_ms:6.0f} ms{each.first_ms:6.0f} ms")
    yield ""
    yield f"{'size':<{_NAME}}{'file':>10}{'memory':>10}  precision"
    for each in found.candidates:
        yield from _named(each.name, f"{each.bytes / 1e6:7.1f} MB{each.rss / 1e6:7.0f} MB  {each.precision}")
    yield ""
    for verdict in found.verdicts:
        yield from textwrap.wrap(f"verdict      {verdict}", _WIDTH, subsequent_indent=" " * 13)
    for each in found.candidates:
        if elsewhere := _elsewhere(each):
            yield from textwrap.wrap(f"nodes        {elsewhere}", _WIDTH, subsequent_indent=" " * 13)
        for batch, reason in each.failed.items():
            yield from textwrap.wrap(f"batch {batch:<7}not run: {reason}", _WIDTH, subsequent_indent=" " * 13)


def _elsewhere(each: CandidateResult) -> str:
    """Which nodes the provider that was asked for did not run."""
    others = {provider: count for provider, count in each.nodes.items() if provider not in each.providers[:1]}
    told = ", ".join(f"{count} of {sum(each.nodes.values())} on {provider}" for provider, count in others.items())
    return f"{each.name}: {told} instead of {each.providers[0]}" if told and each.providers else ""


def _quantiles(each: CandidateResult) -> tuple[float, float, float]:
    return each.latency.p50, each.latency.p90, each.latency.p99


def _ratio(each: CandidateResult) -> str:
    if each.ratio is None:
        return "1"
    if each.ratio.low is None:
        return f"{each.ratio.value:.2f}x (too few rounds)"
    return f"{each.ratio.value:.2f}x ({each.ratio.low:.2f} … {each.ratio.high:.2f})"


def _named(name: str, cells: str) -> Iterator[str]:
    """A row; a long name has a line of its own."""
    if len(name) < _NAME:
        yield f"{name:<{_NAME}}{cells}"
        return
    yield name
    yield " " * _NAME + cells
