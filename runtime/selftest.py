"""The checks a model file brings along, as a list of findings instead of the first error."""

from collections.abc import Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path

from vit_edge.runtime import onnxfile
from vit_edge.runtime.errors import ModelFileError
from vit_edge.runtime.predictor import Predictor, check_content

__all__ = ["Finding", "self_test"]


@dataclass(frozen=True, slots=True)
class Finding:
    """One check: what was looked at, whether it holds, and the numbers."""

    check: str
    passed: bool
    detail: str


def self_test(
    path: str | PathLike[str], *, providers: Sequence[str] | None = None, threads: int | None = None
) -> list[Finding]:
    """Check a model file against its own manifest: content hash and golden outputs, on this machine.

    Args:
        path: a model file.
        providers: execution providers of onnxruntime in order of preference; the CPU's by default.
        threads: threads within one operator; by default all that this process may use.

    Returns:
        "content" and "golden".

    Raises:
        ModelFileError: the file is no vit-edge model file, or cannot be run at all.
        ProviderError: a provider is not available.
    """
    predictor = Predictor(path, providers=providers, threads=threads, check=False)
    manifest = predictor.manifest
    try:
        check_content(onnxfile.read(Path(path)), manifest)
        content = Finding("content", True, f"sha256 {manifest.content_sha256[:12]}")
    except ModelFileError as error:
        content = Finding("content", False, str(error))
    report = predictor.golden_report()
    return [content, Finding("golden", report.passed, report.message)]
