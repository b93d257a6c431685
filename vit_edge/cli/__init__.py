"""The command line. One module a command; heavy packages are imported inside the command that needs them.

Exit codes: 0 done, 1 a check failed or an error the user can act on, 2 usage, 3 undecided (`eval`, `quantize`),
130 interrupted.
"""

import io
import os
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress
from types import FrameType

import click

from vit_edge import __version__
from vit_edge.cli.adopt import adopt
from vit_edge.cli.bench import bench
from vit_edge.cli.demo import demo
from vit_edge.cli.doctor import doctor
from vit_edge.cli.evaluate import evaluate
from vit_edge.cli.export import export
from vit_edge.cli.inspect import inspect
from vit_edge.cli.predict import predict
from vit_edge.cli.quantize import quantize
from vit_edge.cli.tune import tune
from vit_edge.cli.verify import verify
from vit_edge.runtime.errors import ConfigError, VitEdgeError
from vit_edge.runtime.text import printable

__all__ = ["cli", "main"]

_EXPORT_PACKAGES = ("torch", "onnx", "onnx_ir", "onnxscript", "onnxsim", "safetensors")


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="vit-edge")
def cli() -> None:
    """From a trained Vision Transformer to one verified ONNX file on a device."""


for _command in (export, adopt, verify, quantize, evaluate, bench, tune, predict, inspect, doctor, demo):
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
        _check_streams()
        code = cli.main(args=None if argv is None else list(argv), prog_name="vit-edge", standalone_mode=False)
        sys.stdout.flush()
        return int(code or 0)
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except (click.Abort, KeyboardInterrupt):
        return _failed("interrupted", 130)
    except VitEdgeError as error:
        return _failed(f"error: {error}")
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] not in _EXPORT_PACKAGES:
            raise
        return _failed(f"error: this needs the package {error.name}: pip install 'vit-edge[export]'")
    except BrokenPipeError:  # the reader of a pipe has gone; nothing more can be said to it
        _give_up_stdout()
        return 1
    except OSError as error:  # a full disk, mostly
        _give_up_stdout()
        place = "" if error.filename is None else f"{error.filename}: "
        return _failed(printable(f"error: {place}cannot be read or written: {error.strerror or error}"))


def _check_streams() -> None:
    """Refuse a closed standard output: the next file to be opened would be taken for it."""
    if sys.stdout is None:
        raise ConfigError("standard output is closed: send it to /dev/null instead")
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # a terminal without Unicode


def _failed(message: str, code: int = 1) -> int:
    """Tell it in one line on standard error, where there is one; the exit code."""
    with suppress(OSError):
        click.echo(f"vit-edge: {message}", err=True)
    return code


def _give_up_stdout() -> None:
    """Drop what could not be written, so that Python does not try again when it ends."""
    with suppress(OSError, ValueError):  # a stream without a file
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
