"""What is wrong with a command line, found out in a moment: before torch is imported or a checkpoint is read."""

from collections.abc import Callable
from pathlib import Path

from vit_edge.labels import read_names
from vit_edge.places import NOT_UTF8, is_same_file, is_utf8, place_problem
from vit_edge.preprocessing import read_option
from vit_edge.presets import find_preset
from vit_edge.runtime.errors import ConfigError, ModelFileError
from vit_edge.runtime.manifest import METADATA_KEY
from vit_edge.runtime.onnxfile import read

__all__ = ["OPSETS", "check_checkpoint", "check_foreign", "check_options", "check_output"]

OPSETS = range(17, 25)  # told here as well as in `vit_edge.export.tracing`, which needs torch; a test compares them


def check_output(source: str, output: str) -> None:
    """Raise ConfigError where the output cannot be written, or would replace its source."""
    problem = place_problem(Path(output))
    if problem is not None:
        raise ConfigError(problem)
    if is_same_file(source, Path(output)):
        raise ConfigError(f"{output}: is the source itself; give another name")


def check_options(
    *, preprocess: str | None, labels: str | None, arch: str | None = None, opset: int = OPSETS.start
) -> None:
    """Raise ConfigError where an option names what is not there; what fits the model is found out later."""
    if opset not in OPSETS:
        raise ConfigError(f"--opset {opset}: expected {OPSETS.start} to {OPSETS.stop - 1}")
    if arch is not None:
        find_preset(arch)
    if preprocess is not None:
        read_option(preprocess)
    if labels is not None:
        read_names(labels)


def check_checkpoint(checkpoint: str) -> None:
    """Raise ConfigError where there is nothing under this name, or a URL was given.

    Names of the Hub are looked up later.
    """
    if checkpoint.startswith(("http://", "https://")):
        raise ConfigError(
            f"{checkpoint}: is a URL, expected a file, a folder or hf:owner/name; download it first"
            + _hub_hint(checkpoint)
        )
    if not checkpoint.startswith("hf:") and not _told(Path(checkpoint).exists, checkpoint):
        raise ConfigError(f"{checkpoint}: no such file or folder")


def check_foreign(foreign: str) -> None:
    """Raise where a file is missing, is not ONNX or is a vit-edge model file already."""
    if not _told(Path(foreign).is_file, foreign) and not Path(foreign).is_dir():
        raise ModelFileError(f"{foreign} does not exist")
    if not is_utf8(foreign):
        raise ModelFileError(f"{foreign}: {NOT_UTF8}")
    if METADATA_KEY in read(foreign, foreign=True).metadata:
        raise ModelFileError(f"{foreign} is a vit-edge model file already: use it as it is")


def _told(question: Callable[[], bool], name: str) -> bool:
    """The answer of the file system, which does not take every text for a name."""
    try:
        return question()
    except (OSError, ValueError) as error:
        raise ConfigError(f"{name[:80]}: is no name of a file ({error})") from error


def _hub_hint(url: str) -> str:
    owner_and_name = url.split("huggingface.co/", 1)[-1].split("/")[:2]
    return f", or give hf:{'/'.join(owner_and_name)}" if "huggingface.co/" in url and len(owner_and_name) == 2 else ""
