"""How much memory this process may use."""

import os
import re
from dataclasses import dataclass
from pathlib import Path

from vit_edge.runtime.cgroup import CGROUP_ROOT, PROC_CGROUP, cgroup_folders

__all__ = ["Memory", "memory"]

_LIMITS = ("memory.max", "memory.limit_in_bytes")  # of cgroups, version 2 and 1
_NO_LIMIT = 1 << 60  # version 1 writes a number near 2^63 where there is none


@dataclass(frozen=True, slots=True)
class Memory:
    """In bytes; None where the system does not say."""

    total: int | None  # of the machine
    available: int | None  # without swapping, now
    limit: int | None  # of the container

    @property
    def usable(self) -> int | None:
        """What this process can have at most: the machine's, or the container's where that is less."""
        return min((each for each in (self.total, self.limit) if each is not None), default=None)


def memory(
    *,
    meminfo: Path = Path("/proc/meminfo"),
    proc_cgroup: Path = PROC_CGROUP,
    cgroup_root: Path = CGROUP_ROOT,
) -> Memory:
    """The machine's memory and the container's limit.

    Args:
        meminfo: Where the kernel tells the machine's.
        proc_cgroup: The file that names this process's cgroups.
        cgroup_root: Where cgroups are mounted.
    """
    try:
        text = meminfo.read_text(encoding="ascii", errors="replace")
    except OSError:  # not Linux
        text = ""
    found = {name: 1024 * int(kib) for name, kib in re.findall(r"^(\w+):\s+(\d{1,15}) kB$", text, re.MULTILINE)}
    folders = cgroup_folders("memory", proc_cgroup, cgroup_root)
    limits = [limit for folder in folders for name in _LIMITS if (limit := _limit(folder / name)) is not None]
    return Memory(found.get("MemTotal") or _physical(), found.get("MemAvailable"), min(limits, default=None))


def _limit(file: Path) -> int | None:
    """One cgroup's limit; None where it sets none."""
    try:
        limit = int(file.read_text(encoding="ascii"))
    except (OSError, ValueError):  # no such file, or "max"
        return None
    return limit if 0 < limit < _NO_LIMIT else None


def _physical() -> int | None:
    """The machine's memory where there is no /proc: macOS."""
    names = ("SC_PAGE_SIZE", "SC_PHYS_PAGES")
    if not all(name in getattr(os, "sysconf_names", {}) for name in names):
        return None
    size = os.sysconf(names[0]) * os.sysconf(names[1])
    return size if size > 0 else None
