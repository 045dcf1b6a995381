"""CPU steal: the part of the cores' time that the host gave to other guests while we were ready to run.

On a shared machine it explains what nothing in this repository does: a run with a tenth of the cores taken has another
p99 than one with none, from the same code. `steal` of proc(5), /proc/stat, counted by the kernel in hundredths of a
second over all cores.
"""

from pathlib import Path

_STAT = Path("/proc/stat")
_STEAL, _WHOLE = 7, 8
"""Where steal stands among the figures of the first line, and how many of them add up to all time."""


class CpuSteal:
    """Counts from when it is made; figures call it `stolen`."""

    def __init__(self) -> None:
        self._stolen, self._whole = _read()

    def part(self) -> float:
        """Return the part of all cores' time that the host took since, 0 to 1."""
        stolen, whole = _read()
        return (stolen - self._stolen) / max(1, whole - self._whole)


def _read() -> tuple[int, int]:
    _, *figures = _STAT.read_text(encoding="ascii").partition("\n")[0].split()
    ticks = [int(figure) for figure in figures[:_WHOLE]]
    return ticks[_STEAL], sum(ticks)
