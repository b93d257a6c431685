"""Which execution provider really runs each node: onnxruntime gives to the CPU, unasked, what others cannot run."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import numpy.typing as npt

from vit_edge.runtime.errors import ModelFileError
from vit_edge.runtime.session import ORT_ERRORS, one_line, open_session

__all__ = ["count_nodes", "nodes_by_provider"]


def count_nodes(profile: str) -> dict[str, int]:
    """Count the nodes that ran, by provider.

    Args:
        profile: onnxruntime's profile, JSON; a node is counted once, however often it ran.

    Raises:
        ModelFileError: it is no such profile.
    """
    try:
        events = json.loads(profile)
        ran = {
            (event["name"], event["args"]["provider"])
            for event in events
            if event.get("cat") == "Node" and event.get("args", {}).get("provider")
        }
    except (ValueError, TypeError, AttributeError, KeyError) as error:
        raise ModelFileError("this onnxruntime writes a profile that cannot be read") from error
    return dict(Counter(provider for _, provider in sorted(ran)))


def nodes_by_provider(
    path: Path,
    name: str,
    x: npt.NDArray[np.float32],
    *,
    providers: Sequence[str] | None = None,
    threads: int | None = None,
    entries: Mapping[str, str] | None = None,
) -> dict[str, int]:
    """Run a file once in a session of its own, with a profile in a temporary folder.

    Args:
        path: an .onnx file.
        name: of its input.
        x: (N, C, H, W) float32, what it is run with.
        providers: as for `open_session`, like the next two.
        threads: within an operator.
        entries: session configuration entries.

    Returns:
        Provider -> nodes of the optimised graph that it ran.

    Raises:
        ModelFileError: it cannot be run.
        ProviderError: a provider is not available.
    """
    with TemporaryDirectory(prefix="vit-edge-") as folder:
        profile = Path(folder) / "profile"
        session = open_session(path, providers=providers, threads=threads, entries=entries, profile=profile)
        try:
            session.run(None, {name: x})
        except ORT_ERRORS as error:
            raise ModelFileError(f"onnxruntime cannot run it: {one_line(error)}") from error
        finally:
            written = session.end_profiling()
        return count_nodes(Path(written).read_text(encoding="utf-8"))
