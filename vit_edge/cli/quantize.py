"""`vit-edge quantize`: a float model file to a smaller and faster one."""

import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from vit_edge.cli.console import human_bytes, notice, steps
from vit_edge.cli.evaluate import EXIT_CODES

if TYPE_CHECKING:
    from vit_edge.export.quantization import LayerCost, QuantizeReport, Scheme

__all__ = ["quantize", "show_quantized"]

STEPS = 6  # that `vit_edge.export.quantization.quantize` announces
_WIDTH = 80
_SHOWN = 5  # layers that were simply quantized, those that suffer most

# Told here as well as in `schemes`, so that --help needs no torch; a test compares them.
PURPOSES = {
    "int8": "speed on CPUs with onnxruntime; answers do not depend on the batch",
    "int8-dynamic": "no calibration images at hand; slower, and an answer depends on its batch mates",
    "int8-qdq": "other engines: OpenVINO, QNN, XNNPACK, TensorRT; standard operators only",
    "w8a16": "accelerators with 16-bit activations, models that int8 breaks; slow on CPUs",
    "int4": "the smallest file; slower than fp32 on CPUs, and loses some accuracy",
    "fp16": "half the size without loss; as fast as fp32 on CPUs",
}
_EPILOG = "Schemes:\n\n\b\n" + "\n".join(f"{name:<13} {purpose}" for name, purpose in PURPOSES.items())


@click.command(short_help="int8 and others, checked.", epilog=_EPILOG)
@click.argument("model", metavar="MODEL.onnx")
@click.option("-o", "output", required=True, metavar="OUT.onnx", help="The file to write.")
@click.option("--calib", metavar="DIR", help="64 to 200 images like those the model will see, without labels.")
@click.option("--scheme", type=click.Choice(list(PURPOSES)), default="int8", show_default=True)
@click.option("--data", metavar="DIR", help="Labelled images that decide, with --max-drop.")
@click.option("--max-drop", type=float, metavar="PTS", help="Points of top-1 that may be lost on --data.")
@click.option("--keep-float", metavar="LAYER", multiple=True, help="A layer that stays float in any case.")
@click.option("--block", type=click.Choice(["16", "32", "64", "128"]), help="int4: weights that share a scale [32].")
@click.option("--compute", is_flag=True, help="fp16: also compute in half precision, for engines that have it.")
@click.option("--all-layers", is_flag=True, help="Show every layer, not only those with a finding.")
def quantize(
    model: str,
    output: str,
    calib: str | None,
    data: str | None,
    max_drop: float | None,
    all_layers: bool,
    scheme: str,
    **settings: Any,
) -> int:
    """Quantize MODEL, a float model file, and check what that costs.

    Layers that int8 breaks are found from the images in --calib. They are mended exactly, or stay float, until 98 %
    of the images keep their class and the relative L2 of the outputs is at most 0.06, or as near as that gets; a file
    far from it is not written (exit 1).

    With --data and --max-drop the exit code is the verdict on those labelled images: 0 pass; 1 fail, no file is
    written; 3 undecided, there are too few images to tell, the file is written.
    """
    from vit_edge.export.quantization import Budget
    from vit_edge.export.quantization import quantize as run
    from vit_edge.runtime.images import find_images

    if (data is None) != (max_drop is None):
        raise click.UsageError("--data and --max-drop go together")
    chosen = _scheme(scheme, **settings)
    images = find_images(Path(calib)) if calib else []
    budget = Budget(data=Path(data), max_drop=max_drop) if data is not None and max_drop is not None else None
    with steps(STEPS + (budget is not None)) as progress:
        report = run(model, output, chosen, images=images, budget=budget, progress=progress)
    show_quantized(report, all_layers=all_layers)
    verdict = report.evaluation and report.evaluation.comparison and report.evaluation.comparison.verdict
    return EXIT_CODES[verdict.outcome] if verdict else 0


def _scheme(name: str, *, keep_float: tuple[str, ...], block: str | None, compute: bool) -> "Scheme":
    from vit_edge.export.quantization import SCHEMES, Fp16, Int4

    for given, option, owner in ((block, "--block", "int4"), (compute, "--compute", "fp16")):
        if given and name != owner:
            raise click.UsageError(f"{option} goes with --scheme {owner}")
    if name == "fp16":
        if keep_float:
            raise click.UsageError("--keep-float does not go with --scheme fp16")
        return Fp16(compute=compute)
    if name == "int4":
        return Int4(block=int(block or 32), keep_float=keep_float)
    kind = next(kind for kind in SCHEMES if kind.name == name)
    return kind(keep_float=keep_float)  # type: ignore[call-arg]


def show_quantized(report: "QuantizeReport", *, all_layers: bool = False) -> None:
    """Print the layers, how near the file is, and where it is."""
    from vit_edge.accuracy.summary import summary

    if report.found:
        notice(report.found)
    _show_layers(report, all_layers)
    manifest = report.manifest
    click.echo(f"calibrated   with {report.images}: {report.trial}")
    if not report.reached:
        notice("that is short of the target; it is the nearest that few float layers give")
    click.echo(f"tolerance    {manifest.golden.tolerance:.2g} of the largest output: its own rounding noise")
    nbytes = report.path.stat().st_size + (manifest.external_data.bytes if manifest.external_data else 0)
    share = nbytes / report.bytes_before
    click.echo(f"wrote        {report.path}: {human_bytes(nbytes)}, {share:.0%} of {human_bytes(report.bytes_before)}")
    if report.evaluation:
        click.echo("")
        for line in summary(report.evaluation):
            click.echo(line)


def _show_layers(report: "QuantizeReport", all_layers: bool) -> None:
    if not report.layers:
        return
    scheme = report.manifest.model.precision
    plain = [cost for cost in report.layers if not _noteworthy(cost, scheme)]
    worst = sorted(plain, key=lambda cost: -cost.report.damage)[:_SHOWN]
    shown = [cost for cost in report.layers if all_layers or cost in worst or _noteworthy(cost, scheme)]
    click.echo(f"{'layer':<25} {'damage':>7} {'kB':>13} {'ms here':>12}  decision")
    for cost in shown:
        each = cost.report
        sizes = f"{cost.bytes_before / 1000:,.0f} > {cost.bytes_after / 1000:,.0f}"
        fits = len(each.decision) <= _WIDTH - 62
        decision, rest = (each.decision, "") if fits else each.decision.split(", ", 1)
        times = f"{cost.ms_before:.2f} > {cost.ms_after:.2f}"
        click.echo(f"{each.name[-25:]:<25} {each.damage:>7.3f} {sizes:>13} {times:>12}  {decision}")
        for line in textwrap.wrap("; ".join(filter(None, (rest, each.found))), _WIDTH - 5):
            click.echo(f"{'':<5}{line}")
    if len(shown) < len(report.layers):
        click.echo(f"and {len(report.layers) - len(shown)} more, {scheme} (--all-layers shows them)")
    click.echo("damage: relative L2 of the outputs if that layer alone is quantized, as it is")


def _noteworthy(cost: "LayerCost", scheme: str) -> bool:
    return bool(cost.report.found) or not cost.report.decision.startswith(scheme) or "apart" in cost.report.decision
