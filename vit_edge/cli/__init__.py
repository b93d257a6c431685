"""The command line. One module a command; heavy packages are imported inside the command that needs them.

Exit codes: 0 done, 1 a check failed or an error the user can act on, 2 usage, 3 undecided (`eval`, `quantize`),
130 interrupted.
"""

import os
import signal
import sys
from collections.abc import Sequence
from types import FrameType

import click

from vit_edge import __version__
from vit_edge.cli.adopt import adopt
from vit_edge.cli.console import printable
from vit_edge.cli.demo import demo
from vit_edge.cli.evaluate import evaluate
from vit_edge.cli.export import export
from vit_edge.cli.inspect import inspect
from vit_edge.cli.predict import predict
from vit_edge.cli.quantize import quantize
from vit_edge.cli.verify import verify
from vit_edge.runtime.errors import VitEdgeError

__all__ = ["cli", "main"]

_EXPORT_PACKAGES = ("torch", "onnx", "onnx_ir", "onnxscript", "onnxsim", "safetensors")


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="vit-edge")
def cli() -> None:
    """From a trained Vision Transformer to one verified ONNX file on a device."""


for _command in (export, adopt, verify, quantize, evaluate, predict, inspect, demo):
    cli.add_command(_command)


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command.

    Args:
        argv: arguments without the program's name; the process's own by default.

    Returns:
        The exit code.
    """
    _leave_cleanly()
    try:
        code = cli.main(args=None if argv is None else list(argv), prog_name="vit-edge", standalone_mode=False)
        sys.stdout.flush()
        return int(code or 0)
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except (click.Abort, KeyboardInterrupt):
        click.echo("vit-edge: interrupted", err=True)
        return 130
    except VitEdgeError as error:
        lines = [printable(line) for line in str(error).split("\n")]  # a list of defects has many
        click.echo("\n".join([f"vit-edge: error: {lines[0]}", *lines[1:]]), err=True)
        return 1
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] not in _EXPORT_PACKAGES:
            raise
        click.echo(f"vit-edge: error: this needs the package {error.name}: pip install 'vit-edge[export]'", err=True)
        return 1
    except BrokenPipeError:  # the reader of a pipe has gone; nothing more can be said to it
        _forget_output()
        return 1
    except OSError as error:  # a full disk behind standard output, say
        click.echo(f"vit-edge: error: {printable(str(error))}", err=True)
        _forget_output()
        return 1


def _forget_output() -> None:
    """What is still buffered cannot be written: not at exit, either."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _leave_cleanly() -> None:
    """Remove temporary files also when ended, or when the terminal is closed; nohup keeps its meaning."""
    signal.signal(signal.SIGTERM, _terminate)
    hangup = getattr(signal, "SIGHUP", None)  # Windows has none
    if hangup is not None and signal.getsignal(hangup) is not signal.SIG_IGN:
        signal.signal(hangup, _terminate)


def _terminate(signum: int, frame: FrameType | None) -> None:
    """Leave by an exception, so that temporary files are removed."""
    raise SystemExit(128 + signum)
