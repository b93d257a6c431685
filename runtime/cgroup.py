"""The control groups of this process: where a container's limits stand."""

from collections.abc import Iterator
from pathlib import Path

__all__ = ["CGROUP_ROOT", "PROC_CGROUP", "cgroup_folders"]

PROC_CGROUP = Path("/proc/self/cgroup")
CGROUP_ROOT = Path("/sys/fs/cgroup")


def cgroup_folders(controller: str, proc_cgroup: Path = PROC_CGROUP, root: Path = CGROUP_ROOT) -> list[Path]:
    """The folders of this process's cgroups that can limit something, each with all its parents.

    Args:
        controller: What is limited: "cpu" or "memory".
        proc_cgroup: The file that names this process's cgroups.
        root: Where cgroups are mounted.
    """
    try:
        lines = proc_cgroup.read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError):
        return []
    return [folder for line in lines for folder in _folders(line, controller, root)]


def _folders(line: str, controller: str, root: Path) -> Iterator[Path]:
    number, _, rest = line.partition(":")  # "0::/user.slice" in version 2, "4:cpu,cpuacct:/docker/1234" in version 1
    controllers, _, path = rest.partition(":")
    if number == "0" and not controllers:
        mounts = [root, root / "unified"]
    elif controller in controllers.split(","):
        mounts = [root / controllers, root / controller]
    else:
        return
    # Inside a container the path may be the host's: folders that are absent set no limit.
    parts = [part for part in path.split("/") if part not in ("", ".", "..")]
    for mount in mounts:
        yield from (mount.joinpath(*parts[:depth]) for depth in range(len(parts) + 1))
