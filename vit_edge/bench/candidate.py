"""What is compared: a file with settings."""

import sys
from dataclasses import dataclass, field
from pathlib import Path

from vit_edge.runtime.errors import ConfigError
from vit_edge.runtime.session import SESSION_ENTRIES

__all__ = ["Candidate", "parse_candidate"]

_WORKER = (sys.executable, "-m", "vit_edge.bench.worker")


@dataclass(frozen=True, slots=True)
class Candidate:
    """A file and how it is run.

    Attributes:
        path: a model file, or any `.onnx` with one image input of a fixed size.
        threads: within an operator; by default all that are usable.
        providers: execution providers in order of preference; the CPU's by default.
        entries: session configuration entries, over those that the file asks for.
        label: its name in tables; made of the file's name and the settings by default.
        command: the process that runs it and speaks as `vit_edge.bench.worker` does: other engines have their own.
    """

    path: str
    threads: int | None = None
    providers: tuple[str, ...] = ()
    entries: dict[str, str] = field(default_factory=dict)
    label: str = ""
    command: tuple[str, ...] = _WORKER

    @property
    def name(self) -> str:
        """For people: `int8`, `int8 (threads=1)`."""
        if self.label:
            return self.label
        settings = [f"threads={self.threads}"] if self.threads else []
        settings += [f"provider={each.removesuffix('ExecutionProvider')}" for each in self.providers]
        settings += [f"{key.removeprefix('session.')}={value}" for key, value in sorted(self.entries.items())]
        return f"{Path(self.path).stem} ({', '.join(settings)})" if settings else Path(self.path).stem


def parse_candidate(text: str, *, threads: int | None = None, providers: tuple[str, ...] = ()) -> Candidate:
    """Read a candidate of the command line.

    Args:
        text: FILE, or FILE@KEY=VALUE,KEY=VALUE with the keys `threads`, `provider` and those of `SESSION_ENTRIES`.
        threads: where the text says nothing.
        providers: where the text says nothing.

    Raises:
        ConfigError: a setting is unknown or has no value.

    Example:
        >>> parse_candidate("int8.onnx@threads=1").name
        'int8 (threads=1)'
    """
    path, at, settings = text.rpartition("@")
    if not at or "=" not in settings:  # an @ of the file's name
        return Candidate(text, threads, providers)
    entries: dict[str, str] = {}
    for setting in settings.split(","):
        key, _, value = setting.partition("=")
        if not value:
            raise ConfigError(f"{text}: {setting!r} is no KEY=VALUE")
        if key == "threads":
            threads = _whole(value, text)
        elif key == "provider":
            providers = (value,)
        elif key in SESSION_ENTRIES:
            entries[key] = value
        else:
            raise ConfigError(f"{text}: no setting {key!r}; there are threads, provider, {', '.join(_entries())}")
    return Candidate(path, threads, providers, entries)


def _whole(value: str, text: str) -> int:
    if not value.isdecimal() or not value.isascii() or len(value) > 4:
        raise ConfigError(f"{text}: threads={value[:20]} is no number of threads")
    return int(value)


def _entries() -> list[str]:
    return sorted(SESSION_ENTRIES)
