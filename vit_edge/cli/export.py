"""`vit-edge export`: checkpoint to verified model file."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from vit_edge.cli.console import human_bytes, notice, steps
from vit_edge.cli.early import OPSETS, check_checkpoint, check_options, check_output
from vit_edge.cli.options import checkpoint_options, image_size, list_architectures
from vit_edge.runtime.images import find_images

if TYPE_CHECKING:
    from vit_edge.building import Config
    from vit_edge.checkpoints import Checkpoint
    from vit_edge.export import ExportOptions, ExportReport
    from vit_edge.wrapped import WrappedConfig

__all__ = ["export", "show_report"]

STEPS = 6  # that `vit_edge.export.export` announces


@click.command(short_help="Checkpoint to verified .onnx.")
@click.argument("checkpoint")
@click.option("-o", "output", required=True, metavar="OUT.onnx", help="The file to write.")
@checkpoint_options
@click.option("--image-size", callback=image_size, metavar="N|HxW", help="Another resolution: positions are resampled.")
@click.option("--labels", metavar="FILE", help="Class names: one a line, or JSON.")
@click.option(
    "--preprocess",
    metavar="NAME|FILE",
    help="imagenet, half (mean = std = 0.5), clip, unit (0..1), a preprocessor_config.json or a timm config.json.",
)
@click.option(
    "--output",
    "kind",
    type=click.Choice(["logits", "probabilities", "features", "tokens"]),
    help="features: the pooled vector; tokens: all of them. Default: as the model's own.",
)
@click.option(
    "--opset",
    type=int,
    default=23,
    show_default=True,
    help=f"{OPSETS.start} to {OPSETS.stop - 1}; up to 22 for onnxruntime before 1.23.",
)
@click.option("--images", metavar="DIR", help="Real images for the parity check and the test of assumed heads.")
@click.option(
    "--list-archs",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=list_architectures,
    help="Show the named architectures.",
)
def export(checkpoint: str, output: str, **options: Any) -> None:
    """Export CHECKPOINT, a file, a folder or hf:owner/name, to one ONNX file.

    Reads timm, Hugging Face, torchvision, DeiT, MAE, Google .npz and vit-edge checkpoints. Parity with PyTorch is
    checked after every stage; when it fails, nothing is written.
    """
    check_checkpoint(checkpoint)
    check_output(checkpoint, output)
    check_options(**{name: options[name] for name in ("preprocess", "labels", "arch", "opset")})
    options["images"] = tuple(find_images(options["images"])) if options["images"] else ()

    from vit_edge.export import export as run

    with steps(STEPS + 1) as progress:
        progress("loading the checkpoint")
        loaded, chosen = _load(checkpoint, **options)
        report = run(loaded, output, chosen, progress=progress)
    show_report(report, loaded)


def _load(
    checkpoint: str, *, preprocess: str | None, labels: str | None, images: tuple[Path, ...], **options: Any
) -> "tuple[Checkpoint, ExportOptions]":
    from vit_edge.checkpoints import LoadOptions, load_checkpoint
    from vit_edge.export import ExportOptions
    from vit_edge.labels import read_labels
    from vit_edge.preprocessing import NAMES, resolve
    from vit_edge.runtime.errors import ConfigError

    known = LoadOptions(arch=options["arch"], heads=options["heads"], image_size=options["image_size"])
    loaded = load_checkpoint(checkpoint, known)
    config = loaded.model.config
    if preprocess is None and loaded.preprocess is None:
        raise ConfigError(
            f"{checkpoint} does not tell how its images were preprocessed: give --preprocess "
            f"{', '.join(NAMES)}, a preprocessor_config.json or a timm config.json, or name a preset with --arch"
        )
    return loaded, ExportOptions(
        preprocess=resolve(preprocess, config.image_size, config.channels) if preprocess else None,
        preprocess_origin=f"--preprocess {Path(preprocess).name}" if preprocess else "",
        labels=read_labels(labels, config.classes) if labels else None,
        output=options["kind"],
        opset=options["opset"],
        images=images,
    )


def _heads(config: "Config | WrappedConfig") -> str:
    if config.heads is None:
        return "as the module has them"
    if isinstance(config.heads, int):
        return f"{config.heads} of width {config.width // config.heads}"
    return ", ".join(map(str, config.heads)) + " in the stages"


def show_report(report: "ExportReport", loaded: "Checkpoint") -> None:
    """Print what was exported, what was assumed, how it was checked and where it is."""
    from vit_edge.export.rewrites import Rewrites
    from vit_edge.preprocessing import describe

    manifest, config = report.manifest, loaded.model.config
    for note in report.notes:
        notice(note)
    origin = str(manifest.provenance["preprocess_origin"])
    if origin.startswith("the preset"):
        notice(f"preprocessing is {origin}: give --preprocess if the model was trained with another one")
    size = f"{config.image_size[0]}x{config.image_size[1]}"
    click.echo(f"model        {loaded.name} ({loaded.format}): {manifest.model.parameters:,} parameters, {size}")
    click.echo(f"heads        {_heads(config)}")
    click.echo(f"preprocess   {describe(manifest.input.preprocess)}")
    click.echo(f"             from {origin}")
    if manifest.output.kind in ("logits", "probabilities"):
        click.echo(f"labels       {len(manifest.labels) or 'none: classes will be numbers (--labels FILE)'}")
    click.echo(f"output       {manifest.output.kind}, {manifest.output.classes:,} numbers an image")
    if (rewrites := Rewrites.of(manifest)).attentions:
        click.echo(f"rewrites     {rewrites}")
    for stage in report.parity:
        click.echo(f"parity       {stage}")
    nbytes = report.path.stat().st_size + (manifest.external_data.bytes if manifest.external_data else 0)
    opset = manifest.provenance["opset"]
    click.echo(
        f"wrote        {report.path}: {human_bytes(nbytes)}, opset {opset}, {manifest.provenance['nodes']} nodes"
    )
    click.echo(f"runs on      onnxruntime {manifest.minimum_runtime} or newer")
