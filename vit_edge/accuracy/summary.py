"""An evaluation in words, for a terminal of 80 columns."""

import textwrap
from collections.abc import Iterator

from vit_edge.accuracy.evaluation import Comparison, Evaluation, ModelFacts

__all__ = ["agreement_text", "paired_text", "percent", "size", "summary"]

_WIDTH = 80
_CLASSES_SHOWN = 5


def size(count: int) -> str:
    """1234567 -> "1.2 MB" (powers of ten)."""
    value = float(count)
    for unit in ("B", "kB", "MB"):
        if value < 1000:
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1000
    return f"{value:.2f} GB"


def percent(share: float) -> str:
    """0.8265 -> "82.65 %"."""
    return f"{100 * share:.2f} %"


def summary(found: Evaluation) -> list[str]:
    """The lines to print, the verdict last; none is longer than 80 characters."""
    lines = [f"data         {found.data.folder}: {len(found.data):,} images, {found.data.origin}", ""]
    lines += _table(found)
    both = found.comparison
    if both:
        lines += ["", *_block("agreement", agreement_text(both))]
    if both and both.paired:
        lines += [*_block("paired", paired_text(both)), *_worst_classes(found, both)]
    if both and both.verdict:
        lines += ["", *textwrap.wrap(f"{both.verdict.outcome}: {both.verdict.message}", _WIDTH)]
    return [_fitting(line) for line in lines]


def _fitting(line: str) -> str:
    """At most 80 characters, none of which a terminal acts on: names of files and classes may hold anything."""
    line = "".join(c if c.isprintable() else "\ufffd" for c in line)
    return line if len(line) <= _WIDTH else line[: _WIDTH - 1] + "…"


def _table(found: Evaluation) -> Iterator[str]:
    files = [facts for facts in (found.baseline, found.model) if facts]
    heads = ["baseline", "model"] if found.baseline else ["model"]
    yield f"{'':<13}" + "".join(f"{head:>26}" for head in heads)
    rows = [_column(facts) for facts in files]
    for cells in zip(*rows, strict=True):
        yield f"{cells[0][0]:<13}" + "".join(f"{value[-25:]:>26}" for _, value in cells)


def _column(facts: ModelFacts) -> list[tuple[str, str]]:
    cells = [("file", facts.path.name), ("size", size(facts.bytes)), ("precision", facts.manifest.model.precision)]
    found = facts.accuracy
    if found:
        low, high = found.top1_interval
        cells.append(("top-1", f"{percent(found.top1)} ({100 * low:.1f} … {100 * high:.1f})"))
        cells.append(("top-5", "-" if found.top5 is None else percent(found.top5)))
        cells.append(("calibration", f"ECE {found.ece:.3f}"))
    return cells


def agreement_text(both: Comparison) -> tuple[str, str]:
    """Same classes; distance of the outputs."""
    near = both.agreement
    sqnr = "equal outputs" if near.sqnr_db is None else f"SQNR {near.sqnr_db:.1f} dB"
    first = f"same class for {percent(near.argmax)} of the images ({len(both.flips):,} flipped)"
    far = f"relative L2 {near.relative_l2:.3g}, worst image {near.relative_l2_worst:.3g}"
    return first, f"{far}; {sqnr}; KL {near.kl:.2g} nats"


def paired_text(both: Comparison) -> tuple[str, str]:
    """Lost and gained; the drop with its interval."""
    paired = both.paired
    assert paired is not None
    low, high = paired.interval
    return (
        f"{paired.lost:,} lost, {paired.gained:,} gained of {paired.images:,} images; McNemar p = {paired.p:.2g}",
        f"drop {paired.drop:+.2f} points of top-1, 95 % interval {low:+.2f} … {high:+.2f}",
    )


def _worst_classes(found: Evaluation, both: Comparison) -> Iterator[str]:
    losers = [loss for loss in both.classes if loss.baseline_right > loss.model_right][:_CLASSES_SHOWN]
    for i, loss in enumerate(losers):
        change = f"{loss.baseline_right} → {loss.model_right} of {loss.images}"
        yield f"{'lost most' if i == 0 else '':<13}{change:<16}{found.class_name(loss.label)}"


def _block(head: str, lines: tuple[str, ...]) -> list[str]:
    return [f"{'' if i else head:<13}{line}" for i, line in enumerate(lines)]
