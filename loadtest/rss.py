"""The memory of a process, as the kernel counts it."""

from pathlib import Path


def resident_bytes() -> int:
    """Return the resident set of this process; 0 where the kernel does not tell."""
    return resident_bytes_of("self")


def resident_bytes_of(pid: int | str) -> int:
    """Return the resident set of a process of ours; 0 where the kernel does not tell."""
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="utf-8").splitlines():
        if line.startswith("Rss:"):
            return int(line.split()[1]) * 1024
    return 0
