"""Option types and option groups that several commands take."""

import re
from collections.abc import Callable
from typing import TypeVar

import click

__all__ = ["checkpoint_options", "image_size", "runtime_options"]

F = TypeVar("F", bound=Callable[..., object])


def image_size(context: click.Context, parameter: click.Parameter, value: str | None) -> tuple[int, int] | None:
    """Read an option's N or HxW: "224" -> (224, 224), "192x256" -> (192, 256)."""
    if value is None:
        return None
    match = re.fullmatch(r"(\d{1,5})(?:x(\d{1,5}))?", value)
    if match is None:
        raise click.BadParameter(f"{value!r} is neither N nor HxW")
    height = int(match[1])
    return height, int(match[2]) if match[2] else height


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
