"""How many threads this process can keep busy."""

import os
from pathlib import Path

from vit_edge.runtime.cgroup import CGROUP_ROOT, PROC_CGROUP, cgroup_folders

__all__ = ["usable_threads"]


def _quota(folder: Path) -> float:
    """The CPUs one cgroup folder allows; infinite where it sets no limit."""
    try:
        if (folder / "cpu.max").is_file():  # version 2: "max 100000" or "150000 100000"
            quota, period = (folder / "cpu.max").read_text(encoding="ascii").split()
        else:  # version 1: -1 is no limit
            quota = (folder / "cpu.cfs_quota_us").read_text(encoding="ascii")
            period = (folder / "cpu.cfs_period_us").read_text(encoding="ascii")
        cpus = int(quota) / int(period)
    except (OSError, ValueError, ZeroDivisionError):  # no such file, "max", or what no kernel writes
        return float("inf")
    return cpus if cpus > 0 else float("inf")


def usable_threads(
    *,
    affinity: int | None = None,
    proc_cgroup: Path = PROC_CGROUP,
    cgroup_root: Path = CGROUP_ROOT,
) -> int:
    """How many threads this process can keep busy: CPU affinity, limited by cgroup quotas, at least 1.

    Args:
        affinity: The number of CPUs this process may run on; asked of the system by default.
        proc_cgroup: The file that names this process's cgroups.
        cgroup_root: Where cgroups are mounted.
    """
    if affinity is None:
        cpus = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
        affinity = cpus or 1
    quotas = [_quota(folder) for folder in cgroup_folders("cpu", proc_cgroup, cgroup_root)]
    return max(1, int(min([float(affinity), *quotas])))
