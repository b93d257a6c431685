"""`vit-edge verify`: is this file still what was exported?"""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from vit_edge.cli.console import steps
from vit_edge.cli.options import checkpoint_options, runtime_options
from vit_edge.runtime.text import printable

if TYPE_CHECKING:
    from vit_edge.runtime.selftest import Finding

__all__ = ["show_findings", "verify"]


@click.command(short_help="Golden check and parity with the checkpoint.")
@click.argument("model")
@click.option("--checkpoint", metavar="CKPT", help="The source: compare weights, outputs and every named tensor.")
@checkpoint_options
@click.option("--images", metavar="DIR", help="Real images for the comparison with the checkpoint.")
@runtime_options
def verify(
    model: str,
    checkpoint: str | None,
    arch: str | None,
    heads: int | None,
    images: str | None,
    provider: tuple[str, ...],
    threads: int | None,
) -> int:
    """Check MODEL against its own manifest on this machine, and against its checkpoint where one is given.

    The first part needs no torch. A failed check exits with 1; with --checkpoint, which is for fp32 files, it names
    the first tensor that differs.
    """
    from vit_edge.runtime.selftest import self_test

    if checkpoint is None and (images or arch or heads):
        raise click.UsageError("--images, --arch and --heads go with --checkpoint")
    findings = self_test(model, providers=provider or None, threads=threads)
    if checkpoint is not None:
        findings += _against_checkpoint(model, checkpoint, arch, heads, images)
    show_findings(findings)
    return 0 if all(finding.passed for finding in findings) else 1


def _against_checkpoint(
    model: str, checkpoint: str, arch: str | None, heads: int | None, images: str | None
) -> "list[Finding]":
    from vit_edge.checkpoints import LoadOptions, load_checkpoint
    from vit_edge.export import verify as run
    from vit_edge.runtime import onnxfile
    from vit_edge.runtime.errors import ConfigError
    from vit_edge.runtime.images import find_images
    from vit_edge.runtime.manifest import read_manifest

    manifest = read_manifest(onnxfile.read(model))
    if manifest.model.source_format == "onnx":
        raise ConfigError(f"{model} was adopted from an .onnx file: it has no checkpoint; verify it without one")
    if manifest.model.precision != "fp32":
        raise ConfigError(
            f"{model} is quantized ({manifest.model.precision}), unlike its checkpoint: give --checkpoint with the "
            f"fp32 file it was made from, and compare the two: vit-edge eval {model} --baseline FP32.onnx"
        )
    used = manifest.provenance.get("load_options")
    said = used if isinstance(used, dict) else {}
    known = LoadOptions(
        arch=arch or said.get("arch"),
        heads=heads or said.get("heads"),
        image_size=manifest.input.preprocess.size,
    )
    chosen = find_images(Path(images)) if images else []
    with steps(4) as progress:
        progress("loading the checkpoint")
        return run(Path(model), manifest, load_checkpoint(checkpoint, known), chosen, progress=progress)


def show_findings(findings: "list[Finding]") -> None:
    """One line a check, and the verdict."""
    for finding in findings:
        verdict = click.style("ok  ", fg="green") if finding.passed else click.style("FAIL", fg="red", bold=True)
        click.echo(f"{verdict} {finding.check:<12} {printable(finding.detail)}")
    failed = [finding.check for finding in findings if not finding.passed]
    click.echo(f"failed: {', '.join(failed)}" if failed else f"all {len(findings)} checks passed")
