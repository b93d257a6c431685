"""What a quantized file's manifest says about its layers: `provenance["quantization"]["layers"]`.

The entry is optional, and written by another part of the project or by nobody: it is checked before it is drawn.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from vit_edge.runtime.manifest import Manifest

__all__ = ["Layer", "quantized_layers"]

_MOST = 20_000  # layers; no ViT has so many


@dataclass(frozen=True, slots=True, kw_only=True)
class Layer:
    """One quantized MatMul or Gemm.

    Attributes:
        name: Like "blocks.7.mlp.fc2".
        damage: What quantizing it alone does to the outputs, as the quantizer measured it; >= 0.
        largest: The largest absolute value of its input.
        p999: The 99.9th percentile of the same.
        found: What the quantizer saw, in words; may be empty.
        decision: "int8", "float", or how it was mended.
        bytes: Of its weights, where they are known.
    """

    name: str
    damage: float
    largest: float
    p999: float
    found: str
    decision: str
    bytes: int | None

    @property
    def mended(self) -> bool:
        """Is part of it, or all, in float? Rescaling alone is no more than another way to write the same numbers."""
        return "float" in self.decision


class _UnreadableError(ValueError):
    """The entry is not what it should be."""


def quantized_layers(manifest: Manifest) -> tuple[tuple[Layer, ...], str]:
    """The layers of the manifest's quantization entry, and what is wrong with the entry.

    Returns:
        The layers in the order of the file, none where there is no entry or a bad one; and one line about a bad
        one, else an empty text.
    """
    entry = manifest.provenance.get("quantization")
    if entry is None:
        return (), ""
    try:
        if not isinstance(entry, Mapping) or not isinstance(entry.get("layers", []), list | tuple):
            raise _UnreadableError("it is no object with a list of layers")
        items = entry.get("layers", [])
        if len(items) > _MOST:
            raise _UnreadableError(f"it has {len(items):,} layers")
        return tuple(_layer(item, f"layers[{index}]") for index, item in enumerate(items)), ""
    except _UnreadableError as problem:
        return (), f"the manifest's quantization entry cannot be drawn: {problem}"


def _layer(item: object, where: str) -> Layer:
    if not isinstance(item, Mapping):
        raise _UnreadableError(f"{where} is no object")
    return Layer(
        name=_text(item, "name", where),
        damage=_number(item, "damage", where),
        largest=_number(item, "max", where),
        p999=_number(item, "p999", where),
        found=_text(item, "found", where) if "found" in item else "",
        decision=_text(item, "decision", where),
        bytes=int(_number(item, "bytes", where)) if "bytes" in item else None,
    )


def _text(item: Mapping[str, object], key: str, where: str) -> str:
    value = item.get(key)
    if not isinstance(value, str):
        raise _UnreadableError(f"{where}.{key} is {str(value)[:40]!r}, expected a text")
    return value


def _number(item: Mapping[str, object], key: str, where: str) -> float:
    value = item.get(key)
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value) or value < 0:
        raise _UnreadableError(f"{where}.{key} is {str(value)[:40]!r}, expected a number of 0 or more")
    return float(value)
