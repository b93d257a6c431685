"""The process of one candidate: `python -m vit_edge.bench.worker`.

It reads lines of JSON and answers each with one. The first says what to load: {"path", "threads", "providers",
"entries"}; the answer is {"load", "first": seconds, "rss": bytes, "precision"}. Each further line asks for a burst,
{"batch", "runs"}; the answer is {"seconds": [...], "rss": bytes}. {"nodes"} asks which provider ran how many nodes:
{"nodes": {provider: count}}. What goes wrong is {"error": words}. A process of
another engine that speaks the same can be compared as well: `Candidate.command`.
"""

import json
import resource
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import cast

import numpy as np
import numpy.typing as npt

from vit_edge.runtime import onnxfile
from vit_edge.runtime.errors import ModelFileError, VitEdgeError
from vit_edge.runtime.golden import check_golden
from vit_edge.runtime.manifest import METADATA_KEY, Manifest, read_manifest
from vit_edge.runtime.onnxfile import OnnxFile
from vit_edge.runtime.placement import nodes_by_provider
from vit_edge.runtime.predictor import check_content
from vit_edge.runtime.session import ORT_ERRORS, one_line, open_session

__all__ = ["Loaded", "main", "serve"]

Array = npt.NDArray[np.float32]
Run = Callable[[Array], Array]
_ERRORS: tuple[type[Exception], ...] = (VitEdgeError, MemoryError, *ORT_ERRORS)


@dataclass(frozen=True, slots=True)
class Loaded:
    """A model that can be run.

    Attributes:
        run: takes (N, *shape) float32.
        shape: of one image.
        facts: for the first answer.
        check: raises VitEdgeError where it computes something else than it should.
        nodes: provider -> how many nodes it ran.
    """

    run: Run
    shape: tuple[int, ...]
    facts: dict[str, object]
    check: Callable[[], None] = lambda: None
    nodes: Callable[[], dict[str, int]] = dict


def serve(load: Callable[[dict[str, object]], Loaded]) -> None:
    """Answer requests until there are no more."""
    try:
        start = time.perf_counter()
        model = load(json.loads(sys.stdin.readline()))
        loaded = time.perf_counter()
        model.run(_images(1, model.shape))
        first = time.perf_counter()
        model.check()
        _answer({"load": loaded - start, "first": first - loaded, "rss": peak_memory(), **model.facts})
    except _ERRORS as error:
        _answer({"error": _in_words(error)})
        return
    for line in sys.stdin:
        request = json.loads(line)
        try:
            if "nodes" in request:
                _answer({"nodes": model.nodes()})
                continue
            seconds = _burst(model.run, _images(request["batch"], model.shape), request["runs"])
            _answer({"seconds": seconds, "rss": peak_memory()})
        except _ERRORS as error:  # a batch that it cannot run
            _answer({"error": _in_words(error)})


def _in_words(error: Exception) -> str:
    if isinstance(error, ORT_ERRORS):
        return f"onnxruntime cannot run it: {one_line(error)}"
    return str(error) or "out of memory"


def _burst(run: Run, images: Array, runs: int) -> list[float]:
    ticks = [time.perf_counter()]
    for _ in range(runs):
        run(images)
        ticks.append(time.perf_counter())
    seconds: list[float] = np.diff(ticks).tolist()
    return seconds


def _images(count: int, shape: tuple[int, ...]) -> Array:
    return np.random.default_rng(0).standard_normal((count, *shape), dtype=np.float32)


def _answer(what: dict[str, object]) -> None:
    print(json.dumps(what), flush=True)


def peak_memory() -> int:
    """Bytes this process has held at most."""
    try:  # what getrusage says is inherited from the parent
        for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass  # no Linux
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def _load(request: dict[str, object]) -> Loaded:
    """A file in onnxruntime, as the runtime opens it; a model file is checked like there."""
    file = onnxfile.read(str(request["path"]))
    manifest = read_manifest(file) if METADATA_KEY in file.metadata else None
    entries = {**(manifest.session if manifest else {}), **cast(dict[str, str], request["entries"])}
    providers, threads = cast(list[str], request["providers"]), cast(int | None, request["threads"])
    session = open_session(file.path, providers=providers or None, threads=threads, entries=entries)
    name, outputs = file.inputs[0].name, [manifest.output.name] if manifest else None

    fixed = file.inputs[0].shape[0] if file.inputs and file.inputs[0].shape else None

    def run(x: Array) -> Array:
        if isinstance(fixed, int) and fixed != len(x):
            raise ModelFileError(f"its batch size is fixed to {fixed}")
        if manifest is not None and manifest.batch_dependent and len(x) > 1:  # as Predictor does
            return np.concatenate([run(one[None]) for one in x])
        result: Array = session.run(outputs, {name: x})[0]
        return result

    precision = manifest.model.precision if manifest else "no model file"
    facts = {"precision": precision, "providers": session.get_providers(), "entries": entries}
    check = partial(_check, file, manifest, run) if manifest else lambda: None
    shape = _image_shape(file)

    def nodes() -> dict[str, int]:
        x = _images(1, shape)
        return nodes_by_provider(file.path, name, x, providers=providers or None, threads=threads, entries=entries)

    return Loaded(run, shape, facts, check, nodes)


def _check(file: OnnxFile, manifest: Manifest, run: Run) -> None:
    check_content(file, manifest)
    report = check_golden(manifest, lambda x: run(x).reshape(len(x), -1))
    if not report.passed:
        raise ModelFileError(f"{report.message}: it computes something else here")


def _image_shape(file: OnnxFile) -> tuple[int, ...]:
    """(C, H, W), or as the file has it."""
    if len(file.inputs) != 1:
        raise ModelFileError(f"has {len(file.inputs)} inputs, expected one")
    taken = file.inputs[0]
    shape = tuple(each for each in taken.shape[1:] if isinstance(each, int))
    if taken.dtype != "float32" or len(shape) != len(taken.shape) - 1 or not shape:
        raise ModelFileError(f"takes {taken.dtype} {taken.shape}, expected float32 images of a fixed size")
    return shape


def main() -> None:
    """Serve a file in onnxruntime."""
    serve(_load)


if __name__ == "__main__":
    main()
