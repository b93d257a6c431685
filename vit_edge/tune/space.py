"""What is searched: files to make, times session settings to run them with."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

__all__ = ["BASE", "SETTINGS", "Candidate", "Variant", "candidates", "variants"]

# Of `runtime.session.SESSION_ENTRIES` those that change the time on a CPU and never an answer.
SETTINGS: tuple[Mapping[str, str], ...] = (
    {},
    {"session.dynamic_block_base": "4"},
    {"session.intra_op.allow_spinning": "0"},
)
_PRECISIONS = ("int8", "int8-careful", "int8-bold", "int8-dynamic")


@dataclass(frozen=True, slots=True)
class Variant:
    """A file to make.

    Attributes:
        precision: `fp32`; `int8`; `int8-careful` keeps more layers float; `int8-bold` as few as can be borne;
            `int8-dynamic`.
        size: side of the image in pixels; None is the model's own.
    """

    precision: str
    size: int | None = None

    @property
    def name(self) -> str:
        """Also the file's: `int8`, `fp32-192px`."""
        return self.precision if self.size is None else f"{self.precision}-{self.size}px"


BASE = Variant("fp32")


@dataclass(frozen=True, slots=True)
class Candidate:
    """A file with session settings, as (key, value) pairs in order."""

    variant: Variant
    entries: tuple[tuple[str, str], ...] = ()

    @property
    def name(self) -> str:
        """For people: `int8`, `int8 (dynamic_block_base=4)`."""
        short = [f"{key.rpartition('.')[2]}={value}" for key, value in self.entries]
        return f"{self.variant.name} ({', '.join(short)})" if short else self.variant.name


def variants(sizes: Sequence[int] = ()) -> tuple[Variant, ...]:
    """All files to make: the given model first, every float file before what is made of it.

    Args:
        sizes: other sides of the image, which need a checkpoint.
    """
    own = (BASE, *(Variant(each) for each in _PRECISIONS))
    return own + tuple(Variant(each, size) for size in sizes for each in ("fp32", "int8"))


def candidates(files: Sequence[Variant]) -> tuple[Candidate, ...]:
    """Every file with all settings; the first is the given model as it is."""
    return tuple(Candidate(each, tuple(sorted(entries.items()))) for entries in SETTINGS for each in files)
