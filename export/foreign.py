"""A foreign .onnx file: what it takes, what it gives, and what its metadata tell. Nothing in it is trusted."""

import ast
import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import onnx_ir as ir

from vit_edge.export.errors import ExportError
from vit_edge.export.passes.float_input import Layout
from vit_edge.places import NOT_UTF8, is_utf8
from vit_edge.runtime.errors import ConfigError, ModelFileError
from vit_edge.runtime.manifest import METADATA_KEY
from vit_edge.runtime.onnxfile import OnnxFile, ValueInfo, file_sha256, read
from vit_edge.runtime.session import open_session

__all__ = ["Choices", "Foreign", "ForeignInput", "read_foreign"]

_MAX_BYTES = (1 << 31) - 1  # of the .onnx itself: protobuf cannot read more; weights beside it may be larger
_MAX_NAMES_CHARACTERS = 4 << 20
_KNOWN_DOMAINS = ("", "ai.onnx", "ai.onnx.ml", "com.microsoft")


@dataclass(frozen=True, slots=True, kw_only=True)
class Choices:
    """What the user says about a foreign file where it does not tell itself."""

    layout: Layout | None = None
    image_size: tuple[int, int] | None = None
    output_name: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeignInput:
    """The image input as the file has it; `batch` is None where it is not fixed."""

    name: str
    dtype: Literal["float32", "uint8"]
    layout: Layout
    channels: int
    size: tuple[int, int]
    batch: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Foreign:
    """A foreign file that onnxruntime loads, with the input and the output that are used."""

    path: Path
    sha256: str
    file: OnnxFile
    graph: ir.Model
    input: ForeignInput
    output: str
    labels: tuple[str, ...]  # of its own metadata

    def nodes(self) -> Iterator[ir.Node]:
        """All nodes, those of subgraphs and functions too."""
        yield from self.graph.graph.all_nodes()
        for function in self.graph.functions.values():
            yield from function.all_nodes()


def read_foreign(path: Path, choices: Choices) -> Foreign:
    """Read a foreign file.

    Raises:
        ModelFileError: it is damaged, not ONNX, or not for onnxruntime.
        ExportError: it has not one image input and one usable output, or is a vit-edge model file.
        ConfigError: a choice is missing or does not fit.
    """
    if not is_utf8(path):
        raise ModelFileError(f"{path}: {NOT_UTF8}")
    file = read(path, foreign=True)
    if METADATA_KEY in file.metadata:
        raise ExportError(f"{path} is a vit-edge model file already: use it as it is")
    if file.nbytes > _MAX_BYTES:
        raise ModelFileError(f"{path} has {file.nbytes:,} bytes, an .onnx has at most {_MAX_BYTES:,}")
    if len(file.inputs) != 1:
        raise ExportError(f"{path} has the inputs {_names(file.inputs)}, expected one: the image")
    taken = _input(file.inputs[0], choices)
    output = _output(file.outputs, choices.output_name)
    try:
        graph = ir.load(path)
    except Exception as error:  # protobuf, onnx and onnx_ir have no common base for what a damaged file brings about
        raise ModelFileError(f"{path} cannot be read: {str(error).splitlines()[0][:200]}") from error
    foreign = Foreign(
        path=path,
        sha256=_digest(path, file.external),
        file=file,
        graph=graph,
        input=taken,
        output=output,
        labels=_labels(file.metadata.get("names", "")),
    )
    _check_loads(foreign)
    return foreign


def _digest(path: Path, beside: Sequence[str]) -> str:
    """Of the file; where weights lie beside it, of the joined digests, as they are half of the model."""
    digests = [file_sha256(path.with_name(name)) for name in (path.name, *beside)]
    return digests[0] if len(digests) == 1 else hashlib.sha256("".join(digests).encode()).hexdigest()


