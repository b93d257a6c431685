"""Option types and option groups that several commands take."""

import re
import textwrap
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import click

__all__ = ["checkpoint_options", "image_size", "list_architectures", "runtime_options"]

_WIDTH = 80
F = TypeVar("F", bound=Callable[..., object])


def image_size(context: click.Context, parameter: click.Parameter, value: str | None) -> tuple[int, int] | None:
    """Read an option's N or HxW: "224" -> (224, 224), "192x256" -> (192, 256)."""
    if value is None:
        return None
    match = re.fullmatch(r"([1-9]\d{0,4})(?:x([1-9]\d{0,4}))?", value)
    if match is None:
        raise click.BadParameter(f"{value!r} is neither N nor HxW, in pixels from 1")
    height = int(match[1])
    return height, int(match[2]) if match[2] else height


def list_architectures(context: click.Context, parameter: click.Parameter, value: bool) -> None:
    """Print every named architecture with the preprocessing of its preset, and stop."""
    if not value or context.resilient_parsing:
        return
    from vit_edge.presets import families, find_preset, names

    click.echo("Families (other sizes of the same pattern work too):")
    for family in families():
        click.echo(textwrap.fill(family, _WIDTH, initial_indent="  ", subsequent_indent="    "))
    click.echo("\nPublished models, and what their images are preprocessed with:")
    for name in names():
        click.echo(f"  {name:<36} {_in_short(find_preset(name).pretrained_cfg)}")
    context.exit()


def _in_short(cfg: Mapping[str, Any]) -> str:
    """A preset's preprocessing in half a line."""
    if not cfg:
        return "give --preprocess"
    height, width = cfg["input_size"][1:]
    size = str(height) if height == width else f"{height}x{width}"
    mean = " ".join(f"{value:.3g}" for value in cfg["mean"])
    return f"{size} {cfg['interpolation']} {cfg['crop_pct']} mean {mean}"


def checkpoint_options(command: F) -> F:
    """What the user can say about a checkpoint."""
    arch = click.option("--arch", metavar="NAME", help="Architecture, by timm's or torchvision's name.")
    heads = click.option("--heads", type=int, metavar="N", help="Number of attention heads; weights do not show it.")
    return arch(heads(command))


def runtime_options(command: F) -> F:
    """How a model file is run."""
    provider = click.option("--provider", metavar="NAME", multiple=True, help="onnxruntime execution provider.")
    threads = click.option("--threads", type=int, metavar="N", help="Threads; by default all usable cores.")
    return provider(threads(command))
