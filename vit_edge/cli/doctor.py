"""`vit-edge doctor`: is this machine fit, and where can a model run? Needs no torch."""

import dataclasses
from typing import TYPE_CHECKING, Any

import click

from vit_edge.cli.console import human_bytes, notice, say
from vit_edge.runtime.errors import ModelFileError
from vit_edge.runtime.text import to_json

if TYPE_CHECKING:
    from vit_edge.doctor import Machine, Verdict
    from vit_edge.runtime.selftest import Finding

__all__ = ["doctor"]


@click.command(short_help="Is this machine fit, and where can a model run?")
@click.argument("model", required=False, metavar="[MODEL.onnx]")
@click.option("--json", "as_json", is_flag=True, help="Everything as JSON.")
def doctor(model: str | None, as_json: bool) -> int:
    """Show what this machine has for running models: usable cores, CPU features, memory, onnxruntime.

    With MODEL also its self-test on this machine and a verdict for each kind of device, judged by its operators: the
    oldest onnxruntime, what would fall back to the CPU, into how many pieces the graph is cut, and what to do.
    Exits with 1 where onnxruntime cannot be imported or the self-test fails.
    """
    from vit_edge.doctor import this_machine, verdicts

    machine = this_machine()
    judged = verdicts(model) if model else ()
    findings = _self_test(model) if model and not machine.onnxruntime.problem else []
    if as_json:
        click.echo(to_json(_record(machine, findings, judged, model), indent=2))
    else:
        _show(machine, findings, judged)
    failed = machine.onnxruntime.problem or not all(finding.passed for finding in findings)
    return 1 if failed else 0


def _self_test(model: str) -> "list[Finding]":
    from vit_edge.runtime.selftest import Finding, self_test

    try:
        return self_test(model)
    except ModelFileError as error:  # a plain .onnx, or one that does not run here: the verdicts still hold
        return [Finding("golden", False, str(error))]


def _record(
    machine: "Machine", findings: "list[Finding]", judged: "tuple[Verdict, ...]", model: str | None
) -> dict[str, Any]:
    """The stable JSON form."""
    found, ram = machine.onnxruntime, machine.memory
    record: dict[str, Any] = {
        "system": machine.system,
        "python": machine.python,
        "threads": machine.threads,
        "cores": machine.cores,
        "cpu_features": list(machine.cpu_features),
        "memory": {**dataclasses.asdict(ram), "usable": ram.usable},
        "providers": list(found.providers),
        "onnxruntime": {"version": found.version, "build": found.build, "problem": found.problem},
        "notes": list(machine.notes),
    }
    if model:
        record["model"] = model
        record["self_test"] = [dataclasses.asdict(finding) for finding in findings]
        record["targets"] = [dataclasses.asdict(verdict) for verdict in judged]
    return record


def _show(machine: "Machine", findings: "list[Finding]", judged: "tuple[Verdict, ...]") -> None:
    found, ram = machine.onnxruntime, machine.memory
    usable = "unknown" if ram.usable is None else human_bytes(ram.usable)
    free = "" if ram.available is None else f", {human_bytes(ram.available)} free"
    say(f"system       {machine.system}, Python {machine.python}")
    say(f"threads      {machine.threads} usable of {machine.cores or 'unknown'}")
    say(f"CPU          {' '.join(machine.cpu_features) or 'unknown'}")
    say(f"memory       {usable}{free}")
    say(f"onnxruntime  {found.problem or found.version}")
    if not found.problem:
        say(f"providers    {', '.join(found.providers)}")
    for note in machine.notes:
        notice(note)
    for finding in findings:
        say(f"{'ok  ' if finding.passed else 'FAIL'} {finding.check:<8}{finding.detail}")
    for verdict in judged:
        pieces = f"{verdict.taken} of {verdict.nodes} nodes in {verdict.partitions} piece(s)"
        say(f"{verdict.target:<9}{verdict.status:<8}{pieces}; {verdict.advice}")
        if verdict.fallback:
            lacks = ", ".join(f"{count} {op}" for op, count in verdict.fallback.items())
            say(f"{'':<17}lacks {lacks}")