def _check_loads(foreign: Foreign) -> None:
    """onnxruntime can load it; where it cannot for an operator's sake, the operator is named."""
    try:
        open_session(foreign.path, optimization="none")
    except ModelFileError as error:
        own = {(function.domain, function.name) for function in foreign.graph.functions.values()}
        for node in foreign.nodes():
            if node.domain not in _KNOWN_DOMAINS and (node.domain, node.op_type) not in own:
                raise ModelFileError(
                    f"{foreign.path} uses the operator {node.domain}::{node.op_type} (node {node.name!r}), "
                    "which onnxruntime does not have"
                ) from error
        raise ModelFileError(f"{foreign.path}: {error}") from error


def _names(values: Sequence[ValueInfo]) -> str:
    return ", ".join(f"{value.name} {value.dtype} ({', '.join(map(str, value.shape))})" for value in values) or "none"


def _input(value: ValueInfo, choices: Choices) -> ForeignInput:
    told, shape = _names([value]), value.shape or ("?",) * 4
    if value.dtype not in ("float32", "uint8"):
        raise ExportError(f"takes {told}, expected float32 or uint8 images")
    if len(shape) != 4:
        raise ExportError(f"takes {told}, expected images: (N, C, H, W) or (N, H, W, C)")
    layout = choices.layout or _layout(shape, told)
    channels, sides = (shape[1], shape[2:]) if layout == "nchw" else (shape[3], shape[1:3])
    if isinstance(channels, int) and channels not in (1, 3):
        raise ExportError(f"takes {told}: {channels} channels as {layout.upper()}, expected 1 or 3")
    return ForeignInput(
        name=value.name,
        dtype="uint8" if value.dtype == "uint8" else "float32",
        layout=layout,
        channels=channels if isinstance(channels, int) else 3,
        size=_size(sides, choices.image_size, told),
        batch=shape[0] if isinstance(shape[0], int) else None,
    )


def _layout(shape: tuple[int | str, ...], told: str) -> Layout:
    first, last = shape[1] in (1, 3), shape[3] in (1, 3)
    if first != last:
        return "nchw" if first else "nhwc"
    if isinstance(shape[1], int) and isinstance(shape[3], int) and not first:
        raise ExportError(f"takes {told}: no axis of 1 or 3 channels")
    raise ConfigError(f"takes {told}: whether channels come first or last is not clear: give --layout nchw or nhwc")


def _size(sides: tuple[int | str, ...], chosen: tuple[int, int] | None, told: str) -> tuple[int, int]:
    if chosen is None:
        height, width = sides
        if not isinstance(height, int) or not isinstance(width, int):
            raise ConfigError(f"takes {told}: height and width are dynamic: give --image-size N or HxW")
        return height, width
    if any(isinstance(side, int) and side != wanted for side, wanted in zip(sides, chosen, strict=True)):
        raise ConfigError(f"takes {told}, got --image-size {chosen[0]}x{chosen[1]}: the file takes no other size")
    return chosen


def _output(values: Sequence[ValueInfo], name: str | None) -> str:
    usable = [value for value in values if value.dtype == "float32"]
    if name is not None:
        usable = [value for value in usable if value.name == name]
        if not usable:
            raise ConfigError(f"no float32 output {name!r}, the file gives {_names(values)}")
    if len(usable) != 1:
        advice = "choose one with --output-name" if usable else "expected one of float32"
        raise ConfigError(f"gives {_names(values)}: {advice}")
    return usable[0].name


def _labels(text: str) -> tuple[str, ...]:
    """Ultralytics keeps class names as the text of a Python dict: "{0: 'cat', 1: 'dog'}"."""
    if not text or len(text) > _MAX_NAMES_CHARACTERS:
        return ()
    try:
        names = ast.literal_eval(text)
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return ()
    if isinstance(names, list):
        names = dict(enumerate(names))
    if not isinstance(names, dict) or list(names) != list(range(len(names))):
        return ()
    return tuple(names.values()) if all(isinstance(name, str) for name in names.values()) else ()
