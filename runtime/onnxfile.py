"""Look inside an .onnx file without the onnx package: what a device can check before it runs a file.

Nothing here trusts the file (see `protobuf`), and weights are hashed where they lie instead of being loaded.
Field numbers are those of https://github.com/onnx/onnx/blob/main/onnx/onnx.proto3.
"""

import hashlib
import math
import mmap
import re
from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from os import PathLike
from pathlib import Path

from vit_edge.runtime.arguments import file_path, special_file
from vit_edge.runtime.errors import ModelFileError
from vit_edge.runtime.protobuf import Message, Source, WireError, records
from vit_edge.runtime.signatures import image_kind, is_checkpoint

__all__ = ["OnnxFile", "ValueInfo", "Weight", "content_sha256", "file_sha256", "read"]

# Message kind -> {field number: kind of the message in it}. "main" is the model's own graph, whose nodes
# ("op") and weights are listed; every other graph is only searched for tensors that lie outside the file.
_ATTRIBUTE = {5: "tensor", 6: "graph", 10: "tensor", 11: "graph", 22: "sparse", 23: "sparse"}
_CHILDREN: Mapping[str, Mapping[int, str]] = {
    "model": {7: "main", 8: "opset", 14: "metadata", 20: "training", 25: "function"},
    "main": {1: "op", 5: "weight", 11: "input", 12: "output", 15: "sparse"},
    "graph": {1: "node", 5: "tensor", 15: "sparse"},
    "training": {1: "graph", 2: "graph"},
    "function": {7: "node"},
    "op": {5: "attribute"},
    "node": {5: "attribute"},
    "attribute": _ATTRIBUTE,
    "sparse": {1: "tensor", 2: "tensor"},
}
# TensorProto.DataType: name and bits an element (0: not a fixed number)
_DTYPES: Mapping[int, tuple[str, int]] = {
    1: ("float32", 32), 2: ("uint8", 8), 3: ("int8", 8), 4: ("uint16", 16),
    5: ("int16", 16), 6: ("int32", 32), 7: ("int64", 64), 8: ("string", 0),
    9: ("bool", 8), 10: ("float16", 16), 11: ("float64", 64), 12: ("uint32", 32),
    13: ("uint64", 64), 14: ("complex64", 64), 15: ("complex128", 128), 16: ("bfloat16", 16),
    17: ("float8e4m3fn", 8), 18: ("float8e4m3fnuz", 8), 19: ("float8e5m2", 8), 20: ("float8e5m2fnuz", 8),
    21: ("uint4", 4), 22: ("int4", 4), 23: ("float4e2m1", 4), 24: ("float8e8m0", 8),
    25: ("uint2", 2), 26: ("int2", 2),
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class ValueInfo:
    """A graph input or output; a dimension is a number, a symbolic name, or "?" where nothing is known."""

    name: str
    dtype: str
    shape: tuple[int | str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Weight:
    """An initializer of the main graph; `nbytes` follows from its shape and dtype (0 for strings)."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    nbytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class OnnxFile:
    """What an .onnx file says about itself."""

    path: Path
    nbytes: int  # of the .onnx alone, without external data
    ir_version: int
    opsets: Mapping[str, int]  # domain ("" is ONNX itself) -> version
    metadata: Mapping[str, str]
    op_counts: Mapping[str, int]  # "MatMul" or "com.microsoft::MatMulNBits" -> how many, main graph only
    inputs: tuple[ValueInfo, ...]  # without the initializers that old files list here, too
    outputs: tuple[ValueInfo, ...]
    weights: tuple[Weight, ...]
    external: tuple[str, ...]  # names of the files beside it that hold weights: none or "<file name>.data"
    content_sha256: str  # of graph and weights, without the metadata


def _collect(data: memoryview) -> Mapping[str, list[Message]]:
    """All messages `_CHILDREN` leads to, by kind, in file order."""
    source = Source(data)
    found: dict[str, list[Message]] = defaultdict(list)
    queue = [("model", slice(0, len(data)))]
    for kind, span in queue:  # which grows while it is read
        message = Message(source, span)
        found[kind].append(message)
        for field, child in _CHILDREN.get(kind, {}).items():
            queue += [(child, child_span) for child_span in message.spans(field)]
    return found


def _op(node: Message) -> str:
    domain, op = node.text(7), node.text(4)
    return op if domain in ("", "ai.onnx") else f"{domain}::{op}"


def _dtype(code: int) -> tuple[str, int]:
    return _DTYPES.get(code, (f"type{code}", 0))


def _weight(tensor: Message) -> Weight:
    name, shape = tensor.text(8), tensor.numbers(1)
    dtype, bits = _dtype(tensor.number(2))
    if any(size < 0 for size in shape):
        raise WireError(f"is damaged: weight {name!r} has the shape {shape}")
    nbytes = (math.prod(shape) * bits + 7) // 8
    for raw in tensor.spans(9):
        if bits and raw.stop - raw.start != nbytes:
            raise WireError(f"is damaged: weight {name!r} has {raw.stop - raw.start} of {nbytes} bytes")
    return Weight(name=name, dtype=dtype, shape=shape, nbytes=nbytes)


def _value_info(value: Message) -> ValueInfo:
    tensor_type = value.message(2).message(1)
    dims = tensor_type.message(2).messages(1)
    shape = tuple(dim.number(1) if 1 in dim else dim.text(2) or "?" for dim in dims)
    return ValueInfo(name=value.text(1), dtype=_dtype(tensor_type.number(1))[0], shape=shape)


def _pairs(messages: list[Message]) -> dict[str, str]:
    pairs: dict[str, str] = {}
    for message in messages:
        key = message.text(1)
        if key in pairs:
            raise WireError(f"is damaged: the key {key[:200]!r} appears twice")
        pairs[key] = message.text(2)
    return pairs


def _external(tensors: list[Message], path: Path, *, foreign: bool) -> tuple[str, ...]:
    """The files that hold tensors' data. A path out of a file is never followed: one name, or plain names."""
    own = path.name + ".data"
    locations = set()
    for tensor in tensors:
        pairs = _pairs(tensor.messages(13))
        if tensor.number(14) == 1 or pairs:
            locations.add(pairs.get("location", ""))
    for location in sorted(locations):
        plain = re.fullmatch(r"[^/\\:\0]+", location) is not None and location not in (".", "..")
        if location != own and not (foreign and plain):
            accepted = "a file" if foreign else repr(own)
            raise WireError(f"keeps weights in {location[:200]!r}: only {accepted} beside it is accepted")
        if not path.with_name(location).is_file():
            raise WireError(f"keeps its weights in {location!r}, which is missing beside it")
    return tuple(sorted(locations))


def file_sha256(path: Path) -> str:
    """The sha256 of a whole file, read in pieces: 64 hexadecimal digits."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def content_sha256(model: bytes | memoryview) -> str:
    """The sha256 of a serialised model without its metadata.

    The records of the outermost message are hashed in file order, except those of field 14
    (metadata_props). So a manifest that holds this hash can be written into the same file.

    Args:
        model: A serialised ONNX ModelProto.

    Returns:
        64 hexadecimal digits.

    Raises:
        ModelFileError: The bytes are not a protobuf message.
    """
    try:
        return _content_sha256(memoryview(model))
    except WireError as error:
        raise ModelFileError(f"the model {error}") from None


def _content_sha256(data: memoryview) -> str:
    digest = hashlib.sha256()
    begin = 0  # of the stretch not hashed yet
    for record in records(data, slice(0, len(data))):
        if record.field == 14:
            digest.update(data[begin : record.start])
            begin = record.end
    digest.update(data[begin:])
    return digest.hexdigest()


def _instead_of_onnx(head: bytes) -> str:
    kind = image_kind(head)
    if kind is not None:
        return f"is a {kind} image, not an ONNX file: the model comes first, then images"
    if is_checkpoint(head):
        return "is not an ONNX file, but looks like a checkpoint: `vit-edge export` makes a model file of one"
    return "is not an ONNX file"


def _parse(data: memoryview, path: Path, *, foreign: bool) -> OnnxFile:
    try:
        found = _collect(data)
        model = found["model"][0]
        if not found["main"] or not found["opset"] or model.number(1) < 1:
            raise WireError("is truncated: it has no IR version, no graph or no opset")
    except WireError:
        if data[0] != 0x08:  # the tag of the IR version, which comes first
            raise WireError(_instead_of_onnx(bytes(data[:16]))) from None
        raise
    weights = tuple(_weight(tensor) for tensor in found["weight"])
    initialized = {weight.name for weight in weights}
    inputs = tuple(_value_info(value) for value in found["input"])
    return OnnxFile(
        path=path,
        nbytes=len(data),
        ir_version=model.number(1),
        opsets={opset.text(1): opset.number(2) for opset in found["opset"]},
        metadata=_pairs(found["metadata"]),
        op_counts=dict(Counter(_op(node) for node in found["op"]).most_common()),
        inputs=tuple(value for value in inputs if value.name not in initialized),
        outputs=tuple(_value_info(value) for value in found["output"]),
        weights=weights,
        external=_external(found["weight"] + found["tensor"], path, foreign=foreign),
        content_sha256=_content_sha256(data),
    )


def read(path: str | PathLike[str], *, foreign: bool = False) -> OnnxFile:
    """Read what an .onnx file says about itself. Weights are hashed, not loaded.

    Args:
        path: The .onnx file.
        foreign: Another tool wrote it: data may lie in any files beside it.

    Raises:
        ModelFileError: The file is missing, empty, truncated, damaged or not ONNX, or it points
            to data anywhere but in `<file name>.data` beside it.
        ConfigError: `path` is no path, or a URL.

    Example:
        >>> read("model.onnx").inputs  # doctest: +SKIP
        (ValueInfo(name='x', dtype='float32', shape=('batch', 3, 224, 224)),)
    """
    path = file_path(path)
    try:
        problem = special_file(path)
        if problem is not None:
            raise WireError(problem)
        if path.stat().st_size == 0:
            raise WireError("is empty")
        with (
            path.open("rb") as file,
            mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped,
            memoryview(mapped) as data,
        ):
            return _parse(data, path, foreign=foreign)
    except OSError as error:
        raise ModelFileError(f"{path} cannot be read: {error.strerror or error}") from None
    except WireError as error:
        raise ModelFileError(f"{path} {error}") from None
