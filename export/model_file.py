"""Graph and manifest to one file: no half-written file, no weights in the wrong place, the same bytes every time."""

import dataclasses
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import onnx
import onnx_ir as ir
from onnxruntime import InferenceSession

from vit_edge.export.errors import ExportError
from vit_edge.places import is_same_file, place_problem
from vit_edge.runtime.manifest import METADATA_KEY, ExternalData, Manifest
from vit_edge.runtime.onnxfile import file_sha256, read
from vit_edge.runtime.session import Optimization, open_session

__all__ = ["check_place", "open_graph", "refuse_own_source", "save", "staging_folder", "write_manifest"]

_ONE_FILE_LIMIT = (1 << 31) - (64 << 20)  # protobuf's 2 GiB, with room for the graph and the manifest
# The intermediate representation that came with each opset, so that old runtimes load the file
# (https://github.com/onnx/onnx/blob/main/docs/Versioning.md, "Released versions"). 11 and 12 came with opsets 23 and
# 24, but add nothing that a graph of ours has.
_IR_VERSIONS = {17: 8, 18: 8, 19: 9, 20: 9}
_NEWEST_IR = 10


def save(model: ir.Model, path: Path, ir_version: int | None = None) -> Path:
    """Write a graph: one file, or above 2 GiB with `<name>.data` beside it.

    Args:
        model: not changed, but for its IR version; weights that lie beside another file are read.
        path: in a folder of its own, which may be a temporary one; the name is kept inside when weights go outside.
        ir_version: by default the oldest that allows the graph's opset.

    Returns:
        `path`.
    """
    model.ir_version = ir_version or _IR_VERSIONS.get(model.opset_imports.get("", 0), _NEWEST_IR)
    nbytes = sum(value.const_value.nbytes for value in model.graph.initializers.values() if value.const_value)
    if nbytes > _ONE_FILE_LIMIT:
        ir.save(model, path, external_data=f"{path.name}.data")
    else:
        ir.external_data.load_to_model(model)  # what was read from beside another file
        path.write_bytes(ir.to_proto(model).SerializeToString(deterministic=True))
    return path


def open_graph(model: ir.Model, optimization: Optimization = "all") -> InferenceSession:
    """An onnxruntime session of a graph in memory, whatever its size."""
    with TemporaryDirectory() as folder:
        return open_session(save(model, Path(folder) / "graph.onnx"), optimization=optimization)


def write_manifest(path: Path, manifest: Manifest) -> Manifest:
    """Put the manifest into a saved graph, with the hashes of what is really in the file.

    Args:
        path: from `save`; rewritten.
        manifest: its hashes and `external_data` are filled in.

    Returns:
        The manifest as written.
    """
    data = path.with_name(f"{path.name}.data")
    external = None
    if data.is_file():
        external = ExternalData(file=data.name, bytes=data.stat().st_size, sha256=file_sha256(data))
    written = dataclasses.replace(manifest, content_sha256=read(path).content_sha256, external_data=external).sealed()
    proto = onnx.load(path, load_external_data=False)
    del proto.metadata_props[:]
    proto.metadata_props.add(key=METADATA_KEY, value=written.to_json())
    path.write_bytes(proto.SerializeToString(deterministic=True))
    if read(path).content_sha256 != written.content_sha256:
        raise ExportError("the file's content changed while its manifest was written")
    return written


def refuse_own_source(source: str | Path, output: Path) -> None:
    """Raise ExportError where the output would replace what it is made from."""
    if is_same_file(source, output):
        raise ExportError(f"{output}: is the source itself; give another name")


@contextmanager
def staging_folder(output: Path) -> Iterator[Path]:
    """A hidden folder beside the output; what is in it under the output's name is moved there at the end.

    Raises:
        ExportError: the output cannot be written there. It is raised before any work is done where that can be seen.
    """
    try:
        check_place(output)
        with TemporaryDirectory(prefix=f".{output.name}.", dir=output.parent) as folder:
            yield Path(folder)
            made = Path(folder) / output.name
            data = made.with_name(f"{made.name}.data")
            if data.is_file():  # first, so that a new graph never meets old weights
                data.replace(output.with_name(data.name))
            made.replace(output)
    except OSError as error:
        raise ExportError(f"{output}: cannot be written: {error.strerror or error}") from error


def check_place(output: Path) -> None:
    """Raise ExportError where no `.onnx` file can be written: found out before any work is done."""
    problem = place_problem(output)
    if problem is not None:
        raise ExportError(problem)
