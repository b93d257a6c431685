"""`vit-edge demo`: the whole way on the model and the images that ship with the package."""

from importlib import resources
from pathlib import Path

import click

from vit_edge.cli.console import steps
from vit_edge.cli.export import STEPS, show_report
from vit_edge.cli.verify import show_findings

__all__ = ["demo"]


@click.command(short_help="The whole way on a small model.")
@click.option("-o", "--output", default="vit-edge-demo", show_default=True, metavar="DIR", help="Where to write.")
def demo(output: str) -> int:
    """Export a small digit classifier, verify the file, and predict ten digits with it."""
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
    click.echo(f"\nThe file: {report.path.resolve()}")
    click.echo(f"Use it:   vit-edge predict {report.path} IMAGE")
    return 0 if right and all(finding.passed for finding in findings) else 1


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
