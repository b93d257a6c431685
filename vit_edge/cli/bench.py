"""`vit-edge bench`: how fast model files are here. Needs no torch."""

from pathlib import Path

import click

from vit_edge.cli.console import notice, say, steps
from vit_edge.cli.options import runtime_options

__all__ = ["bench"]

_INTERRUPTED = 130


@click.command("bench", short_help="How fast files are here, compared fairly.")
@click.argument("models", metavar="MODEL.onnx[@KEY=VALUE,...]...", nargs=-1, required=True)
@click.option("--rounds", type=click.IntRange(1, 1000), default=12, show_default=True, help="Below 6, no intervals.")
@click.option(
    "--batch", "batches", type=click.IntRange(1, 4096), multiple=True, metavar="N", help="For throughput [1, 4, 16]."
)
@click.option(
    "--minutes", type=click.FloatRange(0, 1440, min_open=True), default=5.0, show_default=True,
    help="No round begins after these.",
)  # fmt: skip
@click.option("--json", "json_file", metavar="F", help="Write all numbers as JSON; - is standard output.")
@runtime_options
def bench(
    models: tuple[str, ...],
    rounds: int,
    batches: tuple[int, ...],
    minutes: float,
    json_file: str | None,
    provider: tuple[str, ...],
    threads: int | None,
) -> int:
    """Measure each MODEL against the first, and say in words which is faster on this machine.

    Each has a process of its own; rounds alternate, so that what slows the machine slows all alike. Settings go
    behind an @: int8.onnx@threads=1, int8.onnx@session.dynamic_block_base=4, fp32.onnx@provider=NAME. Model files are
    checked before they are measured; other .onnx files with one image input can be compared, too.

    Ctrl-C ends the measurement and shows what there is (exit 130).
    """
    from vit_edge.accuracy.writing import check_target, write_text
    from vit_edge.bench import Plan, parse_candidate
    from vit_edge.bench import bench as run
    from vit_edge.bench.record import to_json
    from vit_edge.bench.summary import summary

    if json_file and json_file != "-":
        check_target(Path(json_file))
    candidates = [parse_candidate(each, threads=threads, providers=provider) for each in models]
    plan = Plan(rounds=rounds, batches=batches or (1, 4, 16), minutes=minutes)
    thirds = max(1, rounds // 3) + 1
    total = len(candidates) + rounds + 1 + thirds * len(set(plan.batches) - {1})
    with steps(total) as step:
        found = run(candidates, plan, step)
    for each in found.notices:
        notice(each)
    if json_file == "-":
        click.echo(to_json(found), nl=False)
    else:
        for line in summary(found):
            say(line)
    if json_file and json_file != "-":
        write_text(Path(json_file), to_json(found))
        say(f"wrote        {json_file}")
    return _INTERRUPTED if found.interrupted else 0
