"""What commands share at the terminal: progress on stderr, results on stdout, sizes in words."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import click

from vit_edge.runtime.text import printable

__all__ = ["human_bytes", "notice", "say", "steps"]


@contextmanager
def steps(total: int) -> Iterator[Callable[[str], None]]:
    """Show the steps of a long command: a bar on a terminal, plain lines elsewhere.

    Args:
        total: how many steps there will be.

    Yields:
        A function to call with the name of each step as it begins.
    """
    if not sys.stderr.isatty():
        yield lambda step: click.echo(f"  {step} ...", err=True)
        return
    current = ""
    bar: click._termui_impl.ProgressBar[int]
    with click.progressbar(length=total, item_show_func=lambda _: current, file=sys.stderr, width=20) as bar:

        def begin(step: str) -> None:
            nonlocal current
            if current:
                bar.update(1)
            current = step
            bar.render_progress()

        yield begin
        current = ""
        bar.update(1)


def say(text: str, *, err: bool = False) -> None:
    """One line that may hold names out of files: whatever they are, the terminal only shows them."""
    click.echo(printable(text), err=err)


def notice(text: str) -> None:
    """One line on stderr that a user must see."""
    click.echo(click.style("note: ", fg="yellow") + printable(text), err=True)


def human_bytes(count: int) -> str:
    """1234567 -> "1.2 MB" (powers of ten)."""
    size = float(count)
    for unit in ("B", "kB", "MB"):
        if size < 1000:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.2f} GB"
