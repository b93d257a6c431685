"""`vit-edge demo`: the whole way on the model and the images that ship with the package."""

import shlex
import sys
from importlib import resources
from pathlib import Path

import click

from vit_edge.cli.console import steps
from vit_edge.cli.export import STEPS, show_report
from vit_edge.cli.quantize import STEPS as QUANTIZE_STEPS
from vit_edge.cli.quantize import show_quantized
from vit_edge.cli.verify import show_findings

__all__ = ["demo"]

_MAX_DROP = 5.0  # points: what 120 images can prove


@click.command(short_help="The whole way on a small model.")
@click.option("-o", "--output", default="vit-edge-demo", show_default=True, metavar="DIR", help="Where to write.")
def demo(output: str) -> int:
    """Export a small digit classifier, verify the file, predict ten digits, quantize it and measure what that costs."""
    from vit_edge.checkpoints import load_checkpoint
    from vit_edge.export import export
    from vit_edge.runtime.errors import ConfigError
    from vit_edge.runtime.selftest import self_test

    folder = Path(output)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"{folder}: cannot be made: {error.strerror}") from error
    data = resources.files("vit_edge.demo")
    with resources.as_file(data / "digits.safetensors") as path, steps(STEPS + 1) as progress:
        progress("loading the checkpoint")
        checkpoint = load_checkpoint(path)
        report = export(checkpoint, folder / "digits.onnx", progress=progress)
    click.echo("1. Exported")
    show_report(report, checkpoint)
    click.echo("\n2. Verified on this machine")
    findings = self_test(report.path)
    show_findings(findings)
    click.echo("\n3. Predicted")
    right = _predict_digits(report.path)
    click.echo("\n4. Quantized")
    passed = _quantize_digits(report.path, folder)
    sample = sorted((folder / "test" / "7").iterdir())[0]
    command = [Path(sys.executable).parent / "vit-edge", "predict", folder / "digits-int8.onnx", sample]
    click.echo(f"\nTry it: {shlex.join(map(str, command))}")
    return 0 if right and passed and all(finding.passed for finding in findings) else 1


def _quantize_digits(model: Path, folder: Path) -> bool:
    """Quantize with moved copies of the digits, and judge on others; is the verdict not `fail`?"""
    from vit_edge.accuracy import evaluate
    from vit_edge.accuracy.summary import summary
    from vit_edge.demo.shifted import write_shifted
    from vit_edge.export import quantize
    from vit_edge.runtime.images import find_images

    write_shifted(folder / "calibration", folder / "test")
    with steps(QUANTIZE_STEPS) as progress:
        output = folder / "digits-int8.onnx"
        report = quantize(model, output, images=find_images(folder / "calibration"), progress=progress)
    show_quantized(report)
    click.echo("\n5. Accuracy, on moved copies of the ten digits")
    found = evaluate(report.path, folder / "test", baseline=model, max_drop=_MAX_DROP)
    for line in summary(found):
        click.echo(line)
    return (
        found.comparison is not None
        and found.comparison.verdict is not None
        and (found.comparison.verdict.outcome != "fail")
    )


def _predict_digits(model: Path) -> bool:
    """Print a table of the ten digits; were all of them right?"""
    from vit_edge.runtime import Predictor

    predictor = Predictor(model)
    right = True
    click.echo("   image   predicted   score")
    for digit in range(10):
        best = predictor((resources.files("vit_edge.demo") / "digits" / f"{digit}.png").read_bytes()).top[0]
        right = right and best.index == digit
        click.echo(f"   {digit}.png   {best.name:<11} {best.score:.3f}")
    return right
