"""This machine: what it has for running a model, and what to know about it."""

import os
import platform
from dataclasses import dataclass

from vit_edge.doctor.importing import Onnxruntime, import_onnxruntime
from vit_edge.runtime.cpu import cpu_features
from vit_edge.runtime.memory import Memory, memory
from vit_edge.runtime.threads import usable_threads

__all__ = ["Machine", "this_machine"]

_X86 = ("x86_64", "amd64", "i686", "i386")
_ARM = ("aarch64", "arm64")
_LITTLE = 512 << 20  # bytes: onnxruntime, numpy and a ViT-Tiny take about 200 MB


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """What `vit-edge doctor` tells without a model."""

    system: str  # "Linux x86_64"
    python: str
    threads: int  # that this process can keep busy
    cores: int | None
    cpu_features: tuple[str, ...]  # sorted; none where the system does not say
    memory: Memory
    onnxruntime: Onnxruntime
    notes: tuple[str, ...]


def this_machine(found: Onnxruntime | None = None) -> Machine:
    """Look at the CPU, the limits of this process, its memory and onnxruntime.

    Args:
        found: The onnxruntime; looked for by default.
    """
    found = found or import_onnxruntime()
    features, ram, machine = cpu_features(), memory(), platform.machine()
    threads, cores = usable_threads(), os.cpu_count()
    return Machine(
        system=f"{platform.system()} {machine}",
        python=platform.python_version(),
        threads=threads,
        cores=cores,
        cpu_features=tuple(sorted(features)),
        memory=ram,
        onnxruntime=found,
        notes=tuple(_notes(features, machine.lower(), threads, cores, ram)),
    )


def _notes(features: frozenset[str], machine: str, threads: int, cores: int | None, ram: Memory) -> list[str]:
    """What follows from it, in words."""
    notes = []
    if features and machine in _X86 and not features & {"avx512_vnni", "avx_vnni"}:
        notes.append(
            "no VNNI: int8 gains less speed here than on newer CPUs (measure with vit-edge bench); vit-edge has "
            "onnxruntime compute its products exactly, other programs set session.x64quantprecision=1"
        )
    if features and machine in _X86 and "avx2" not in features:
        notes.append("no AVX2: everything is several times slower here")
    if features and machine in _ARM and "dotprod" not in features:
        notes.append("no dotprod instructions: int8 brings little speed here; measure with vit-edge bench")
    if cores and threads < cores:
        notes.append(f"affinity or the container's CPU quota leaves {threads} of {cores} CPUs")
    if ram.usable is not None and ram.usable < _LITTLE:
        notes.append(f"{ram.usable >> 20} MiB of memory: open int8 files, and one model at a time")
    return notes
