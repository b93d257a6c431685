"""One onnxruntime session, with the threads this process may use and exactly the providers asked for."""

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

import onnxruntime
from onnxruntime.capi import onnxruntime_pybind11_state as ort_state

from vit_edge.runtime.errors import ConfigError, ModelFileError, ProviderError
from vit_edge.runtime.integers import integer_entries
from vit_edge.runtime.text import NOT_UTF8, is_utf8
from vit_edge.runtime.threads import usable_threads

__all__ = [
    "ORT_ERRORS",
    "SESSION_ENTRIES",
    "Optimization",
    "check_runtime_version",
    "one_line",
    "open_session",
]

Optimization = Literal["all", "none"]

_MOST_THREADS = 1024  # each takes memory, and more than CPUs gain nothing

# What onnxruntime raises; they have no common base but Exception.
ORT_ERRORS: tuple[type[Exception], ...] = (
    ort_state.EPFail,
    ort_state.EngineError,
    ort_state.Fail,
    ort_state.InvalidArgument,
    ort_state.InvalidGraph,
    ort_state.InvalidProtobuf,
    ort_state.NoModel,
    ort_state.NoSuchFile,
    ort_state.NotImplemented,
    ort_state.RuntimeException,
    UnicodeDecodeError,  # a name in the file, or a message about it
)

# The configuration entries a model file may ask for, all numbers. Others can name paths and libraries.
SESSION_ENTRIES = frozenset(
    {
        "mlas.disable_kleidiai",  # plain int8 kernels on Arm
        "mlas.enable_gemm_fastmath_arm64_bfloat16",
        "session.disable_prepacking",  # less memory, slower
        "session.dynamic_block_base",  # smaller last pieces of work: 1.14x for small models
        "session.force_spinning_stop",
        "session.inter_op.allow_spinning",
        "session.intra_op.allow_spinning",
        "session.qdqisint8allowed",
        "session.set_denormal_as_zero",
        "session.x64quantprecision",  # right int8 on x86 without VNNI
    }
)


def one_line(error: Exception) -> str:
    """An onnxruntime error without its code and its line breaks, at most 300 characters."""
    text = " ".join(str(error).split())
    text = re.sub(r"^\[ONNXRuntimeError\] : \d+ : \w+ : ", "", text)
    return text if len(text) <= 300 else text[:297] + "..."


def _version(text: str) -> tuple[int, ...]:
    """The leading numbers of a version, without zeros at the end: "1.24.0.dev1" -> (1, 24)."""
    match = re.match(r"\d+(\.\d+)*", text)
    numbers = [int(number) for number in match.group().split(".")] if match else []
    while numbers and numbers[-1] == 0:
        numbers.pop()
    return tuple(numbers)


def check_runtime_version(minimum: str) -> None:
    """Raise ModelFileError where the installed onnxruntime is older than `minimum`, like "1.23"."""
    installed = onnxruntime.__version__
    if _version(installed) < _version(minimum):
        raise ModelFileError(
            f"needs onnxruntime >= {minimum}, {installed} is installed: "
            "pip install -U onnxruntime, or export with --opset 17..22"
        )


def _options(threads: int | None, entries: Mapping[str, str], optimization: Optimization) -> onnxruntime.SessionOptions:
    if threads is not None and (type(threads) is not int or not 1 <= threads <= _MOST_THREADS):
        raise ConfigError(
            f"got {str(threads)[:40]} threads, expected 1..{_MOST_THREADS}, or none given for all that are usable"
        )
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = usable_threads() if threads is None else threads
    options.inter_op_num_threads = 1
    if optimization == "none":
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4  # fatal: errors are raised, and told in one line
    for key, value in sorted({**integer_entries(), **entries}.items()):
        if key not in SESSION_ENTRIES:
            raise ModelFileError(f"asks for the session entry {key[:80]!r}, which a model file may not set")
        if re.fullmatch("[0-9]{1,3}", value) is None:
            raise ModelFileError(f"sets the session entry {key!r} to {value[:80]!r}, expected 0..999")
        options.add_session_config_entry(key, value)
    return options


def _provider_names(providers: object) -> list[str]:
    if providers is None:
        return ["CPUExecutionProvider"]
    names = list(providers) if isinstance(providers, list | tuple) else []
    if not names or not all(isinstance(name, str) and name for name in names):
        got = str(providers)[:80] if providers else repr(providers)
        raise ConfigError(f"got the providers {got}, expected a list such as ['CPUExecutionProvider']")
    return names


def _check_providers(asked: Sequence[str], there: Sequence[str], what: str) -> None:
    missing = [name for name in asked if name not in there]
    if missing:
        raise ProviderError(f"{what} {', '.join(missing)}, only {', '.join(there)}: choose among these")


def open_session(
    model: str | Path | bytes,
    *,
    providers: Sequence[str] | None = None,
    threads: int | None = None,
    entries: Mapping[str, str] | None = None,
    optimization: Optimization = "all",
    profile: Path | None = None,
) -> onnxruntime.InferenceSession:
    """Open an onnxruntime session.

    Args:
        model: The path of an .onnx file, or its bytes.
        providers: Execution providers in order of preference; the CPU's by default. The CPU provider
            takes what the others cannot, as always in onnxruntime.
        threads: Threads within an operator; `usable_threads()` by default.
        entries: Session configuration entries that the model file asks for, of `SESSION_ENTRIES`.
        optimization: "all" as users run a model, or "none" to run the graph as it is written.
        profile: What the name of the profile begins with; without it none is written.

    Raises:
        ProviderError: A provider is not in this onnxruntime, or could not be started.
        ConfigError: `threads` or `providers` cannot be used.
        ModelFileError: onnxruntime cannot load the model.
    """
    asked = _provider_names(providers)
    _check_providers(asked, onnxruntime.get_available_providers(), "this onnxruntime has no")
    options = _options(threads, entries or {}, optimization)
    if profile is not None:
        options.enable_profiling, options.profile_file_prefix = True, os.fspath(profile)
    if not isinstance(model, bytes) and not is_utf8(model):
        raise ModelFileError(NOT_UTF8)
    source = model if isinstance(model, bytes) else os.fspath(model)
    try:
        session = onnxruntime.InferenceSession(source, options, providers=asked, enable_fallback=0)
    except ORT_ERRORS as error:
        raise ModelFileError(f"onnxruntime cannot load it: {one_line(error)}") from error
    _check_providers(asked, session.get_providers(), "the session did not start")
    return session
