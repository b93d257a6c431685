"""`vit-edge adopt`: any ONNX image model to a model file."""

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from vit_edge.cli.console import human_bytes, notice, steps
from vit_edge.cli.early import check_foreign, check_options, check_output
from vit_edge.cli.options import image_size
from vit_edge.preprocessing import NAMES
from vit_edge.runtime.errors import ConfigError

if TYPE_CHECKING:
    from vit_edge.export.adoption import AdoptOptions, AdoptReport

__all__ = ["adopt"]

STEPS = 5  # that `vit_edge.export.adoption.adopt` announces
_REPAIRS_SHOWN = 5
KINDS = ("logits", "probabilities", "features", "tokens", "map")


@click.command(short_help="Any ONNX image model to a model file.")
@click.argument("foreign", metavar="FOREIGN.onnx")
@click.option("-o", "output", required=True, metavar="OUT.onnx", help="The file to write.")
@click.option(
    "--preprocess",
    metavar="NAME|FILE",
    help="imagenet, half (mean = std = 0.5), clip, unit (0..1), a preprocessor_config.json or a timm config.json.",
)
@click.option("--labels", metavar="FILE", help="Class names: one a line, or JSON.")
@click.option("--fix-batch", is_flag=True, help="Repair sizes that were baked in for one batch.")
@click.option("--image-size", callback=image_size, metavar="N|HxW", help="Where the file leaves it open; then fixed.")
@click.option("--layout", type=click.Choice(["nchw", "nhwc"]), help="Where the file does not tell.")
@click.option("--output-name", metavar="NAME", help="Which of several outputs.")
@click.option("--output", "output_kind", type=click.Choice(KINDS), help="By default told from shapes and values.")
def adopt(foreign: str, output: str, **options: Any) -> None:
    """Adopt FOREIGN.onnx, a model of any tool with one image input, as a vit-edge model file.

    The file itself is the reference: what is written gives the same at batch 1, 2, 3 and 7, with and without
    onnxruntime's optimisations, or nothing is written.
    """
    check_foreign(foreign)
    check_output(foreign, output)
    if options["preprocess"] is None:
        raise ConfigError(
            f"{foreign} does not tell how its images were preprocessed: give --preprocess "
            f"{', '.join(NAMES)}, a preprocessor_config.json or a timm config.json"
        )
    check_options(preprocess=options["preprocess"], labels=options["labels"])

    from vit_edge.export.adoption import adopt as run

    chosen = _options(**options)
    with steps(STEPS) as progress:
        report = run(foreign, output, chosen, progress=progress)
    _show(report)


def _options(*, preprocess: str, labels: str | None, **options: Any) -> "AdoptOptions":
    from vit_edge.export.adoption import AdoptOptions
    from vit_edge.export.foreign import Choices
    from vit_edge.labels import read_labels
    from vit_edge.preprocessing import resolve

    return AdoptOptions(
        preprocess=partial(resolve, preprocess),
        preprocess_origin=f"--preprocess {Path(preprocess).name}",
        labels=partial(read_labels, labels) if labels else None,
        output_kind=options["output_kind"],
        choices=Choices(layout=options["layout"], image_size=options["image_size"], output_name=options["output_name"]),
        fix_batch=options["fix_batch"],
    )


def _show(report: "AdoptReport") -> None:
    """Print what was adopted, what was repaired, how it was checked and where it is."""
    from vit_edge.export.rewrites import Rewrites
    from vit_edge.preprocessing import describe

    manifest = report.manifest
    adopted: Any = manifest.provenance["adopted"]
    for note in manifest.model.assumptions:
        notice(note)
    output, given = manifest.output, adopted["input"]
    size = " x ".join(map(str, output.shape)) or str(output.classes)
    click.echo(f"model        {manifest.model.name}: by {adopted['producer']}, {manifest.model.precision}")
    click.echo(f"input        {given['dtype']} {given['layout'].upper()} -> float32 NCHW, any batch")
    for repair in report.repairs[:_REPAIRS_SHOWN]:
        click.echo(f"repaired     {repair}")
    if len(report.repairs) > _REPAIRS_SHOWN:
        click.echo(f"             and {len(report.repairs) - _REPAIRS_SHOWN} more, listed by inspect --json")
    click.echo(f"output       {output.name}: {output.kind}, {size} an image")
    click.echo(f"preprocess   {describe(manifest.input.preprocess)}")
    click.echo(f"             from {manifest.provenance['preprocess_origin']}")
    if output.kind in ("logits", "probabilities"):
        click.echo(f"labels       {len(manifest.labels) or 'none: classes will be numbers (--labels FILE)'}")
    if (rewrites := Rewrites.of(manifest)).attentions:
        click.echo(f"rewrites     {rewrites}")
    click.echo(f"parity       {report.parity}")
    nbytes = report.path.stat().st_size + (manifest.external_data.bytes if manifest.external_data else 0)
    nodes, opset = manifest.provenance["nodes"], manifest.provenance["opset"]
    click.echo(f"wrote        {report.path}: {human_bytes(nbytes)}, opset {opset}, {nodes} nodes")
    click.echo(f"runs on      onnxruntime {manifest.minimum_runtime} or newer")
