"""The machine that is measured on: what it is, and whether others work on it."""

import platform
import time
from dataclasses import dataclass
from pathlib import Path

import onnxruntime

from vit_edge.runtime.threads import usable_threads

__all__ = ["Idleness", "Machine", "this_machine"]

_SETTLE = 0.05  # seconds until the threads of a burst sleep
_BUSY = 0.10  # of all CPUs in the pauses, from which on figures are not to be trusted
_IDLE = (3, 4)  # fields of /proc/stat: idle, iowait


@dataclass(frozen=True, slots=True)
class Machine:
    """Where figures come from."""

    cpu: str
    system: str
    threads: int
    onnxruntime: str


def this_machine() -> Machine:
    """The CPU's name, usable threads and versions."""
    return Machine(_cpu(), f"{platform.system()} {platform.machine()}", usable_threads(), onnxruntime.__version__)


def _cpu() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith(("model name", "Model"))]
    return names[0] if names and names[0] else platform.processor() or platform.machine()


class Idleness:
    """How much others use the CPUs while candidates sleep: the share of time that is neither idle nor ours.

    Time that a hypervisor takes away counts as well.
    """

    def __init__(self) -> None:
        self._busy = self._total = 0

    def pause(self, seconds: float) -> None:
        """Sleep, and look what the machine does meanwhile."""
        time.sleep(_SETTLE)
        before = _ticks()
        time.sleep(seconds)
        after = _ticks()
        if before and after:
            spent = [b - a for a, b in zip(before, after, strict=True)]
            self._total += sum(spent)
            self._busy += sum(spent) - sum(spent[i] for i in _IDLE)

    @property
    def busy(self) -> float | None:
        """0 … 1 of all CPUs; None where the system does not say."""
        return self._busy / self._total if self._total else None

    @property
    def notice(self) -> str:
        """In words, where it matters."""
        if self.busy is None or self.busy <= _BUSY:
            return ""
        return (
            f"the machine was {100 * self.busy:.0f} % busy with something else in the pauses: "
            "absolute times are too long, and ratios may be off; stop other work and measure again"
        )


def _ticks() -> list[int]:
    """user, nice, system, idle, iowait, irq, softirq, steal; empty where the system has no such file."""
    try:
        line = Path("/proc/stat").read_text(encoding="ascii").splitlines()[0]
    except (OSError, IndexError):
        return []
    return [int(each) for each in line.split()[1:9]]
