"""What this CPU can do that decides how fast a model runs, and whether int8 is right."""

from collections.abc import Mapping
from pathlib import Path

__all__ = ["cpu_features"]

# The kernel's names in /proc/cpuinfo -> names as the makers of CPUs write them.
_FEATURES: Mapping[str, str] = {
    # x86
    "sse4_1": "sse4.1",
    "avx": "avx",
    "avx2": "avx2",
    "fma": "fma",
    "f16c": "f16c",  # converts fp16, computes nothing in it
    "avx512f": "avx512f",
    "avx512_vnni": "avx512_vnni",
    "avx_vnni": "avx_vnni",
    "avx512_bf16": "avx512_bf16",
    "avx512_fp16": "avx512_fp16",
    "amx_int8": "amx_int8",
    "amx_bf16": "amx_bf16",
    # Arm
    "asimd": "neon",
    "neon": "neon",
    "asimddp": "dotprod",
    "asimdhp": "fp16",
    "i8mm": "i8mm",
    "bf16": "bf16",
    "sve": "sve",
    "sve2": "sve2",
    "sme": "sme",
}


def cpu_features(cpuinfo: Path = Path("/proc/cpuinfo")) -> frozenset[str]:
    """The features that matter here, like {"avx2", "fma"} or {"neon", "dotprod"}; empty where the system does not say.

    Args:
        cpuinfo: Where the kernel lists them.
    """
    try:
        lines = cpuinfo.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:  # not Linux
        return frozenset()
    flags: set[str] | None = None
    for line in lines:
        key, _, value = line.partition(":")
        if key.strip() in ("flags", "Features"):
            each = set(value.split())
            flags = each if flags is None else flags & each  # a thread may run on any core: little ones have less
    return frozenset(_FEATURES[flag] for flag in flags or () if flag in _FEATURES)
